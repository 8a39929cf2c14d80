"""Weak keys, two steps, and strong halves: mostly what must be refused."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.reference import dtpkc
from tests.reference.dtpkc import Compressed
from tests.vectors.world import Case, World, Worlds


def decryption(worlds: Worlds) -> Iterator[Case]:
    for name, w in worlds.items():
        yield from _weak(w)
        yield from _two_steps(w)
        yield from _strong(w)
        every = {"n256": 1, "n512": 1, "n2048": 5}.get(name)
        for refused in (_weak_refused, _two_steps_refused, _strong_refused):
            if every:
                yield from islice(refused(w), 0, None, every)


def _weak(w: World) -> Iterator[Case]:
    m = w.random.randrange(-w.params.n // 2 + 1, w.params.n // 2)
    x = w.encryption(m)
    yield w.case("decrypt_weak", "one-key", "the owner alone", c=x.c, g=x.g, sk_list=[w.sk])
    keys = [w.sk, w.sk_cs, w.sk_other]
    x = w.encryption(-5, *keys)
    yield w.case("decrypt_weak", "three-keys", "under the product of three keys", c=x.c, g=x.g, sk_list=keys)
    comment = "-G for G: weak keys are even, so the sign does not show"
    yield w.case("decrypt_weak", "g-sign", comment, c=x.c, g=w.params.n - x.g, sk_list=keys)


def _bad_elements(w: World, x: Compressed) -> Iterator[tuple[str, str, str, dict[str, int]]]:
    """(what, kind, comment, the bad part): each leaves the other part as it was."""
    n, n2, p, q = w.params.n, w.params.n2, w.p, w.q
    for part, value, top in (("c", x.c, n2), ("g", x.g, n)):
        name = part.upper()
        yield f"{part}-zero", "out-of-range", f"{name} is 0", {part: 0}
        yield f"{part}-modulus", "out-of-range", f"{name} is its modulus", {part: top}
        yield f"{part}-not-reduced", "out-of-range", f"{name} plus its modulus", {part: value + top}
        yield f"{part}-negative", "out-of-range", f"{name} minus its modulus", {part: value - top}
        yield f"{part}-multiple-of-p", "not-a-unit", f"{name} times p", {part: value * p % top}
        yield f"{part}-is-q", "not-a-unit", f"{name} is q", {part: q}
        yield f"{part}-jacobi", "jacobi", "its symbol is -1", {part: value * w.non_square % top}
    yield "c-is-n", "not-a-unit", "C is N", {"c": n}
    yield "g-one", "trivial", "G is 1", {"g": 1}
    yield "g-minus-one", "trivial", "G is -1", {"g": n - 1}


def _weak_refused(w: World) -> Iterator[Case]:
    x, n, n2 = w.encryption(77), w.params.n, w.params.n2
    good = {"c": x.c, "g": x.g, "sk_list": [w.sk]}
    for what, kind, comment, bad in _bad_elements(w, x):
        yield w.case("decrypt_weak", what, comment, kind, **{**good, **bad})
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("wrong-key", "another party's key", {"sk_list": [w.sk_other]}),
        ("key-too-many", "a key that is not in it", {"sk_list": [w.sk, w.sk_cs]}),
        ("c-times-4", "C times a square: every check of the element passes", {"c": x.c * 4 % n2}),
        ("c-sign", "-C for C: a unit with symbol +1, but no square", {"c": n2 - x.c}),
        ("g-times-4", "another G of the right form", {"g": x.g * 4 % n}),
        ("g-of-another", "the G of another ciphertext", {"g": w.encryption(77).g}),
    ]
    for what, comment, change in changes:
        yield w.case("decrypt_weak", what, comment, "decryption", **{**good, **change})
    joint = w.encryption(1, w.sk, w.sk_cs)
    comment = "one of its two keys is missing"
    yield w.case("decrypt_weak", "key-missing", comment, "decryption", c=joint.c, g=joint.g, sk_list=[w.sk])


def _two_steps(w: World) -> Iterator[Case]:
    m = w.random.randrange(-w.params.n // 2 + 1, w.params.n // 2)
    x = w.encryption(m, w.sk, w.sk_cs)
    yield w.case("decrypt_two_steps", "good", "both halves", c=x.c, g=x.g, sk_u=w.sk, sk_cs=w.sk_cs)


def _two_steps_refused(w: World) -> Iterator[Case]:
    x, n = w.encryption(1, w.sk, w.sk_cs), w.params.n
    z = dtpkc.compressed_share(w.params, w.sk, x)
    other = dtpkc.compressed_share(w.params, w.sk, w.encryption(1, w.sk, w.sk_cs))
    good = {"c": x.c, "g": x.g, "sk_u": w.sk, "sk_cs": w.sk_cs}
    for what, kind, comment, bad in [
        ("z-zero", "out-of-range", "z is 0", 0),
        ("z-modulus", "out-of-range", "z is N", n),
        ("z-not-reduced", "out-of-range", "z + N", z + n),
        ("z-negative", "out-of-range", "z - N", z - n),
        ("z-multiple-of-p", "not-a-unit", "z times p", z * w.p % n),
        ("z-jacobi", "jacobi", "its symbol is -1", z * w.non_square % n),
        ("z-times-4", "decryption", "z times 4", z * 4 % n),
        ("z-sign", "decryption", "-z for z", n - z),
        ("z-one", "decryption", "z is 1: the owner did nothing", 1),
        ("z-of-another", "decryption", "the share of another ciphertext", other),
    ]:
        yield w.case("decrypt_two_steps", what, comment, kind, **good, z=bad)
    comment = "the owner must not apply its key to this G"
    bad_g = x.g * w.non_square % n
    yield w.case("decrypt_two_steps", "g-jacobi", comment, "jacobi", **{**good, "g": bad_g})


def _strong(w: World) -> Iterator[Case]:
    half = w.params.n // 2
    for what, m in {"random": w.random.randrange(-half, half), "zero": 0, "smallest": -half}.items():
        if what == "random" or w.name in ("n256", "n512"):
            x = w.encryption(m)
            yield w.case("strong", what, f"m is {what}", c=x.c, **w.shares._asdict())


def _strong_refused(w: World) -> Iterator[Case]:
    n, n2, c = w.params.n, w.params.n2, w.encryption(3).c
    first, second = w.shares
    p1, root1 = dtpkc.strong_half(w.params, c, first), dtpkc.root_half(w.params, c, first)
    swapped = {"p1": dtpkc.strong_half(w.params, c, second), "root1": dtpkc.root_half(w.params, c, second)}
    good = {"c": c, "lambda1": first, "lambda2": second}
    for part, value, top in (("p1", p1, n2), ("root1", root1, n)):
        for what, kind, comment, bad in [
            ("zero", "out-of-range", "is 0", 0),
            ("modulus", "out-of-range", "is its modulus", top),
            ("not-reduced", "out-of-range", "plus its modulus", value + top),
            ("multiple-of-p", "not-a-unit", "times p", value * w.p % top),
            ("jacobi", "jacobi", "times a number of symbol -1", value * w.non_square % top),
            ("times-4", "decryption", "times 4", value * 4 % top),
            ("sign", "decryption", "with the other sign", top - value),
            ("swapped", "decryption", "made with the other server's share", swapped[part]),
        ]:
            yield w.case("strong", f"{part}-{what}", f"{part} {comment}", kind, **good, **{part: bad})
    another = dtpkc.strong_shares(w.p, w.q, w.random.randrange(2 * n, n2 // 4))
    for share in ("lambda1", "lambda2"):
        comment = f"{share} of another deal of the same key"
        wrong = {**good, share: another._asdict()[share]}
        yield w.case("strong", f"{share}-of-another-deal", comment, "decryption", **wrong)
    for what, kind, comment, bad_c in [
        ("c-zero", "out-of-range", "C is 0", 0),
        ("c-modulus", "out-of-range", "C is N²", n2),
        ("c-multiple-of-q", "not-a-unit", "C times q", c * w.q % n2),
        ("c-jacobi", "jacobi", "its symbol is -1", c * w.non_square % n2),
    ]:
        yield w.case("strong", what, comment, kind, **{**good, "c": bad_c})
