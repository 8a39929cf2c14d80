"""The product's side of the operations that the test vectors and the reference know."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from revfrf.crypto.dtpkc.dtpkc import (
    add,
    add_constant,
    h_enc_ref,
    h_re_enc,
    ho_enc,
    negate,
    par_h_dec1,
    par_h_dec2,
    scale,
)
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey, WeakKey
from revfrf.crypto.dtpkc.packing import (
    Comparison,
    Mask,
    Pack,
    _all_known,
    _slots,
    mask_comparisons,
    undo_coins,
)
from revfrf.crypto.dtpkc.possession import PossessionProof, verify_possession
from revfrf.crypto.dtpkc.strong import Server, StrongShare, root_half, root_open, strong_half, strong_open
from revfrf.crypto.encoding import FixedPoint
from revfrf.crypto.secret import SecretInt
from revfrf.crypto.signing import VerifyKey

Outputs = dict[str, Any]


def masked(
    masks: list[Mask], share: StrongShare, key: PublicKey, comparisons: Sequence[Comparison]
) -> list[Pack]:
    """The packs of these comparisons with these masks."""
    with patch.object(Mask, "generate", side_effect=masks):
        return mask_comparisons(share, key, comparisons, n_jobs=1)[0]


class Product:
    """Each operation of the vectors, by the functions that the product uses."""

    def __init__(self, parameters: Mapping[str, int], inputs: Mapping[str, Any]) -> None:
        self.p = Parameters(
            parameters["n"], parameters["g0"], parameters["exponent_bits"], allow_insecure=True
        )
        self.secrets = parameters
        self.inputs = inputs

    def run(self, operation: str) -> Outputs:
        """The expected object of a vector; raises what the product raises."""
        outputs: Outputs = getattr(self, operation)()
        return outputs

    def key(self, name: str = "sk") -> WeakKey:
        return WeakKey(self.p, SecretInt(self.inputs[name]))

    def ciphertext(self, suffix: str = "") -> Ciphertext:
        return Ciphertext(self.inputs[f"c{suffix}"], self.inputs[f"g{suffix}"])

    def opened(self, ciphertext: Ciphertext, *more_exponents: int) -> Outputs:
        """The ciphertext, and m by `sk` and whatever else was put on top of it."""
        shares = [[pow(ciphertext.g, exponent, self.p.n)] for exponent in more_exponents]
        [m] = par_h_dec2(self.key(), [ciphertext], *shares)
        return {"c": ciphertext.c, "g": ciphertext.g, "m": m}

    def encrypt(self) -> Outputs:
        public = self.key().public
        with patch.object(Parameters, "random_exponent", return_value=self.inputs["r"]):
            [ciphertext] = ho_enc(public, [self.inputs["m"]], n_jobs=1)
        return {"c": ciphertext.c, "g": ciphertext.g}

    def decrypt_weak(self) -> Outputs:
        first, *others = [WeakKey(self.p, SecretInt(sk)) for sk in self.inputs["sk_list"]]
        ciphertexts = [self.ciphertext()]
        [m] = par_h_dec2(first, ciphertexts, *(par_h_dec1(key, ciphertexts) for key in others))
        return {"m": m}

    def decrypt_two_steps(self) -> Outputs:
        ciphertexts = [self.ciphertext()]
        [z] = par_h_dec1(self.key("sk_u"), ciphertexts)
        [m] = par_h_dec2(self.key("sk_cs"), ciphertexts, [self.inputs.get("z", z)])
        return {"z": z, "m": m}

    def add(self) -> Outputs:
        return self.opened(add(self.p, self.ciphertext("1"), self.ciphertext("2")))

    def add_constant(self) -> Outputs:
        return self.opened(add_constant(self.p, self.ciphertext(), self.inputs["constant"]))

    def scale(self) -> Outputs:
        return self.opened(scale(self.p, self.ciphertext(), self.inputs["k"]))

    def negate(self) -> Outputs:
        return self.opened(negate(self.p, self.ciphertext()))

    def re_encrypt(self) -> Outputs:
        [moved] = h_re_enc(self.key("sk_cs"), [self.ciphertext()])
        return self.opened(moved, self.inputs["sk_cs"])

    def refresh(self) -> Outputs:
        [refreshed] = h_enc_ref(self.p, SecretInt(self.inputs["r"]), [self.ciphertext()])
        return self.opened(refreshed, self.inputs["r"])

    def strong(self) -> Outputs:
        cs = [self.inputs["c"]]
        cs_share = self.share("CS", "lambda1", self.inputs)
        cc_share = self.share("CC", "lambda2", self.inputs)
        [p1], [root1] = strong_half(cs_share, cs), root_half(cs_share, cs)
        [m] = root_open(cc_share, cs, [self.inputs.get("root1", root1)])
        assert strong_open(cc_share, cs, [self.inputs.get("p1", p1)]) == [m]
        return {"p1": p1, "root1": root1, "m": m}

    def share(self, server: Server, name: str, values: Mapping[str, int]) -> StrongShare:
        return StrongShare(self.p, server, SecretInt(values[name]))

    def possession(self) -> Outputs:
        proof = PossessionProof(self.inputs["c"], self.inputs["s"])
        verify_possession(PublicKey(self.p, self.inputs["h"]), self.inputs["owner"], proof)
        return {}

    def pack(self) -> Outputs:
        """Through real ciphertexts: encrypted, masked, and opened with the set's own shares."""
        coins = [coin == -1 for coin in self.inputs["coins"]]
        masks = [
            Mask(coin, r, r_prime)
            for coin, r, r_prime in zip(coins, self.inputs["r"], self.inputs["r_prime"], strict=True)
        ]
        key = WeakKey.generate(self.p).public
        xs, ss = ho_enc(key, self.inputs["x"]), ho_enc(key, self.inputs["s"])
        comparisons = [Comparison(x, s) for x, s in zip(xs, ss, strict=True)]
        [pack] = masked(masks, self.share("CS", "lambda1", self.secrets), key, comparisons)
        [packed] = root_open(self.share("CC", "lambda2", self.secrets), [pack.c], [pack.half])
        bits = _all_known(list(_slots(packed, pack.count)))
        answers = undo_coins(bits, coins)
        return {"packed": packed, "slot_bits": list(map(int, bits)), "bits": list(map(int, answers))}

    def read_slots(self) -> Outputs:
        bits = _all_known(list(_slots(self.inputs["packed"], self.inputs["count"])))
        return {"slot_bits": list(map(int, bits))}

    def fixed_point(self) -> Outputs:
        point = FixedPoint(self.inputs["decimals"], self.inputs["ring"], "vector")
        [code] = point.encode([Decimal(self.inputs["value"])], clamp=bool(self.inputs["clamp"]))
        return {"integer": int(code)}

    def ciphertext_bytes(self) -> Outputs:
        if "bytes" in self.inputs:
            return {"bytes": Ciphertext.from_bytes(self.p, self.inputs["bytes"]).to_bytes(self.p)}
        data = self.ciphertext().to_bytes(self.p)
        assert Ciphertext.from_bytes(self.p, data) == self.ciphertext()
        return {"bytes": data}

    def signature(self) -> Outputs:
        key = VerifyKey(self.inputs["verify_key"])
        key.verify(self.inputs["signature"], self.inputs["domain"], *self.inputs["fields"])
        return {}
