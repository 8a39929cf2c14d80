"""Proofs of possession, and the attacks on them."""

from collections.abc import Iterator
from typing import Any

from tests.reference import dtpkc, possession
from tests.vectors.world import Case, World, Worlds


def possessions(worlds: Worlds) -> Iterator[Case]:
    for name, w in worlds.items():
        yield _proof_case(w, "good", "an honest proof", "bank", w.sk)
        if name in ("n256", "n2048"):
            yield _proof_case(w, "non-ascii", "an owner beyond ASCII, as UTF-8", "H\u00f4pital \u6771", w.sk)
            yield from _proof_refused(w)
            yield from _key_refused(w)
    yield _other_parameters(worlds["n2048"], worlds["n2048-short"])


def _nonce(w: World) -> int:
    return w.random.getrandbits(w.params.exponent_bits + 256 + 128)


def _proof_case(w: World, what: str, comment: str, owner: str, sk: int) -> Case:
    h = dtpkc.public_key(w.params, sk)
    proof = possession.prove(w.params, owner, h, sk, _nonce(w))
    return w.case("possession", what, comment, owner=owner, h=h, **proof._asdict())


def _proof_refused(w: World) -> Iterator[Case]:
    owner, h = "caf\u00e9", dtpkc.public_key(w.params, w.sk)
    c, s = possession.prove(w.params, owner, h, w.sk, _nonce(w))
    limit = 1 << (w.params.exponent_bits + 256 + 129)
    negative = s % w.order - w.order
    too_long = s + -(-(limit - s) // w.order) * w.order
    other_h = dtpkc.public_key(w.params, w.sk_other)
    other = possession.prove(w.params, owner, h, w.sk_other, _nonce(w))
    good = {"owner": owner, "h": h, "c": c, "s": s}
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("other-owner", "the proof of another owner", {"owner": "bank"}),
        ("owner-normalised", "the same letters in another Unicode form", {"owner": "cafe\u0301"}),
        ("other-h", "another public key", {"h": other_h}),
        ("other-sk", "made with another secret than h's", other._asdict()),
        ("h-sign", "-h for h", {"h": w.params.n - h}),
        ("s-plus-one", "s + 1", {"s": s + 1}),
        ("s-negative", "s less a multiple of the order: the bound alone refuses it", {"s": negative}),
        ("s-too-long", "s plus a multiple of the order: the bound alone refuses it", {"s": too_long}),
        ("s-zero", "s is 0", {"s": 0}),
        ("c-tampered", "c with its lowest bit changed", {"c": c ^ 1}),
        ("c-zero", "c is 0: t is g0^s whatever h is", {"c": 0}),
        ("c-negative", "-c for c", {"c": -c}),
        ("c-too-long", "c + 2^256", {"c": c + (1 << 256)}),
    ]
    for what, comment, change in changes:
        yield w.case("possession", what, comment, "proof", **{**good, **change})
    rogue = dtpkc.public_key(w.params, w.sk_other) * pow(dtpkc.public_key(w.params, w.sk_cs), -1, w.params.n)
    rogue %= w.params.n
    proof = possession.prove(w.params, owner, rogue, w.sk_other, _nonce(w))
    comment = "h = g0^a/h_CS, which would cancel CS's key, with a proof made with a"
    yield w.case("possession", "rogue-key", comment, "proof", owner=owner, h=rogue, **proof._asdict())


def _key_refused(w: World) -> Iterator[Case]:
    """Bad keys; the proof for 1 and for -1 would hold."""
    n, h = w.params.n, dtpkc.public_key(w.params, w.sk)
    for what, kind, comment, bad in [
        ("h-one", "trivial", "h is 1, of the weak key 0", 1),
        ("h-minus-one", "trivial", "h is -1, with a proof whose c is even", n - 1),
    ]:
        proofs = (possession.prove(w.params, "bank", bad, 0, _nonce(w)) for _ in range(1000))
        proof = next(proof for proof in proofs if proof.c % 2 == 0)
        yield w.case("possession", what, comment, kind, owner="bank", h=bad, **proof._asdict())
    proof = possession.prove(w.params, "bank", h, w.sk, _nonce(w))
    for what, kind, comment, bad in [
        ("h-zero", "out-of-range", "h is 0", 0),
        ("h-modulus", "out-of-range", "h is N", n),
        ("h-not-reduced", "out-of-range", "h + N", h + n),
        ("h-negative", "out-of-range", "h - N", h - n),
        ("h-multiple-of-p", "not-a-unit", "h times p", h * w.p % n),
        ("h-jacobi", "jacobi", "its symbol is -1", h * w.non_square % n),
    ]:
        yield w.case("possession", what, comment, kind, owner="bank", h=bad, **proof._asdict())


def _other_parameters(made: World, used: World) -> Case:
    sk = used.sk
    h = dtpkc.public_key(used.params, sk)
    proof = possession.prove(made.params, "bank", h, sk, _nonce(used))
    comment = "made for the same N and g0 with another exponent length"
    return used.case("possession", "other-parameters", comment, "proof", owner="bank", h=h, **proof._asdict())
