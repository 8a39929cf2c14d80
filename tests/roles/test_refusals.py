"""What a role refuses whatever transport it has."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from revfrf.embedded.federation import Federation
from revfrf.messages.alignment import SchemaRequest
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Schema
from revfrf.protocols.sides import TRAINING
from revfrf.roles.coordinator import Coordinator, _check_schema
from revfrf.testing.federations import RULES, random_case, train, with_rules
from revfrf.testing.refusals import refusal_kind

REFUSED: dict[str, tuple[Callable[[Federation], object], str]] = {
    "no answer of KGC": (lambda f: f.kgc.handle("CS", Done()), "unexpected"),
    "no answer of CC": (lambda f: f.compute.handle("CS", Done()), "unexpected"),
    "no forest": (lambda f: Coordinator(f.coordinator.identity, f.coordinator.channel).opening, "forest"),
    "no file": (lambda f: f.participants["bank"].handle("CS", SchemaRequest(epoch=1)), "schema"),
    "other rules": (lambda f: f.compute.check_forest(replace(f.coordinator.opening, rules=RULES)), "forest"),
    "no columns": (lambda _: _check_schema("bank", Schema(columns=(), n_rows=3), 3), "schema"),
    "no rows": (lambda f: f.requester("bank").ask({}, "hard"), "usage"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name: str, federation: Federation) -> None:
    call, kind = REFUSED[name]
    assert refusal_kind(lambda: call(federation)) == kind


@pytest.fixture(scope="module")
def federation() -> Federation:
    return train(random_case(3, rules=with_rules(n_trees=3)))


def test_training_rows_are_never_dropped(federation: Federation) -> None:
    bank = federation.participants["bank"]
    bank.drop(TRAINING)
    assert TRAINING in bank.tables
