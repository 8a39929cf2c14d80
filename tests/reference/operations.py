"""The operations of the test vectors on the reference: parameters and inputs in, the expected object out.

Each works in the compressed form, which is what vectors hold, and does the same in the paper's form; an
AssertionError says that the two do not agree. What must be refused raises `RefusedError`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tests.reference import dtpkc, ed25519, encoding, packing, possession
from tests.reference.canonical import canonical
from tests.reference.dtpkc import Compressed, Paper, Parameters

Inputs: TypeAlias = Mapping[str, Any]
Outputs: TypeAlias = dict[str, Any]


def run(operation: str, params: Parameters, inputs: Inputs) -> Outputs:
    """The expected object of one vector; RefusedError if its inputs must be refused."""
    return OPERATIONS[operation](params, inputs)


def _opened(params: Parameters, ciphertext: Compressed, paper: Paper, *keys: int) -> Outputs:
    """The ciphertext, the same in both forms, with its plaintext, opened with the sum of the keys in both."""
    assert dtpkc.expand(params, ciphertext) == paper
    m = dtpkc.compressed_par_h_dec2(params, sum(keys), ciphertext)
    assert dtpkc.par_h_dec2(params, sum(keys), paper) == m
    return {"c": ciphertext.c, "g": ciphertext.g, "m": m}


def encrypt(params: Parameters, inputs: Inputs) -> Outputs:
    sk, m, r = inputs["sk"], inputs["m"], inputs["r"]
    ciphertext = dtpkc.compressed_ho_enc(params, dtpkc.public_key(params, sk), m, r)
    paper = dtpkc.ho_enc(params, dtpkc.paper_public_key(params, sk), m, r)
    assert _opened(params, ciphertext, paper, sk)["m"] == m
    return {"c": ciphertext.c, "g": ciphertext.g}


def decrypt_weak(params: Parameters, inputs: Inputs) -> Outputs:
    x = Compressed(inputs["c"], inputs["g"])
    return {"m": _opened(params, x, dtpkc.expand(params, x), *inputs["sk_list"])["m"]}


def decrypt_two_steps(params: Parameters, inputs: Inputs) -> Outputs:
    ciphertext = Compressed(inputs["c"], inputs["g"])
    share = dtpkc.compressed_share(params, inputs["sk_u"], ciphertext)
    m = dtpkc.compressed_par_h_dec2(params, inputs["sk_cs"], ciphertext, inputs.get("z", share))
    half_open = dtpkc.par_h_dec1(params, inputs["sk_u"], dtpkc.expand(params, ciphertext))
    assert half_open.c1 == ciphertext.c * pow(share, -params.n, params.n2) % params.n2
    assert dtpkc.par_h_dec2(params, inputs["sk_cs"], half_open) == m
    return {"z": share, "m": m}


def add(params: Parameters, inputs: Inputs) -> Outputs:
    x, y = Compressed(inputs["c1"], inputs["g1"]), Compressed(inputs["c2"], inputs["g2"])
    paper = dtpkc.add(params, dtpkc.expand(params, x), dtpkc.expand(params, y))
    return _opened(params, dtpkc.add(params, x, y), paper, inputs["sk"])


def add_constant(params: Parameters, inputs: Inputs) -> Outputs:
    x, constant = Compressed(inputs["c"], inputs["g"]), inputs["constant"]
    paper = dtpkc.add_constant(params, dtpkc.expand(params, x), constant)
    return _opened(params, dtpkc.add_constant(params, x, constant), paper, inputs["sk"])


def scale(params: Parameters, inputs: Inputs) -> Outputs:
    x, k = Compressed(inputs["c"], inputs["g"]), inputs["k"]
    paper = dtpkc.scale(params, dtpkc.expand(params, x), k)
    return _opened(params, dtpkc.scale(params, x, k), paper, inputs["sk"])


def negate(params: Parameters, inputs: Inputs) -> Outputs:
    x, sk = Compressed(inputs["c"], inputs["g"]), inputs["sk"]
    negated = scale(params, {**inputs, "k": -1})
    by_the_paper = dtpkc.paper_negate(params, dtpkc.expand(params, x))
    assert dtpkc.par_h_dec2(params, sk, by_the_paper) == negated["m"]
    return negated


def re_encrypt(params: Parameters, inputs: Inputs) -> Outputs:
    x, sk_cs = Compressed(inputs["c"], inputs["g"]), inputs["sk_cs"]
    paper = dtpkc.h_re_enc(params, sk_cs, dtpkc.expand(params, x))
    return _opened(params, dtpkc.compressed_h_re_enc(params, sk_cs, x), paper, inputs["sk"], sk_cs)


def refresh(params: Parameters, inputs: Inputs) -> Outputs:
    x, r = Compressed(inputs["c"], inputs["g"]), inputs["r"]
    paper = dtpkc.h_enc_ref(params, r, dtpkc.expand(params, x))
    return _opened(params, dtpkc.compressed_h_re_enc(params, r, x), paper, inputs["sk"], r)


def strong(params: Parameters, inputs: Inputs) -> Outputs:
    """Both forms of the halves, of which a bad vector gives one: `p1` or `root1` is what CC receives."""
    c, lambda1, lambda2 = inputs["c"], inputs["lambda1"], inputs["lambda2"]
    p1, root1 = dtpkc.strong_half(params, c, lambda1), dtpkc.root_half(params, c, lambda1)
    m = dtpkc.root_open(params, c, inputs.get("root1", root1), lambda2)
    assert dtpkc.strong_open(params, c, inputs.get("p1", p1), lambda2) == m
    return {"p1": p1, "root1": root1, "m": m}


def prove_possession(params: Parameters, inputs: Inputs) -> Outputs:
    possession.verify(params, inputs["owner"], inputs["h"], possession.Proof(inputs["c"], inputs["s"]))
    return {}


def pack(params: Parameters, inputs: Inputs) -> Outputs:
    coins = inputs["coins"]
    assert len(coins) <= packing.capacity(params)
    packed = packing.pack(inputs["x"], inputs["s"], coins, inputs["r"], inputs["r_prime"])
    slots = packing.read_slots(packed, len(coins))
    bits = packing.undo_coins(slots, coins)
    assert bits == [int(x <= s) for x, s in zip(inputs["x"], inputs["s"], strict=True)]
    return {"packed": packed, "slot_bits": slots, "bits": bits}


def read_slots(params: Parameters, inputs: Inputs) -> Outputs:
    assert inputs["count"] <= packing.capacity(params)
    return {"slot_bits": packing.read_slots(inputs["packed"], inputs["count"])}


def fixed_point(_: Parameters, inputs: Inputs) -> Outputs:
    return {"integer": encoding.fixed_point(**inputs)}


def ciphertext_bytes(params: Parameters, inputs: Inputs) -> Outputs:
    """A good vector gives c and g, a bad one `bytes`."""
    if "bytes" in inputs:
        ciphertext = encoding.from_bytes(params, inputs["bytes"])
    else:
        ciphertext = Compressed(inputs["c"], inputs["g"])
    data = encoding.to_bytes(params, ciphertext)
    assert encoding.from_bytes(params, data) == ciphertext
    return {"bytes": data}


def signature(_: Parameters, inputs: Inputs) -> Outputs:
    message = canonical(inputs["domain"], *inputs["fields"])
    ed25519.verify(inputs["verify_key"], inputs["signature"], message)
    return {}


OPERATIONS: dict[str, Callable[[Parameters, Inputs], Outputs]] = {
    "encrypt": encrypt,
    "decrypt_weak": decrypt_weak,
    "decrypt_two_steps": decrypt_two_steps,
    "add": add,
    "add_constant": add_constant,
    "scale": scale,
    "negate": negate,
    "re_encrypt": re_encrypt,
    "refresh": refresh,
    "strong": strong,
    "possession": prove_possession,
    "pack": pack,
    "read_slots": read_slots,
    "fixed_point": fixed_point,
    "ciphertext_bytes": ciphertext_bytes,
    "signature": signature,
}
