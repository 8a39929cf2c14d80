"""Encryption, arithmetic, changes of key, and bytes."""

from collections.abc import Callable, Iterator

from tests.reference import encoding
from tests.reference.dtpkc import Compressed
from tests.vectors.world import Case, World, Worlds


def ciphertexts(worlds: Worlds) -> Iterator[Case]:
    for world in worlds.values():
        yield from _encrypt(world)
    for name in ("n256", "n512", "n1024"):
        yield from _arithmetic(worlds[name])
    for name in ("n256", "n512", "n2048"):
        yield from _key_shifts(worlds[name])
    yield from _shifts_refused(worlds["n512"])
    for name in ("n256", "n1024", "n3072"):
        yield from _bytes(worlds[name])


def _encrypt(w: World) -> Iterator[Case]:
    half, e = w.params.n // 2, w.params.exponent_bits
    messages = {"zero": 0, "minus-one": -1, "largest": half, "smallest": -half}
    if w.name not in ("n256", "n512"):
        messages = {"random": w.random.randrange(-half, half)}
    for what, m in messages.items():
        yield w.case("encrypt", what, f"m is {what}", sk=w.sk, m=m, r=w.exponent())
    for what, m in {"above": half + 1, "below": -half - 1}.items():
        comment = f"m is the first integer {what} (-N/2, N/2)"
        yield w.case("encrypt", what, comment, "range", sk=w.sk, m=m, r=w.exponent())
    if w.name == "n512":
        yield w.case("encrypt", "r-one", "the smallest r", sk=w.sk, m=7, r=1)
        yield w.case("encrypt", "r-longest", "the largest r", sk=w.sk, m=7, r=(1 << e) - 1)
        yield w.case("encrypt", "sk-two", "the smallest weak key", sk=2, m=7, r=w.exponent())
        yield w.case("encrypt", "n", "m is N, which is 0 as a residue", "range", sk=w.sk, m=w.params.n, r=5)


def _arithmetic(w: World) -> Iterator[Case]:
    half = w.params.n // 2
    for what, m1, m2 in [("signs", 1000, -1234), ("wraps", half, half)]:
        x, y = w.encryption(m1), w.encryption(m2)
        comment = f"{what}: the sum is taken mod N" if what == "wraps" else "a sum below zero"
        yield w.case("add", what, comment, sk=w.sk, c1=x.c, g1=x.g, c2=y.c, g2=y.g)
    for what, constant in {"positive": 5, "negative": -(2**40), "zero": 0}.items():
        x = w.encryption(17)
        comment = f"a {what} constant"
        yield w.case("add_constant", what, comment, sk=w.sk, c=x.c, g=x.g, constant=constant)
    for what, k in {"one": 1, "mask": 2**63 + 29, "negative": -3}.items():
        x = w.encryption(-99)
        yield w.case("scale", what, f"k is {k}", sk=w.sk, c=x.c, g=x.g, k=k)
    for what, m in {"positive": 2**62 - 1, "zero": 0}.items():
        x = w.encryption(m)
        yield w.case("negate", what, "both parts inverted", sk=w.sk, c=x.c, g=x.g)


def _key_shifts(w: World) -> Iterator[Case]:
    x = w.encryption(-31)
    yield w.case("re_encrypt", "good", "under h_u·h_CS", sk=w.sk, sk_cs=w.sk_cs, c=x.c, g=x.g)
    yield w.case("refresh", "good", "under sk + r, r even", sk=w.sk, r=w.weak_key(), c=x.c, g=x.g)


def _shifts_refused(w: World) -> Iterator[Case]:
    x, n, n2 = w.encryption(-31), w.params.n, w.params.n2
    for what, kind, comment, bad in [
        ("g-jacobi", "jacobi", "a secret must not touch this G", {"g": x.g * w.non_square % n}),
        ("g-minus-one", "trivial", "a power of -1 shows the exponent's parity", {"g": n - 1}),
        ("c-zero", "out-of-range", "C is 0", {"c": 0}),
        ("c-not-reduced", "out-of-range", "C + N²", {"c": x.c + n2}),
    ]:
        inputs = {"sk": w.sk, "c": x.c, "g": x.g, **bad}
        yield w.case("re_encrypt", what, comment, kind, **inputs, sk_cs=w.sk_cs)
        yield w.case("refresh", what, comment, kind, **inputs, r=w.weak_key())


def _bytes(w: World) -> Iterator[Case]:
    n, n2, width = w.params.n, w.params.n2, w.params.n.bit_length() // 8
    x = w.encryption(1)
    data = encoding.to_bytes(w.params, x)
    yield w.case("ciphertext_bytes", "good", "C, then G", c=x.c, g=x.g)
    if w.name == "n256":
        short = _until(lambda: w.encryption(2), lambda y: y.g < 1 << (8 * width - 8))
        yield w.case("ciphertext_bytes", "g-padded", "a G that begins with a zero byte", c=short.c, g=short.g)
        short = _until(lambda: w.encryption(2), lambda y: y.c < 1 << (16 * width - 8))
        yield w.case("ciphertext_bytes", "c-padded", "a C that begins with a zero byte", c=short.c, g=short.g)
    for what, kind, comment, bad in [
        ("short", "length", "the last byte is missing", data[:-1]),
        ("long", "length", "one zero byte more", data + b"\0"),
        ("led", "length", "one zero byte before", b"\0" + data),
        ("empty", "length", "no bytes", b""),
        ("c-alone", "length", "C without G", data[: 2 * width]),
        ("zeros", "out-of-range", "C and G are 0", bytes(3 * width)),
        ("c-n2", "out-of-range", "C is N²", n2.to_bytes(2 * width, "big") + data[2 * width :]),
        ("g-n", "out-of-range", "G is N", data[: 2 * width] + n.to_bytes(width, "big")),
    ]:
        if w.name != "n3072" or kind == "length":
            yield w.case("ciphertext_bytes", what, comment, kind, bytes=bad)


def _until(make: Callable[[], Compressed], good: Callable[[Compressed], bool]) -> Compressed:
    return next(x for x in iter(make, None) if good(x))
