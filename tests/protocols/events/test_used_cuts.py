"""An owner signs for cuts of its own books that CS names, in order, once per event, and for nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from revfrf.embedded.federation import Federation
from revfrf.messages.events import Countersigned, Event, EventNotice, UsedCuts, UsedCutsReceipt
from revfrf.names import CS
from revfrf.protocols.bins import new_salt
from revfrf.protocols.certificate import FORMAT, event_digest
from revfrf.protocols.common.signed import sign
from revfrf.protocols.events import used_column
from revfrf.testing.federations import ignore, random_case, train
from revfrf.testing.peers import offline
from revfrf.testing.refusals import refused
from tests.protocols.happened import CASE, changed, kgc_key, leave, of_four

Cuts = tuple[UsedCuts, ...]


@pytest.fixture
def federation() -> Federation:
    """Bank has left, and telco has not heard of the event yet."""
    federation = train(of_four(CASE))
    with offline(federation.network, "telco"):
        leave(federation, {"bank": 1})
    federation.kgc.announce()
    return federation


def event_of(federation: Federation) -> Event:
    return federation.coordinator.certificates[-1].core


def cuts_of_telco(federation: Federation) -> Cuts:
    used = federation.coordinator.side.used_cuts()["telco"]
    assert len(used) > 1
    return used


def told(federation: Federation, used: Cuts, event: Event | None = None) -> tuple[UsedCutsReceipt, bytes]:
    """Telco's receipt for these cuts, and its salt."""
    notice = EventNotice(event=event or event_of(federation), used=used)
    reply = federation.network.channel(CS).call("telco", notice, Countersigned)
    [receipt] = reply.receipts
    assert isinstance(receipt, UsedCutsReceipt)
    assert reply.salt is not None
    return receipt, reply.salt


# -- what it signs ----------------------------------------------------------------------------------


def test_owner_signs_generation_rounds_and_a_salted_digest_of_the_cuts(federation: Federation) -> None:
    used = cuts_of_telco(federation)
    receipt, salt = told(federation, used)
    assert (receipt.party, receipt.event) == ("telco", event_digest(event_of(federation)))
    lines = {book.line.feature: book.line for book in federation.participants["telco"].store.books}
    assert receipt.columns == tuple(
        used_column(salt, column, lines[column.feature].generation) for column in used
    )
    assert federation.participants["telco"].side is not None
    assert federation.participants["telco"].side.n_used == sum(len(column.cuts) for column in used)


def test_rounds_are_those_of_a_search_among_the_cuts_in_use() -> None:
    """With r rounds one of 2^r - 1 cuts, or the place after them, is found."""
    for n_cuts in range(1, 256):
        rounds = used_column(bytes(32), UsedCuts("bank/x0", bytes(range(n_cuts))), 1).rounds
        assert 2 ** (rounds - 1) - 1 < n_cuts <= 2**rounds - 1


def test_digest_of_cuts_confirms_no_guess_without_the_salt() -> None:
    used = UsedCuts("bank/x0", b"\1\2")
    first, second = (used_column(new_salt(), used, 1) for _ in range(2))
    assert first.cuts != second.cuts
    assert used_column(bytes(32), used, 1) == used_column(bytes(32), used, 1)
    assert used_column(bytes(32), used, 1).cuts != used_column(bytes(32), changed(used, cuts=b"\1\3"), 1).cuts
    assert (
        used_column(bytes(32), used, 1).cuts != used_column(bytes(32), changed(used, feature="a/b"), 1).cuts
    )


def test_same_question_gets_the_same_answer(federation: Federation) -> None:
    """CS has lost the first one."""
    used = cuts_of_telco(federation)
    assert told(federation, used) == told(federation, used)


def test_owner_of_no_cut_that_is_used_signs_that(federation: Federation) -> None:
    assert told(federation, ())[0].columns == ()


def test_every_event_has_its_own_cuts_and_salt(federation: Federation) -> None:
    first, salt = told(federation, cuts_of_telco(federation))
    federation.resume(ignore)
    leave(federation, {"shop": 1})
    second, other = told(federation, cuts_of_telco(federation))
    assert salt != other
    assert first.event != second.event
    assert {c.cuts for c in first.columns}.isdisjoint(c.cuts for c in second.columns)


# -- what it refuses --------------------------------------------------------------------------------


def first(used: Cuts, **fields: Any) -> Cuts:
    """The first column with something else."""
    return (changed(used[0], **fields), *used[1:])


LIES: dict[str, Callable[[Cuts], Cuts]] = {
    "a cut after the last of its book": lambda used: first(used, cuts=used[0].cuts + b"\xff"),
    "a cut that only its largest bin has": lambda used: first(used, cuts=b"\xfe"),
    "a cut twice": lambda used: first(used, cuts=used[0].cuts[:1] * 2),
    "cuts out of order": lambda used: first(used, cuts=b"\2\1"),
    "a column that it has not": lambda used: first(used, feature="telco/x9"),
    "a column of another": lambda used: first(used, feature="casino/x0"),
    "a column of the leaver": lambda used: first(used, feature="bank/x0"),
    "a column twice": lambda used: (used[0], *used),
    "columns out of order": lambda used: used[::-1],
}


@pytest.mark.parametrize("lie", LIES)
def test_owner_does_not_sign_for(federation: Federation, lie: str) -> None:
    used = LIES[lie](cuts_of_telco(federation))
    store = federation.participants["telco"].store
    with refused("forest", by="telco", unchanged=lambda: store.used):
        told(federation, used)
    told(federation, cuts_of_telco(federation))  # the lie has not taken the place of the truth


@pytest.mark.parametrize("number", [0, -1])
def test_owner_does_not_sign_for_a_number_of_a_cut_that_its_book_has_not(
    federation: Federation, number: int
) -> None:
    """The last cut of a book is one less than there are."""
    line = federation.participants["telco"].store.books[0].line
    used = (UsedCuts(line.feature, bytes([line.n_cuts + number])),)
    if number:
        assert told(federation, used)[0].columns[0].rounds == 1
    else:
        with refused("forest", by="telco"):
            told(federation, used)


def test_owner_is_told_its_used_cuts_once_per_event(federation: Federation) -> None:
    """Else CS could find out more about a book, or show others another receipt."""
    used = cuts_of_telco(federation)
    told(federation, used)
    for other in (used[:1], (), first(used, cuts=used[0].cuts[:1]), first(used, cuts=b"\0")):
        if other != used:
            with refused("forest", by="telco"):
                told(federation, other)


FIELDS: dict[str, Any] = {
    "generation": 7,
    "ring": 32,
    "decimals": 3,
    "n_cuts": 255,
    "rows": bytes(32),
    "bins": bytes(32),
    "published": bytes(32),
    "signature": bytes(64),
}


@pytest.mark.parametrize("field", FIELDS)
def test_owner_does_not_sign_an_event_that_says_something_else_of_its_columns(
    federation: Federation, field: str
) -> None:
    """Even if KGC has signed it."""
    event = event_of(federation)
    inputs = event.report.inputs_after
    features = tuple(
        changed(line, **{field: FIELDS[field]}) if line.feature == "telco/x1" else line
        for line in inputs.features
    )
    assert features != inputs.features
    report = changed(event.report, inputs_after=changed(inputs, features=features))
    other = sign(kgc_key(federation), FORMAT, changed(event, report=report))
    with refused("forest", by="telco"):
        told(federation, cuts_of_telco(federation), other)


def test_owner_does_not_sign_an_event_that_leaves_out_a_column_of_its_own(federation: Federation) -> None:
    event = event_of(federation)
    inputs = event.report.inputs_after
    features = tuple(line for line in inputs.features if line.feature != "telco/x1")
    report = changed(event.report, inputs_after=changed(inputs, features=features))
    other = sign(kgc_key(federation), FORMAT, changed(event, report=report))
    with refused("forest", by="telco"):
        told(federation, (), other)


def test_under_the_paper_protocol_there_are_no_books_to_sign_for() -> None:
    federation = train(random_case(71))
    with refused("forest", by="telco"):
        told(federation, ())
