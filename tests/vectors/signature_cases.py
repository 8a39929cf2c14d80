"""Signatures, and what must not pass for one."""

from collections.abc import Iterator
from itertools import count

from tests.reference import ed25519
from tests.reference.canonical import Field, canonical
from tests.reference.ed25519 import L, P, encode
from tests.vectors.world import Case, World, Worlds

DOMAIN = "revfrf vectors v1"
FIELDS: tuple[Field, ...] = ("bank", 7, b"\x00\xff")


def signatures(worlds: Worlds) -> Iterator[Case]:
    signer = Signer(worlds["n256"])
    yield from _good(signer)
    yield from _other_message(signer)
    yield from _bad_signature(signer)
    yield from _bad_key(signer)


class Signer:
    """A key, and cases whose signature is by default its own for the given domain and fields."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seed = world.random.randbytes(32)
        self.key = ed25519.public_key(self.seed)
        self.message = canonical(DOMAIN, *FIELDS)
        self.signature = ed25519.sign(self.seed, self.message)

    def case(self, what: str, comment: str, error: str | None = None, /, **changes: object) -> Case:
        inputs = {"verify_key": self.key, "signature": self.signature, "domain": DOMAIN, "fields": FIELDS}
        return self.world.case("signature", what, comment, error, **{**inputs, **changes})


def _good(signer: Signer) -> Iterator[Case]:
    shapes: list[tuple[str, str, tuple[Field, ...]]] = [
        ("mixed", "text, a number and bytes", FIELDS),
        ("no-fields", "the domain alone", ()),
        ("small-numbers", "around the ends of one byte", (0, 1, -1, 127, 128, -127, -128, -129, 255, 256)),
        ("large-numbers", "longer than a machine word", (2**64, -(2**64), 2**2047 - 1, -(2**2047))),
        ("text", "empty, and beyond ASCII", ("", "caf\u00e9", "\u6771 \U0001f333", "\x00")),
        ("bytes", "empty, and all kinds", (b"", bytes(range(256)))),
        ("none-and-bools", "neither numbers nor text", (None, True, False)),
        ("tuples", "empty, nested, and side by side", ((), ((),), (1, ("a", (b"b", (None,)))), (True,))),
        ("long", "more fields than a byte can count", tuple(range(300))),
    ]
    for what, comment, fields in shapes:
        signature = ed25519.sign(signer.seed, canonical(DOMAIN, *fields))
        yield signer.case(f"good-{what}", comment, signature=signature, fields=fields)
    domain = "H\u00f4pital"
    signature = ed25519.sign(signer.seed, canonical(domain, *FIELDS))
    yield signer.case("good-domain", "a domain beyond ASCII", signature=signature, domain=domain)


def _other_message(signer: Signer) -> Iterator[Case]:
    changes: list[tuple[str, str, tuple[Field, ...], tuple[Field, ...]]] = [
        ("true-for-1", "True for 1", (1,), (True,)),
        ("1-for-true", "1 for True", (True,), (1,)),
        ("false-for-0", "False for 0", (0,), (False,)),
        ("text-for-number", "'1' for 1", (1,), ("1",)),
        ("bytes-for-text", "b'1' for '1'", ("1",), (b"1",)),
        ("empty-for-none", "'' for None", (None,), ("",)),
        ("false-for-none", "False for None", (None,), (False,)),
        ("tuple-for-none", "() for None", (None,), ((),)),
        ("sign", "-1 for 255: the same byte", (255,), (-1,)),
        ("other-number", "8 for 7", (7,), (8,)),
        ("other-case", "'Bank' for 'bank'", ("bank",), ("Bank",)),
        ("other-unicode-form", "the same letters in another Unicode form", ("caf\u00e9",), ("cafe\u0301",)),
        ("other-bytes", "one bit of the bytes", (b"\x00",), (b"\x01",)),
        ("deeper", "((a,), b) for (a, b)", ("a", "b"), (("a",), "b")),
        ("flat", "(a, b) for ((a, b),)", (("a", "b"),), ("a", "b")),
        ("regrouped", "(a, (b, c)) for ((a, b), c)", (("a", "b"), "c"), ("a", ("b", "c"))),
        ("moved-letter", "('a', 'bc') for ('ab', 'c')", ("ab", "c"), ("a", "bc")),
        ("reordered", "('b', 'a') for ('a', 'b')", ("a", "b"), ("b", "a")),
        ("missing", "the last field is missing", ("a", "b"), ("a",)),
        ("all-missing", "every field is missing", ("a",), ()),
        ("extra", "one more field", ("a",), ("a", "b")),
        ("extra-none", "one more field, None", ("a",), ("a", None)),
        ("twice", "a field twice", ("a",), ("a", "a")),
    ]
    for what, comment, signed, shown in changes:
        signature = ed25519.sign(signer.seed, canonical(DOMAIN, *signed))
        yield signer.case(what, comment, "signature", signature=signature, fields=shown)
    yield signer.case("other-domain", "shown for another purpose", "signature", domain="revfrf vectors v2")
    signature = ed25519.sign(signer.seed, canonical("a", "b", "c"))
    moved = {"signature": signature, "domain": "b", "fields": ("a", "c")}
    yield signer.case("domain-as-field", "domain and first field exchanged", "signature", **moved)
    loose = {"signature": ed25519.sign(signer.seed, b"bank"), "fields": ("bank",)}
    yield signer.case("loose-bytes", "made over the bytes of a field alone", "signature", **loose)


def _bad_signature(signer: Signer) -> Iterator[Case]:
    good, w = signer.signature, signer.world
    r, s = good[:32], int.from_bytes(good[32:], "little")
    other_seed = w.random.randbytes(32)
    bad = [
        ("r-first-bit", "the first bit of R", _flipped(good, 0)),
        ("r-last-bit", "the last bit of R, the sign of its x", _flipped(good, 255)),
        ("s-first-bit", "the first bit of S", _flipped(good, 256)),
        ("s-last-bit", "the last bit of S: out of range", _flipped(good, 511)),
        ("s-plus-l", "S + L: the same S mod L", r + (s + L).to_bytes(32, "little")),
        ("s-zero", "S is 0", r + bytes(32)),
        ("halves-exchanged", "S, R", good[32:] + r),
        ("empty", "no bytes", b""),
        ("short", "the last byte is missing", good[:-1]),
        ("long", "one zero byte more", good + b"\x00"),
        ("r-alone", "R without S", r),
        ("zeros", "64 zero bytes", bytes(64)),
        ("of-another-key", "another key's signature", ed25519.sign(other_seed, signer.message)),
    ]
    for what, comment, signature in bad:
        yield signer.case(what, comment, "signature", signature=signature)
    other_key = ed25519.public_key(other_seed)
    yield signer.case("other-key", "another verify key", "signature", verify_key=other_key)
    yield from _own_tricks(signer)


def _own_tricks(signer: Signer) -> Iterator[Case]:
    """What only the key's owner can make, so that one verifier takes it and another does not."""
    a, nonce = ed25519.secret_scalar(signer.seed), signer.world.random.randrange(1, L)
    shifted = ed25519.add(ed25519.times(nonce, ed25519.B), _small_order_points()[1])
    for what, comment, nonce_used, r in [
        ("r-shifted", "R plus a point of order 8: S·B = R + k·A only after times 8", nonce, encode(shifted)),
        ("r-not-canonical", "R is the neutral point with y = p + 1", 0, _little(P + 1)),
        ("r-minus-zero", "R is the neutral point with x = -0", 0, _little(1 + 2**255)),
    ]:
        signature = ed25519.answer(a, nonce_used, r, signer.key, signer.message)
        yield signer.case(what, comment, "signature", signature=signature)


def _bad_key(signer: Signer) -> Iterator[Case]:
    key = signer.key
    for what, comment, bad in [
        ("key-empty", "no bytes", b""),
        ("key-short", "the last byte is missing", key[:-1]),
        ("key-long", "one zero byte more", key + b"\x00"),
    ]:
        yield signer.case(what, comment, "length", verify_key=bad)
    for i, point in enumerate(_small_order_points()):
        comment = f"{i} times a point of order 8, with a signature that would hold: anybody can make one"
        yield _forged(signer, f"key-small-order-{i}", comment, encode(point))
    for what, comment, y in [
        ("key-one-not-canonical", "the neutral point with y = p + 1", P + 1),
        ("key-minus-zero", "the neutral point with x = -0", 1 + 2**255),
    ]:
        yield _forged(signer, what, f"{comment}, with a signature that would hold", _little(y))
    points = {y: ed25519.decode(_little(y)) for y in range(2, 19)}
    on_curve = next(y for y, point in points.items() if point is not None)
    off_curve = next(y for y, point in points.items() if point is None)
    for what, comment, y in [
        ("key-not-canonical", "a point of large order with y + p for y", on_curve + P),
        ("key-not-on-curve", "no x belongs to this y", off_curve),
        ("key-ones", "all bits set", 2**256 - 1),
    ]:
        yield signer.case(what, comment, "malformed", verify_key=_little(y))


def _forged(signer: Signer, what: str, comment: str, key: bytes) -> Case:
    """[S]B = R + [k]A with S the nonce of R, for an A that k = 0 mod 8 sends to the neutral point."""
    for nonce in count(1):
        r = encode(ed25519.times(nonce, ed25519.B))
        if ed25519.challenge(r, key, signer.message) % 8 == 0:
            break
    signature = ed25519.answer(0, nonce, r, key, signer.message)
    return signer.case(what, comment, "malformed", verify_key=key, signature=signature)


def _small_order_points() -> list[ed25519.Point]:
    """The multiples of a point of order 8, from 0 on."""
    points = (ed25519.decode(_little(y)) for y in count(2))
    cleared = (ed25519.times(L, point) for point in points if point is not None)
    generator = next(point for point in cleared if ed25519.times(4, point) != ed25519.IDENTITY)
    return [ed25519.times(i, generator) for i in range(8)]


def _little(number: int) -> bytes:
    return number.to_bytes(32, "little")


def _flipped(data: bytes, bit: int) -> bytes:
    number = int.from_bytes(data, "little") ^ 1 << bit
    return number.to_bytes(len(data), "little")
