"""Secret keys on disk: they come back as they were, or are refused."""

from typing import Any

import pytest
from msgspec.structs import replace

from revfrf.errors import InsecureKeyError, RevFRFError
from revfrf.messages.base import number
from revfrf.messages.key_setup import DtpkcParameters
from revfrf.names import CC, CS, PARTICIPANT
from revfrf.protocols.common.identity import Keys, KeysRecord
from tests.conftest import world_of
from tests.reference.dtpkc import jacobi

TOY = world_of(256)
N, E, G0, SK = TOY.parameters.n, TOY.parameters.exponent_bits, TOY.parameters.g0, TOY.alice.sk.reveal()
NO_SQUARE = next(x for x in range(2, 1000) if jacobi(x, N) == -1)
OF_CS = Keys(TOY.alice, TOY.cs_share).record()


@pytest.mark.parametrize(
    "changes",
    [{}, {"sk": 2}, {"sk": 2**E - 2}, {"sk": 2, "exponent_bits": 16}, {"share": N}, {"share": N * N - 1}],
)
def test_keys_come_back_from_their_record(changes: dict[str, int]) -> None:
    record = changed(OF_CS, **written(changes))
    keys = record.keys(CS, allow_insecure=True)
    assert keys.record() == record
    assert keys.share is not None
    assert keys.share.parameters == keys.weak.parameters
    alone = replace(record, share=None)
    assert alone.keys(PARTICIPANT, allow_insecure=True).record() == alone


def changed(record: KeysRecord, **changes: Any) -> KeysRecord:
    """The record with other values; those of the parameters are one level deeper."""
    below = {name: value for name, value in changes.items() if name in DtpkcParameters.__struct_fields__}
    above = {name: value for name, value in changes.items() if name not in below}
    return replace(record, dtpkc=replace(record.dtpkc, **below), **above)


def written(changes: dict[str, int]) -> dict[str, Any]:
    return {name: value if name == "exponent_bits" else number(value) for name, value in changes.items()}


BAD: list[tuple[dict[str, int], str, list[int]]] = [
    ({}, "sk", [SK + 1, 0, 1 << E]),
    ({"g0": 4, "sk": 2}, "n", [0, N - 1, N >> 1 | 1]),
    ({"g0": 4, "sk": 2, "exponent_bits": 16}, "n", [N >> 208 | 1]),
    ({}, "g0", [1, N - 1, N, G0 * NO_SQUARE % N, TOY.p]),
    ({"sk": 2}, "exponent_bits", [N.bit_length() + 1, 15, -1]),
    ({}, "share", [0, N - 1, N * N]),
]


@pytest.mark.parametrize(
    "changes", [changes | {name: value} for changes, name, values in BAD for value in values]
)
def test_record_that_makes_no_keys_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(RevFRFError):
        changed(OF_CS, **written(changes)).keys(CS, allow_insecure=True)


@pytest.mark.parametrize("name", ["n", "g0", "sk", "share"])
def test_numbers_have_one_form(name: str) -> None:
    value = getattr(OF_CS if name in ("sk", "share") else OF_CS.dtpkc, name)
    with pytest.raises(RevFRFError, match="leading zeros"):
        changed(OF_CS, **{name: b"\0" + value}).keys(CS, allow_insecure=True)


def test_strong_shares_are_for_servers_alone() -> None:
    alone = replace(OF_CS, share=None)
    for role, record in ((PARTICIPANT, OF_CS), (CS, alone), (CC, alone)):
        with pytest.raises(RevFRFError, match="strong shares are for CS and CC"):
            record.keys(role, allow_insecure=True)


def test_an_insecure_key_is_not_read_without_the_switch() -> None:
    with pytest.raises(InsecureKeyError, match="256-bit keys protect nothing"):
        OF_CS.keys(CS, allow_insecure=False)
    real = replace(Keys(world_of(3072).alice, None).record(), sk=number(2))
    with pytest.raises(InsecureKeyError, match="255-bit exponents"):
        changed(real, exponent_bits=255).keys(PARTICIPANT, allow_insecure=False)
    assert changed(real, exponent_bits=256).keys(PARTICIPANT, allow_insecure=False)
