"""Key files, whatever is in them: one content in both shapes, and what must not pass for it."""

from collections.abc import Iterator

from tests.reference.keyfile import Document, dump, plain, protected, protection
from tests.vectors.key_cases import keys
from tests.vectors.world import Case, World, Worlds

KIND = "vector"
FIELDS = {"name": "H\u00f4pital \u6771", "empty": "", "quoted": 'a "\\"\n', "seed": "0123456789abcdef"}
PASSPHRASE = "correct horse"  # noqa: S105


def keyfiles(worlds: Worlds) -> Iterator[Case]:
    c = Container(worlds["n256"])
    yield from _good(c)
    for refused in (_header, _form, _plain, _protected, _protection, _tampered):
        yield from refused(c)
    yield from keys(worlds)


class Container:
    """One content in both shapes, and cases about it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plain = plain(KIND, FIELDS)
        self.how = protection(world.random.randbytes(16), world.random.randbytes(12))
        self.protected = self.sealed(self.how)

    def sealed(self, how: Document) -> Document:
        """Sealed with this header, so that nothing else is wrong with it."""
        return protected(KIND, dump(FIELDS), PASSPHRASE, how)

    def case(
        self, what: str, comment: str, error: str | None, data: Document | bytes, passphrase: str | None
    ) -> Case:
        inputs = {"file": data if isinstance(data, bytes) else dump(data), "kind": KIND}
        if passphrase is not None:
            inputs["passphrase"] = passphrase
        return self.world.case("key_file", what, comment, error, **inputs)


def _good(c: Container) -> Iterator[Case]:
    accented = protected(KIND, dump(FIELDS), "caf\u00e9", c.how)
    for what, comment, data, passphrase in [
        ("plain", "no passphrase", c.plain, None),
        ("plain-no-fields", "an empty content", plain(KIND, {}), None),
        ("protected", "a passphrase", c.protected, PASSPHRASE),
        ("protected-no-fields", "an empty content", protected(KIND, b"{}\n", PASSPHRASE, c.how), PASSPHRASE),
        ("accent", "a passphrase beyond ASCII", accented, "caf\u00e9"),
        ("accent-decomposed", "the same passphrase in another Unicode form", accented, "cafe\u0301"),
        ("least-work", "n is 2", c.sealed({**c.how, "n": 2}), PASSPHRASE),
        ("parallel", "p is 4, the most", c.sealed({**c.how, "p": 4}), PASSPHRASE),
    ]:
        yield c.case(what, comment, None, data, passphrase)


def _header(c: Container) -> Iterator[Case]:
    future = {"format": "revfrf-key", "version": 2, "kdf": "argon2id", "new": [1]}
    changes: list[tuple[str, str, str, Document]] = [
        ("version-0", "version", "an older version", {"version": 0}),
        ("version-2", "version", "a later version", {"version": 2}),
        ("kind", "wrong-kind", "a key of another kind", {"kind": "weak-key"}),
        ("kind-case", "wrong-kind", "its kind in capitals", {"kind": KIND.upper()}),
    ]
    for what, kind, comment, change in changes:
        yield c.case(f"plain-{what}", comment, kind, {**c.plain, **change}, None)
        yield c.case(f"protected-{what}", comment, kind, {**c.protected, **change}, PASSPHRASE)
    yield c.case("future-shape", "a later version in a shape of its own", "version", future, None)
    yield c.case("needs-passphrase", "protected, and no passphrase", "passphrase-needed", c.protected, None)
    comment = "a passphrase for a file that has none"
    yield c.case("not-protected", comment, "not-protected", c.plain, PASSPHRASE)


def _form(c: Container) -> Iterator[Case]:
    """Each content has one byte form."""
    for shape, good, passphrase in (("plain", c.plain, None), ("protected", c.protected, PASSPHRASE)):
        data = dump(good)
        for name in good:
            rest = {key: value for key, value in good.items() if key != name}
            yield c.case(f"{shape}-without-{name}", f"{name} is missing", "malformed", rest, passphrase)
        for what, comment, bad in [
            ("unknown", "a member that nobody knows", dump({**good, "comment": "hello"})),
            ("twice", "the kind twice", data.replace(b'  "kind', b'  "kind": "vector",\n  "kind')),
            ("order", "the members in another order", dump(dict(sorted(good.items())))),
            ("no-newline", "no newline at the end", data[:-1]),
            ("newline", "two newlines at the end", data + b"\n"),
            ("space", "one space more", data.replace(b'"kind": ', b'"kind":  ')),
            ("indent", "indented by one space", data.replace(b"\n  ", b"\n ")),
            ("crlf", "another system's line ends", data.replace(b"\n", b"\r\n")),
            ("bom", "a byte order mark", b"\xef\xbb\xbf" + data),
            ("utf-16", "two bytes a character", data.decode().encode("utf-16-le")),
            ("escaped", "a letter as an escape", data.replace(b'"vector"', b'"\\u0076ector"')),
            ("truncated", "its last ten bytes are missing", data[:-10]),
            ("more", "something after the end", data + b"{}"),
            ("version-text", "the version as text", dump({**good, "version": "1"})),
            ("version-float", "the version as 1.0", dump({**good, "version": 1.0})),
            ("version-true", "the version as true", dump({**good, "version": True})),
            ("format", "another format", dump({**good, "format": "age"})),
            ("kind-number", "a kind that is no text", dump({**good, "kind": 1})),
        ]:
            yield c.case(f"{shape}-{what}", comment, "malformed", bad, passphrase)


def _plain(c: Container) -> Iterator[Case]:
    data = dump(c.plain)
    for what, comment, bad in [
        ("empty", "no bytes", b""),
        ("not-json", "no JSON", b"-----BEGIN PRIVATE KEY-----\n"),
        ("not-object", "a list", b"[]\n"),
        ("null", "null", b"null\n"),
        ("not-utf-8", "a byte that no text has", data.replace(b"vector", b"vect\xff")),
        ("not-ascii", "a letter that should be escaped", data.replace(b"\\u00f4", "\u00f4".encode())),
        ("field-twice", "a field twice", data.replace(b'    "seed"', b'    "seed": "",\n    "seed"')),
        ("field-number", "a field that is no text", dump({**c.plain, "fields": {"n": 1}})),
        ("field-null", "a field that is null", dump({**c.plain, "fields": {"n": None}})),
        ("fields-list", "fields that are a list", dump({**c.plain, "fields": []})),
        ("both-shapes", "fields and sealed", dump({**c.plain, "sealed": "00"})),
        ("fields-protected", "fields beside a protection", dump({**c.plain, "protection": c.how})),
    ]:
        yield c.case(what, comment, "malformed", bad, None)


def _protected(c: Container) -> Iterator[Case]:
    sealed = c.protected["sealed"]
    for what, comment, bad in [
        ("upper-case", "sealed in upper case", sealed.upper()),
        ("odd", "half a byte less", sealed[:-1]),
        ("spaced", "a space between bytes", f"{sealed[:2]} {sealed[2:]}"),
        ("number", "sealed is a number", 0),
    ]:
        yield c.case(f"sealed-{what}", comment, "malformed", {**c.protected, "sealed": bad}, PASSPHRASE)
    for what, comment, content in [
        ("not-json", "what is sealed is no JSON", b"hello"),
        ("list", "what is sealed is a list", b"[]\n"),
        ("number", "a sealed field that is no text", dump({"n": 1})),
        ("spaced", "what is sealed has other spaces", b'{"a":"b"}'),
        ("twice", "a sealed field given twice", b'{\n  "a": "x",\n  "a": "b"\n}\n'),
    ]:
        document = protected(KIND, content, PASSPHRASE, c.how)
        yield c.case(f"content-{what}", comment, "malformed", document, PASSPHRASE)
    for name, other in {"kdf": "argon2id", "cipher": "aes-256-gcm"}.items():
        document = c.sealed({**c.how, name: other})
        comment = f"another {name}, and all else right"
        yield c.case(f"protection-{name}", comment, "malformed", document, PASSPHRASE)
        document = c.sealed({key: value for key, value in c.how.items() if key != name})
        yield c.case(f"protection-without-{name}", f"{name} is missing", "malformed", document, PASSPHRASE)
    comment = "sealed without a protection"
    yield c.case("sealed-unprotected", comment, "malformed", {**c.protected, "protection": None}, None)
    document = {**c.protected, "protection": "scrypt"}
    yield c.case("protection-text", "a protection that is text", "malformed", document, PASSPHRASE)


def _protection(c: Container) -> Iterator[Case]:
    """Bad parameters; none of them can be run, so the sealed bytes are those of good ones."""
    salt, nonce = c.how["salt"], c.how["nonce"]
    changes: list[tuple[str, str, str, Document]] = [
        ("n-too-large", "too-large", "n is 2^21", {"n": 2**21}),
        ("n-huge", "too-large", "n is 2^200", {"n": 2**200}),
        ("r-too-large", "too-large", "r is 16", {"r": 16}),
        ("p-too-large", "too-large", "p is 5", {"p": 5}),
        ("n-17", "malformed", "n is no power of 2", {"n": 17}),
        ("n-1", "malformed", "n is 1", {"n": 1}),
        ("n-0", "malformed", "n is 0", {"n": 0}),
        ("n-negative", "malformed", "n is -16", {"n": -16}),
        ("n-float", "malformed", "n is 16.0", {"n": 16.0}),
        ("n-text", "malformed", "n is text", {"n": "16"}),
        ("r-1", "malformed", "r is 1", {"r": 1}),
        ("p-0", "malformed", "p is 0", {"p": 0}),
        ("p-true", "malformed", "p is true", {"p": True}),
        ("salt-short", "malformed", "a salt of 15 bytes", {"salt": salt[2:]}),
        ("salt-long", "malformed", "a salt of 17 bytes", {"salt": salt + "00"}),
        ("salt-number", "malformed", "a salt that is a number", {"salt": 0}),
        ("nonce-short", "malformed", "a nonce of 11 bytes", {"nonce": nonce[2:]}),
        ("nonce-upper-case", "malformed", "a nonce in upper case", {"nonce": nonce.upper()}),
        ("unknown", "malformed", "a member that nobody knows", {"memory": 1}),
    ]
    for what, kind, comment, change in changes:
        document = {**c.protected, "protection": {**c.how, **change}}
        yield c.case(f"protection-{what}", comment, kind, document, PASSPHRASE)


def _tampered(c: Container) -> Iterator[Case]:
    sealed = c.protected["sealed"]
    for what, comment, passphrase in [
        ("wrong", "another passphrase", "incorrect horse"),
        ("case", "in capitals", PASSPHRASE.upper()),
        ("space", "one space more", PASSPHRASE + " "),
    ]:
        yield c.case(f"passphrase-{what}", comment, "passphrase-wrong", c.protected, passphrase)
    changes: list[tuple[str, str, Document]] = [
        ("salt", "one bit of the salt", {"salt": _flipped(c.how["salt"], 0)}),
        ("nonce", "one bit of the nonce", {"nonce": _flipped(c.how["nonce"], 0)}),
        ("n", "more work than was done", {"n": 32}),
        ("p", "more work than was done", {"p": 2}),
    ]
    for what, comment, change in changes:
        document = {**c.protected, "protection": {**c.how, **change}}
        yield c.case(f"tampered-{what}", comment, "passphrase-wrong", document, PASSPHRASE)
    other = protected("weak-key", dump(FIELDS), PASSPHRASE, c.how)
    for what, comment, bad in [
        ("first", "one bit of the first sealed byte", _flipped(sealed, 0)),
        ("last", "one bit of the tag", _flipped(sealed, -1)),
        ("short", "the last sealed byte is missing", sealed[:-2]),
        ("long", "one sealed byte more", sealed + "00"),
        ("tag-alone", "the tag alone", sealed[-32:]),
        ("less-than-a-tag", "fewer bytes than a tag has", sealed[-30:]),
        ("empty", "nothing sealed", ""),
        ("other-kind", "sealed as another kind of key", other["sealed"]),
    ]:
        document = {**c.protected, "sealed": bad}
        yield c.case(f"sealed-{what}", comment, "passphrase-wrong", document, PASSPHRASE)


def _flipped(text: str, digit: int) -> str:
    """Hex with the lowest bit of one digit changed."""
    digits = list(text)
    digits[digit] = f"{int(digits[digit], 16) ^ 1:x}"
    return "".join(digits)
