"""What `benchmarks.micro` times: each operation ready to run on prepared inputs."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import phe

from revfrf.crypto import literal
from revfrf.crypto.arithmetic import FixedBase
from revfrf.crypto.dtpkc import (
    Ciphertext,
    PublicKey,
    WeakKey,
    add,
    h_enc_ref,
    h_re_enc,
    ho_enc,
    negate,
    par_h_dec1,
    par_h_dec2,
    scale,
    zero_encryptions,
)
from revfrf.crypto.packing import (
    Comparison,
    encrypt_bits,
    mask_comparisons,
    read_packs,
    slots,
    unmask_bits,
)
from revfrf.crypto.possession import prove_possession, verify_possession
from revfrf.crypto.secret import SecretInt
from revfrf.crypto.strong import SetUp, root_half, root_open, set_up, strong_half, strong_open

BATCH = 512
FEW = 8
PAILLIER_ENCRYPT = "python-paillier encrypt"
PAILLIER_DECRYPT = "python-paillier decrypt"
ONE_WORKER = "HoEnc, batch, one worker"
LITERAL = "HoLT, literal"
PAPER_HALVES = "strong halves, C^λ1·C^λ2"


@dataclass(frozen=True, slots=True)
class Operation:
    """`run` does the operation `items` times."""

    name: str
    run: Callable[[], object]
    items: int = 1
    baseline: str | None = None


def operations(bits: int) -> list[Operation]:
    """Baselines and operations at one key size, in the order in which they are shown."""
    dealt = set_up(bits, allow_insecure=True)
    p = dealt.parameters
    cs, owner, requester = (WeakKey.generate(p) for _ in range(3))
    cs_key, owner_key, requester_key = cs.public, owner.public, requester.public
    messages = list(range(-BATCH // 2, BATCH // 2))
    few = ho_enc(owner_key, messages, n_jobs=2)[:FEW]  # builds the tables, in the workers too
    few_c = [ciphertext.c for ciphertext in few]
    joint = h_re_enc(cs, few)
    proof = prove_possession(owner, "owner")
    paillier_public, paillier_private = phe.generate_paillier_keypair(n_length=bits)
    paillier_ciphertext = paillier_public.encrypt(7)

    def encrypt(n_jobs: int) -> list[Ciphertext]:
        return ho_enc(owner_key, messages, n_jobs=n_jobs)

    zeros = zero_encryptions(
        owner_key, BATCH, n_jobs=2
    )  # used again and again: here, and only here, harmless
    x, s = ho_enc(requester_key, messages), ho_enc(owner_key, messages[::-1])
    packed = 4 * slots(p)
    questions = [Comparison(a, b) for a, b in zip(x[:packed], s[:packed], strict=True)]
    expected = [a <= b for a, b in zip(messages, messages[::-1], strict=True)][:packed]

    def compare(n_jobs: int) -> None:
        assert compare_packed(dealt, cs, owner, cs_key + owner_key, cs_key, questions, n_jobs) == expected

    def paper_halves() -> list[int]:
        return strong_open(dealt.cc_share, few_c, strong_half(dealt.cs_share, few_c, n_jobs=1), n_jobs=1)

    def compressed_halves() -> list[int]:
        return root_open(dealt.cc_share, few_c, root_half(dealt.cs_share, few_c, n_jobs=1), n_jobs=1)

    def build_tables() -> None:
        for base, modulus in ((p.g0, p.n), (owner_key.lifted, p.n_squared)):
            FixedBase(base, modulus, p.exponent_bits).powers([1] * FixedBase.BREAK_EVEN)

    return [
        Operation(PAILLIER_ENCRYPT, lambda: [paillier_public.encrypt(7) for _ in range(FEW)], FEW),
        Operation(
            PAILLIER_DECRYPT, lambda: [paillier_private.decrypt(paillier_ciphertext) for _ in range(FEW)], FEW
        ),
        Operation("key set-up", lambda: set_up(bits, allow_insecure=True)),
        Operation("weak key with proof", lambda: prove_possession(WeakKey.generate(p), "owner")),
        Operation("check of a proof", lambda: verify_possession(owner_key, "owner", proof)),
        Operation("tables of one key", build_tables),
        Operation(ONE_WORKER, lambda: encrypt(1), BATCH, PAILLIER_ENCRYPT),
        Operation("HoEnc, batch, two workers", lambda: encrypt(2), BATCH, ONE_WORKER),
        Operation("HoEnc, batch, all cores", lambda: encrypt(-1), BATCH, PAILLIER_ENCRYPT),
        Operation(
            "HoEnc, from a full pool",
            lambda: ho_enc(owner_key, messages, zeros=zeros),
            BATCH,
            PAILLIER_ENCRYPT,
        ),
        Operation("check of a ciphertext", lambda: deque(map(p.check, few), 0), FEW),
        Operation("addition", lambda: [add(p, c, c) for c in few], FEW),
        Operation("negation", lambda: [negate(p, c) for c in few], FEW),
        Operation("times a 64-bit number", lambda: [scale(p, c, 2**63 + 1) for c in few], FEW),
        Operation("HReEnc", lambda: h_re_enc(cs, few, n_jobs=1), FEW, PAILLIER_ENCRYPT),
        Operation(
            "HEncRef", lambda: h_enc_ref(p, SecretInt(2**63 + 1), few, n_jobs=1), FEW, PAILLIER_ENCRYPT
        ),
        Operation("ParHDec1", lambda: par_h_dec1(owner, joint, n_jobs=1), FEW, PAILLIER_DECRYPT),
        Operation(
            "decryption with one weak key", lambda: par_h_dec2(owner, few, n_jobs=1), FEW, PAILLIER_DECRYPT
        ),
        Operation(
            "ParHDec1 + ParHDec2",
            lambda: par_h_dec2(cs, joint, par_h_dec1(owner, joint, n_jobs=1), n_jobs=1),
            FEW,
            PAILLIER_DECRYPT,
        ),
        Operation(PAPER_HALVES, paper_halves, FEW, PAILLIER_DECRYPT),
        Operation("strong halves, compressed", compressed_halves, FEW, PAPER_HALVES),
        Operation("HoAdd", lambda: literal_sum(dealt, requester_key, x[0], owner_key, s[0])),
        Operation(LITERAL, lambda: literal_compare(dealt, cs, requester, owner, x[0], s[0])),
        Operation("HoLT, packed, one worker", lambda: compare(1), packed, LITERAL),
        Operation("HoLT, packed, all cores", lambda: compare(-1), packed, LITERAL),
    ]


def compare_packed(
    dealt: SetUp,
    cs: WeakKey,
    owner: WeakKey,
    joint_key: PublicKey,
    cs_key: PublicKey,
    questions: list[Comparison],
    n_jobs: int,
) -> list[bool]:
    """All roles of the packed HoLT, one after the other; one owner holds every s."""
    packs, coins = mask_comparisons(dealt.cs_share, cs_key, questions, n_jobs=n_jobs)
    answers = encrypt_bits(joint_key, read_packs(dealt.cc_share, packs, n_jobs=n_jobs), n_jobs=n_jobs)
    shares = par_h_dec1(owner, answers, n_jobs=n_jobs)
    return unmask_bits(dealt.parameters, par_h_dec2(cs, answers, shares, n_jobs=n_jobs), coins)


def literal_sum(
    dealt: SetUp, key_1: PublicKey, term_1: Ciphertext, key_2: PublicKey, term_2: Ciphertext
) -> Ciphertext:
    return literal.ho_add(
        dealt.cs_share,
        literal.Term(key_1, term_1),
        literal.Term(key_2, term_2),
        lambda request: literal.cc_ho_add(dealt.cc_share, request),
    )


def literal_compare(
    dealt: SetUp, cs: WeakKey, requester: WeakKey, owner: WeakKey, x: Ciphertext, s: Ciphertext
) -> int:
    """All roles of the literal HoLT."""
    answer = literal.ho_lt(
        dealt.cs_share,
        cs.public,
        literal.Term(requester.public, x),
        literal.Term(owner.public, s),
        lambda request: literal.cc_ho_add(dealt.cc_share, request),
        lambda request: literal.cc_ho_lt(dealt.cc_share, request),
    )
    [less] = par_h_dec2(cs, [answer], par_h_dec1(owner, [answer], n_jobs=1), n_jobs=1)
    return less
