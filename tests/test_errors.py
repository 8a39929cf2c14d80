"""Errors carry their kind wherever they go, and bad input never ends in somebody else's exception."""

import copy
import pickle
from typing import Any, TypeVar

import numpy as np
import pytest

from revfrf import errors
from revfrf.crypto.dtpkc.dtpkc import add_constant, h_enc_ref, ho_enc, par_h_dec2, scale
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.crypto.dtpkc.packing import Pack
from revfrf.crypto.dtpkc.possession import PossessionProof
from revfrf.crypto.dtpkc.strong import set_up
from revfrf.crypto.encoding import FixedPoint
from revfrf.embedded.federation import Federation
from revfrf.errors import (
    NoForestError,
    PartyError,
    PolicyError,
    RefusedError,
    RejectedError,
    RevFRFError,
    UsageError,
)
from revfrf.protocols.common.request import RequestPolicy
from revfrf.protocols.sides import TRAINING
from revfrf.testing import federations
from revfrf.testing.federations import Codes, random_case, targets_of
from tests.conftest import World

Error = TypeVar("Error", bound=RevFRFError)


def subclasses(base: type[Error]) -> list[type[Error]]:
    return [base, *(error for child in base.__subclasses__() for error in subclasses(child))]


OF_PARTIES = subclasses(PartyError)
OTHERS = [error for error in subclasses(RevFRFError) if error not in OF_PARTIES]


def name_of(error: type[RevFRFError]) -> str:
    return error.__name__


@pytest.mark.parametrize("error", OTHERS, ids=name_of)
def test_errors_survive_a_trip_between_processes(error: type[RevFRFError]) -> None:
    for kind in (None, "special"):
        made = error("the reason", kind=kind)
        back = pickle.loads(pickle.dumps(made))  # noqa: S301
        assert (type(back), str(back), back.kind) == (error, "the reason", made.kind)


@pytest.mark.parametrize("error", OF_PARTIES, ids=name_of)
def test_errors_of_other_parties_name_them_and_survive_a_trip_between_processes(
    error: type[PartyError],
) -> None:
    made = error("bank", "the reason")
    for same in (made, pickle.loads(pickle.dumps(made)), copy.copy(made)):  # noqa: S301
        assert type(same) is error
        assert (same.party, same.reason, str(same)) == ("bank", "the reason", "'bank' the reason")
        assert same.kind == error.kind


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    for error in subclasses(RevFRFError):
        assert error.__name__ in errors.__doc__ or not error.__module__.startswith("revfrf.")


def test_all_refusals_but_two_look_alike_to_a_peer() -> None:
    told = {error: error("x", kind="y").peer_message for error in subclasses(RejectedError)}
    assert told.pop(PolicyError) == "its policy does not accept this request"
    assert told.pop(NoForestError) == "the forest is not ready"
    assert set(told.values()) == {"rejected"}


def test_a_refusal_by_policy_tells_a_peer_neither_which_rule_nor_what_is_left() -> None:
    policies = [
        RequestPolicy(refuses=["mallory"]),
        RequestPolicy(accepts=["alice"]),
        RequestPolicy(max_rows=6),
        RequestPolicy(max_rows=0),
    ]
    refused = []
    for policy in policies:
        with pytest.raises(PolicyError) as caught:
            policy.check("mallory", 7)
        refused.append(caught.value)
    assert len({error.peer_message for error in refused}) == 1
    assert {error.kind for error in refused} == {"requester", "quota"}
    assert not {"mallory", "alice", "6", "7"} & set(refused[0].peer_message.split())


def test_encoded_columns_can_be_encrypted_as_they_are(toy: World) -> None:
    column = FixedPoint(2, 64, "x").encode([1.5, -2.25, None])
    assert par_h_dec2(toy.alice, ho_enc(toy.alice.public, column.tolist())) == [150, -225, -(2**62)]
    numbers: Any = column
    assert par_h_dec2(toy.alice, ho_enc(toy.alice.public, numbers)) == [150, -225, -(2**62)]


@pytest.mark.parametrize("bad", [[1.5], [1.0], ["1"], [None], [np.float64(2)], 5])
def test_messages_that_are_not_integers_are_refused(toy: World, bad: Any) -> None:
    with pytest.raises(UsageError, match="integers"):
        ho_enc(toy.alice.public, bad)


@pytest.mark.parametrize("bits", ["2048", None, 2048.0, [2048]])
def test_key_sizes_that_are_not_integers_are_refused(bits: Any) -> None:
    with pytest.raises(UsageError, match="key_bits="):
        set_up(bits)
    half: Any = bits or "half"
    with pytest.raises(UsageError, match="exponent_bits="):
        set_up(2048, exponent_bits=half)


def test_floats_do_not_slip_into_ciphertexts(toy: World) -> None:
    [encrypted] = ho_enc(toy.alice.public, [1])
    half: Any = 0.5
    for operation in (add_constant, scale):
        with pytest.raises(TypeError):
            operation(toy.parameters, encrypted, half)


@pytest.mark.parametrize("n_jobs", [0, "two"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(toy: World, n_jobs: Any) -> None:
    with pytest.raises(UsageError, match="n_jobs="):
        ho_enc(toy.alice.public, [1, 2], n_jobs=n_jobs)


def test_a_refresh_wants_a_secret(toy: World) -> None:
    plain: Any = 5
    with pytest.raises(UsageError, match="SecretInt"):
        h_enc_ref(toy.parameters, plain, [])


def test_values_with_long_numbers_print_short_at_any_size() -> None:
    huge = 1 << 20_000  # more digits than Python agrees to print
    for value in (Ciphertext(huge, huge), Pack(huge, huge, 1), PossessionProof(huge, huge)):
        assert repr(value) == str(value)
        assert len(repr(value)) < 80


# -- a question to CS too early ---------------------------------------------------------------------


def is_refused(federation: Federation, codes: Codes) -> bool:
    with pytest.raises(RefusedError) as caught:
        federation.ask(codes, None, "soft", False, lambda _: None)
    assert (caught.value.party, caught.value.reason) == ("CS", f"has refused: {NoForestError.peer_message}")
    return isinstance(caught.value.__cause__, NoForestError)


def test_a_question_before_the_forest_is_whole_is_refused() -> None:
    case = random_case(62)
    federation = federations.set_up(case)
    assert is_refused(federation, case.codes)
    for party, table in case.codes.items():
        federation.participants[party].hold(TRAINING, table)
    federation.coordinator.create(case.rules, federation.seed, targets_of(case))
    federation.coordinator.open()
    assert is_refused(federation, case.codes)
