"""What `benchmarks.micro` times: each operation ready to run on prepared inputs."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import phe

from revfrf.crypto.dtpkc import as_printed
from revfrf.crypto.dtpkc.arithmetic import FixedBase
from revfrf.crypto.dtpkc.dtpkc import (
    add,
    h_enc_ref,
    h_re_enc,
    ho_enc,
    negate,
    par_h_dec1,
    par_h_dec2,
    scale,
)
from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.packing import (
    Comparison,
    mask_comparisons,
    read_packs,
    slots,
    undo_coins,
)
from revfrf.crypto.dtpkc.possession import prove_possession, verify_possession
from revfrf.crypto.dtpkc.sealed_bits import open_bits, seal_bits
from revfrf.crypto.dtpkc.strong import root_half, root_open, set_up, strong_half, strong_open
from revfrf.crypto.secret import SecretInt

BATCH = 512
FEW = 8
PAILLIER_ENCRYPT = "paillier encrypt"
PAILLIER_DECRYPT = "paillier decrypt"
ONE_WORKER = "HoEnc, 1 worker"
AS_PRINTED = "HoLT, as printed"
PAPER_HALVES = "strong halves, paper"


@dataclass(frozen=True, slots=True)
class Operation:
    """`run` does the operation `items` times."""

    name: str
    run: Callable[[], object]
    items: int = 1
    baseline: str | None = None


class Bench:
    """Keys and ciphertexts of one size. CS and an owner share a joint key; a requester has its own."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.dealt = set_up(bits, allow_insecure=True)
        self.p = self.dealt.parameters
        self.cs, self.owner, self.requester = (WeakKey.generate(self.p) for _ in range(3))
        self.messages = list(range(-BATCH // 2, BATCH // 2))
        self.x = ho_enc(self.requester.public, self.messages, n_jobs=2)
        self.s = ho_enc(self.owner.public, self.messages[::-1], n_jobs=2)  # the tables are built from here on
        self.few = self.s[:FEW]
        self.few_c = [ciphertext.c for ciphertext in self.few]
        self.joint = h_re_enc(self.cs, self.few)

    def operations(self) -> list[Operation]:
        """Baselines and operations, in the order in which they are shown."""
        return self.paillier() + self.keys() + self.encryption() + self.decryption() + self.comparison()

    def paillier(self) -> list[Operation]:
        public, private = phe.generate_paillier_keypair(n_length=self.bits)
        ciphertext = public.encrypt(7)
        return [
            Operation(PAILLIER_ENCRYPT, lambda: [public.encrypt(7) for _ in range(FEW)], FEW),
            Operation(PAILLIER_DECRYPT, lambda: [private.decrypt(ciphertext) for _ in range(FEW)], FEW),
        ]

    def keys(self) -> list[Operation]:
        proof = prove_possession(self.owner, "owner")
        return [
            Operation("key set-up", lambda: set_up(self.bits, allow_insecure=True)),
            Operation("weak key and proof", lambda: prove_possession(WeakKey.generate(self.p), "owner")),
            Operation("check of a proof", lambda: verify_possession(self.owner.public, "owner", proof)),
            Operation("tables of one key", self.build_tables),
        ]

    def build_tables(self) -> None:
        for base, modulus in ((self.p.g0, self.p.n), (self.owner.public.lifted, self.p.n_squared)):
            FixedBase(base, modulus, self.p.exponent_bits).powers([1] * FixedBase.BREAK_EVEN)

    def encryption(self) -> list[Operation]:
        p, few, key = self.p, self.few, self.owner.public
        on = partial(partial, ho_enc, key, self.messages)
        return [
            Operation(ONE_WORKER, on(n_jobs=1), BATCH, PAILLIER_ENCRYPT),
            Operation("HoEnc, 2 workers", on(n_jobs=2), BATCH, ONE_WORKER),
            Operation("HoEnc, all cores", on(n_jobs=-1), BATCH, PAILLIER_ENCRYPT),
            Operation("ciphertext check", lambda: deque(map(p.check, few), 0), FEW),
            Operation("addition", lambda: [add(p, c, c) for c in few], FEW),
            Operation("negation", lambda: [negate(p, c) for c in few], FEW),
            Operation("times 64 bits", lambda: [scale(p, c, 2**63 + 1) for c in few], FEW),
        ]

    def decryption(self) -> list[Operation]:
        p, few, joint, c_parts = self.p, self.few, self.joint, self.few_c
        cs_share, cc_share = self.dealt.cs_share, self.dealt.cc_share

        def two_steps() -> list[int]:
            return par_h_dec2(self.cs, joint, par_h_dec1(self.owner, joint, n_jobs=1), n_jobs=1)

        def paper_halves() -> list[int]:
            return strong_open(cc_share, c_parts, strong_half(cs_share, c_parts, n_jobs=1), n_jobs=1)

        def compressed_halves() -> list[int]:
            return root_open(cc_share, c_parts, root_half(cs_share, c_parts, n_jobs=1), n_jobs=1)

        r = SecretInt(p.random_exponent())
        return [
            Operation("HReEnc", lambda: h_re_enc(self.cs, few, n_jobs=1), FEW, PAILLIER_ENCRYPT),
            Operation("HEncRef", lambda: h_enc_ref(p, r, few, n_jobs=1), FEW, PAILLIER_ENCRYPT),
            Operation("ParHDec1", lambda: par_h_dec1(self.owner, joint, n_jobs=1), FEW, PAILLIER_DECRYPT),
            Operation("ParHDec1, ParHDec2", two_steps, FEW, PAILLIER_DECRYPT),
            Operation(
                "weak decryption", lambda: par_h_dec2(self.owner, few, n_jobs=1), FEW, PAILLIER_DECRYPT
            ),
            Operation(PAPER_HALVES, paper_halves, FEW, PAILLIER_DECRYPT),
            Operation("strong halves, ours", compressed_halves, FEW, PAPER_HALVES),
        ]

    def comparison(self) -> list[Operation]:
        count = 4 * slots(self.p)
        return [
            Operation("HoAdd", self.printed_sum),
            Operation(AS_PRINTED, self.printed_less),
            Operation("HoLT, packed, 1 worker", lambda: self.packed(count, 1), count, AS_PRINTED),
            Operation("HoLT, packed, all cores", lambda: self.packed(count, -1), count, AS_PRINTED),
        ]

    def printed_terms(self) -> tuple[as_printed.Term, as_printed.Term]:
        return as_printed.Term(self.requester.public, self.x[0]), as_printed.Term(
            self.owner.public, self.s[0]
        )

    def printed_sum(self) -> None:
        share = self.dealt.cc_share
        as_printed.ho_add(self.dealt.cs_share, *self.printed_terms(), partial(as_printed.cc_ho_add, share))

    def printed_less(self) -> None:
        """All roles of the paper's HoLT, one after the other."""
        share = self.dealt.cc_share
        answer = as_printed.ho_lt(
            self.dealt.cs_share,
            self.cs.public,
            *self.printed_terms(),
            partial(as_printed.cc_ho_add, share),
            partial(as_printed.cc_ho_lt, share),
        )
        shares = par_h_dec1(self.owner, [answer], n_jobs=1)
        assert par_h_dec2(self.cs, [answer], shares, n_jobs=1) == [self.messages[0] < self.messages[-1]]

    def packed(self, count: int, n_jobs: int) -> None:
        """All roles of the packed HoLT, one after the other; one owner holds every s."""
        questions = [Comparison(x, s) for x, s in zip(self.x[:count], self.s[:count], strict=True)]
        packs, coins = mask_comparisons(self.dealt.cs_share, self.cs.public, questions, n_jobs=n_jobs)
        bits = read_packs(self.dealt.cc_share, packs, n_jobs=n_jobs)
        sealed = seal_bits(self.cs.public + self.owner.public, bits)
        shares = par_h_dec1(self.owner, [sealed.ciphertext], n_jobs=n_jobs)
        [opened] = open_bits(self.cs, [sealed], shares, n_jobs=n_jobs)
        results = undo_coins(opened, coins)
        plain = zip(self.messages, self.messages[::-1], strict=True)
        assert results == [x <= s for x, s in plain][:count]
