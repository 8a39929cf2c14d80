"""Secret keys as named strings: they come back as they were, or are refused."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.crypto.signing import SigningKey
from revfrf.errors import InsecureKeyError, RevFRFError
from tests.conftest import world_of
from tests.reference.dtpkc import jacobi

Fields = dict[str, str]
TOY = world_of(256)
WEAK, SHARE, SIGNING = TOY.alice.to_fields(), TOY.cs_share.to_fields(), SigningKey.generate().to_fields()
N, E, G0 = TOY.parameters.n, TOY.parameters.exponent_bits, TOY.parameters.g0
SEED = SIGNING["seed"]
NO_SQUARE = next(x for x in range(2, 1000) if jacobi(x, N) == -1)
READ: dict[str, Callable[[Fields], Any]] = {
    "weak key": partial(WeakKey.from_fields, allow_insecure=True),
    "strong share": partial(StrongShare.from_fields, allow_insecure=True),
    "signing key": SigningKey.from_fields,
}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("weak key", WEAK),
        ("weak key", WEAK | {"sk": "2"}),
        ("weak key", WEAK | {"sk": f"{2**E - 2:x}"}),
        ("weak key", WEAK | {"sk": "2", "exponent_bits": "10"}),
        ("strong share", SHARE),
        ("strong share", TOY.cc_share.to_fields()),
        ("strong share", SHARE | {"value": f"{N:x}"}),
        ("strong share", SHARE | {"value": f"{N * N - 1:x}"}),
        ("signing key", SIGNING),
    ],
)
def test_keys_come_back_from_their_fields(kind: str, fields: Fields) -> None:
    assert READ[kind](fields).to_fields() == fields


BAD: list[tuple[str, Fields, str, list[str]]] = [
    ("weak key", WEAK, "sk", [f"{TOY.alice.sk.reveal() + 1:x}", "0", f"{1 << E:x}", f"-{WEAK['sk']}"]),
    ("weak key", WEAK, "sk", ["secret", ""]),
    ("weak key", WEAK | {"g0": "4", "sk": "2"}, "n", ["0", f"-{N:x}", f"{N - 1:x}", f"{N >> 1 | 1:x}"]),
    ("weak key", WEAK | {"g0": "4", "sk": "2", "exponent_bits": "10"}, "n", [f"{N >> 208 | 1:x}"]),
    ("weak key", WEAK, "g0", ["1", f"{N - 1:x}", f"{N:x}", f"{G0 * NO_SQUARE % N:x}", f"{TOY.p:x}"]),
    ("weak key", WEAK | {"sk": "2"}, "exponent_bits", [f"{N.bit_length() + 1:x}", "f"]),
    ("strong share", SHARE, "value", ["0", f"{N * N:x}", f"-{SHARE['value']}", "x"]),
    ("strong share", SHARE, "server", ["KGC", "cs", ""]),
    ("signing key", SIGNING, "seed", [SEED[2:], SEED + "00", SEED[1:], "zz" * 32, ""]),
]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(kind, fields | {name: value}) for kind, fields, name, values in BAD for value in values],
)
def test_fields_that_make_no_key_are_refused(kind: str, fields: Fields) -> None:
    with pytest.raises((RevFRFError, ValueError)):
        READ[kind](fields)


@pytest.mark.parametrize(("kind", "fields"), list(zip(READ, [WEAK, SHARE, SIGNING], strict=True)))
def test_a_missing_field_is_refused(kind: str, fields: Fields) -> None:
    for name in fields:
        with pytest.raises(KeyError, match=name):
            READ[kind]({other: value for other, value in fields.items() if other != name})


def test_an_insecure_key_is_not_read_without_the_switch() -> None:
    for key in (WeakKey, StrongShare):
        with pytest.raises(InsecureKeyError, match="256-bit keys protect nothing"):
            key.from_fields(WEAK | SHARE, allow_insecure=False)
    real = world_of(3072).alice.to_fields()
    assert WeakKey.from_fields(real, allow_insecure=False).to_fields() == real
    with pytest.raises(InsecureKeyError, match="255-bit exponents"):
        WeakKey.from_fields(real | {"sk": "2", "exponent_bits": f"{255:x}"}, allow_insecure=False)
    assert WeakKey.from_fields(real | {"sk": "2", "exponent_bits": f"{256:x}"}, allow_insecure=False)
