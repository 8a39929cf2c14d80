"""The keys in key files: a weak key, a strong share, a signing key, and what must not pass for one."""

from collections.abc import Iterator

from tests.reference.keyfile import Fields, dump, plain, protected, protection
from tests.vectors.world import Case, World, Worlds

PASSPHRASE = "correct horse"  # noqa: S105


def keys(worlds: Worlds) -> Iterator[Case]:
    for name in ("n256", "n2048"):
        yield from _good(worlds[name])
    yield from _ends(worlds["n256"])
    yield from _refused(worlds["n256"])
    yield from _sizes(worlds["n256"])
    yield from _insecure(worlds["n256"], worlds["n2048"])


def _fields(w: World) -> dict[str, Fields]:
    """Kind → the fields that are saved."""
    parameters = {name: f"{number:x}" for name, number in w.params._asdict().items()}
    return {
        "weak-key": {**parameters, "sk": f"{w.sk:x}"},
        "strong-share": {**parameters, "server": "CS", "value": f"{w.shares.lambda1:x}"},
        "signing-key": {"seed": bytes(range(100, 132)).hex()},
    }


def _case(
    w: World, what: str, comment: str, error: str | None, kind: str, fields: Fields, allow: int = 1
) -> Case:
    inputs = {"file": dump(plain(kind, fields)), "kind": kind, "allow_insecure": allow}
    return w.case("load_key", f"{kind}-{what}", comment, error, **inputs)


def _good(w: World) -> Iterator[Case]:
    """As `save_key` writes them; keys of real size need no switch."""
    allow = int(w.name == "n256")
    how = protection(w.random.randbytes(16), w.random.randbytes(12))
    for kind, fields in _fields(w).items():
        yield _case(w, "good", "as it is saved", None, kind, fields, allow)
        data = dump(protected(kind, dump(fields), PASSPHRASE, how))
        inputs = {"file": data, "kind": kind, "passphrase": PASSPHRASE, "allow_insecure": allow}
        yield w.case("load_key", f"{kind}-protected", "with a passphrase", **inputs)
    second = {**_fields(w)["strong-share"], "server": "CC", "value": f"{w.shares.lambda2:x}"}
    yield _case(w, "of-cc", "the other server's", None, "strong-share", second, allow)


def _ends(w: World) -> Iterator[Case]:
    weak, share = _fields(w)["weak-key"], _fields(w)["strong-share"]
    for what, sk in {"least": 2, "most": 2**w.params.exponent_bits - 2}.items():
        yield _case(w, what, f"the {what} there can be", None, "weak-key", {**weak, "sk": f"{sk:x}"})
    for what, value in {"least": w.params.n, "most": w.params.n2 - 1}.items():
        fields = {**share, "value": f"{value:x}"}
        yield _case(w, what, f"the {what} there can be", None, "strong-share", fields)
    yield _case(w, "no-switch", "it has no size", None, "signing-key", _fields(w)["signing-key"], 0)


def _refused(w: World) -> Iterator[Case]:
    for kind, good in _fields(w).items():
        for what, name, comment, value in _bad_values(w, kind):
            yield _case(w, what, f"{name}: {comment}", "malformed", kind, {**good, name: value})
        yield _case(w, "extra", "one field more", "malformed", kind, {**good, "more": "1"})
        for name in good:
            rest = {key: value for key, value in good.items() if key != name}
            yield _case(w, f"without-{name}", f"{name} is missing", "malformed", kind, rest)
    data = dump(plain("weak-key", _fields(w)["weak-key"]))
    inputs = {"file": data, "kind": "strong-share", "allow_insecure": 1}
    yield w.case("load_key", "strong-share-weak-key", "a weak key for a share", "wrong-kind", **inputs)


def _bad_values(w: World, kind: str) -> list[tuple[str, str, str, str]]:
    """(what, the field, comment, its value)."""
    n, e, sk, value = w.params.n, w.params.exponent_bits, w.sk, w.shares.lambda1
    seed = _fields(w)["signing-key"]["seed"]
    return {
        "weak-key": [
            ("odd", "sk", "an odd number", f"{sk + 1:x}"),
            ("zero", "sk", "0", "0"),
            ("too-long", "sk", "2^E", f"{1 << e:x}"),
            ("negative", "sk", "below zero", f"-{sk:x}"),
            ("led", "sk", "a zero in front", f"0{sk:x}"),
            ("prefixed", "sk", "0x in front", f"0x{sk:x}"),
            ("upper-case", "sk", "in capitals", f"{sk:X}"),
            ("underscored", "sk", "underscores between the digits", f"{sk:_x}"),
            ("spaced", "sk", "a space behind", f"{sk:x} "),
            ("newline", "sk", "a newline behind", f"{sk:x}\n"),
            ("other-digits", "sk", "digits of another script", "\u0661\u0662"),
            ("no-number", "sk", "no number", "secret"),
            ("empty", "sk", "no digits", ""),
            ("n-zero", "n", "0", "0"),
            ("n-negative", "n", "below zero", f"-{n:x}"),
            ("g0-one", "g0", "1", "1"),
            ("g0-minus-one", "g0", "-1", f"{n - 1:x}"),
            ("g0-modulus", "g0", "N", f"{n:x}"),
            ("g0-jacobi", "g0", "its symbol is -1", f"{w.params.g0 * w.non_square % n:x}"),
            ("g0-multiple-of-p", "g0", "p", f"{w.p:x}"),
            ("e-too-long", "exponent_bits", "longer than N", f"{n.bit_length() + 1:x}"),
            ("e-led", "exponent_bits", "a zero in front", f"0{e:x}"),
        ],
        "strong-share": [
            ("zero", "value", "0", "0"),
            ("too-large", "value", "N²", f"{n * n:x}"),
            ("negative", "value", "below zero", f"-{value:x}"),
            ("led", "value", "a zero in front", f"0{value:x}"),
            ("of-kgc", "server", "one that holds no share", "KGC"),
            ("server-case", "server", "in small letters", "cs"),
            ("server-empty", "server", "no name", ""),
        ],
        "signing-key": [
            ("short", "seed", "31 bytes", seed[2:]),
            ("long", "seed", "33 bytes", seed + "00"),
            ("odd", "seed", "half a byte less", seed[1:]),
            ("upper-case", "seed", "in capitals", seed.upper()),
            ("spaced", "seed", "a space between bytes", f"{seed[:2]} {seed[2:]}"),
            ("empty", "seed", "no bytes", ""),
        ],
    }[kind]


def _sizes(w: World) -> Iterator[Case]:
    """With the generator 4, which is good for every odd modulus, and a weak key for every E."""
    n, weak = w.params.n, {**_fields(w)["weak-key"], "g0": "4", "sk": "2"}
    yield _case(w, "size-good", "E is 16, the least", None, "weak-key", {**weak, "exponent_bits": "10"})
    for what, comment, change in [
        ("n-255-bits", "N of 255 bits", {"n": f"{n >> 1 | 1:x}"}),
        ("n-48-bits", "N of 48 bits", {"n": f"{n >> 208 | 1:x}", "exponent_bits": "10"}),
        ("n-even", "an even N", {"n": f"{n - 1:x}"}),
        ("e-15", "E is 15", {"exponent_bits": "f"}),
    ]:
        yield _case(w, what, comment, "malformed", "weak-key", {**weak, **change})


def _insecure(toy: World, real: World) -> Iterator[Case]:
    for kind in ("weak-key", "strong-share"):
        yield _case(toy, "insecure", "256 bits", "insecure-key", kind, _fields(toy)[kind], 0)
    short = {**_fields(real)["weak-key"], "exponent_bits": f"{255:x}", "sk": "2"}
    yield _case(real, "insecure", "E is 255", "insecure-key", "weak-key", short, 0)
    yield _case(real, "insecure-allowed", "E is 255, with the switch", None, "weak-key", short)
    enough = {**short, "exponent_bits": f"{256:x}"}
    yield _case(real, "just-secure", "E is 256", None, "weak-key", enough, 0)
