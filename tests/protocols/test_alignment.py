"""Rows by number: owners learn which rows there are, and no id that they lack; what they lack is missing."""

import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.encoding import missing
from revfrf.embedded.federation import Federation
from revfrf.errors import FormatError
from revfrf.forest.books import bins_of
from revfrf.forest.kernel import Ints
from revfrf.forest.targets import Targets, class_targets
from revfrf.io.party_data import read_rows
from revfrf.messages.alignment import Align, NumberedRows
from revfrf.messages.base import Done
from revfrf.names import CS
from revfrf.protocols.sides import TRAINING
from revfrf.roles.participant import Participant
from revfrf.storage.directory import Directory
from revfrf.storage.memory import StoreFactory
from revfrf.testing.federations import RULES, ignore, toy_keys, with_books
from revfrf.testing.refusals import refusal_kind, refused

IDS = [f"p{number:02}" for number in range(40)]
NUMBERS = np.array([*range(3, 23), *range(100, 119), 2**63 - 1])
LACKED = {"bank": [0, 7, 8, 39], "telco": [1, 30]}
"""The positions of the rows that an owner does not have."""


def align(numbers: Any = NUMBERS, ids: Any = IDS, table: str = TRAINING) -> Align:
    return Align(epoch=1, table=table, rows=NumberedRows.of(np.asarray(numbers), ids))


def without(party: str) -> list[str]:
    """A line for each row, empty where the party lacks it."""
    return ["" if place in LACKED[party] else name for place, name in enumerate(IDS)]


def csv(directory: Path, party: str) -> Path:
    """An owner's rows in another order than CS's, with two of its own."""
    rng = np.random.default_rng(len(party))
    own = [*(name for name in without(party) if name), "own 1", "own 2"]
    lines = [f"{name},{rng.integers(-50, 50) / 4},{rng.integers(2**40)}" for name in reversed(own)]
    path = directory / f"{party}.csv"
    path.write_text("\n".join(["id,x,y", *lines]))
    return path


def targets(numbers: Ints = NUMBERS) -> Targets:
    n = len(numbers)
    return class_targets(numbers, np.arange(n) * 7 // 3 % 2, ("a", "b"), np.ones(n))


def made(directory: Path, protocol: Any = "shares", stores: StoreFactory | None = None) -> Federation:
    """A federation whose owners have files, before CS has named any rows."""
    owned = {party: read_rows(csv(directory, party), "id") for party in LACKED}
    columns = {party: rows.columns for party, rows in owned.items()}
    setup = toy_keys() if protocol == "paper" else None
    federation = Federation(columns, seed=b"seed", protocol=protocol, setup=setup, stores=stores)
    for party, rows in owned.items():
        federation.participants[party].rows = rows
    return federation


def told(federation: Federation, party: str, message: Align) -> Participant:
    federation.network.channel(CS).call(party, message, Done)
    return federation.participants[party]


def expected(federation: Federation, party: str) -> Ints:
    """What its file says, in the order of CS's rows, and missing values where it says nothing."""
    owner = federation.participants[party]
    assert owner.rows is not None
    codes, places = owner.rows.codes(owner.columns), dict(zip(owner.rows.ids, range(99), strict=False))
    lines = [
        [missing(column.ring) if not name else values[places[name]] for name in without(party)]
        for column, values in zip(owner.columns, codes.tolist(), strict=True)
    ]
    return np.array(lines)


# -- rows that an owner lacks -----------------------------------------------------------------------


@pytest.mark.parametrize("table", [TRAINING, "test"])
def test_rows_that_an_owner_lacks_are_missing_values_in_all_of_its_columns(
    tmp_path: Path, table: str
) -> None:
    federation = made(tmp_path)
    for party, lacked in LACKED.items():
        owner = told(federation, party, align(ids=without(party), table=table))
        assert owner.tables[table].tolist() == expected(federation, party).tolist()
        assert owner.numbers[table].tolist() == NUMBERS.tolist()
        assert {column.ring for column in owner.columns} == {32, 64}
        for column, values in zip(owner.columns, owner.tables[table], strict=True):
            assert np.flatnonzero(values == missing(column.ring)).tolist() == lacked


def test_bins_of_rows_that_an_owner_lacks_are_those_of_missing_values(tmp_path: Path) -> None:
    federation = made(tmp_path)
    for party in LACKED:
        told(federation, party, align(ids=without(party)))
    federation.coordinator.create(with_books(), federation.seed, targets())
    federation.resume(ignore)
    for party, lacked in LACKED.items():
        owner = federation.participants[party]
        for book, column, values in zip(
            owner.store.books, owner.columns, owner.tables[TRAINING], strict=True
        ):
            bins = federation.coordinator.store.bins[book.line.feature].bins
            assert book.cuts[0] == missing(column.ring)
            assert np.flatnonzero(bins == 0).tolist() == lacked
            assert bins.tolist() == bins_of(values, book.cuts).tolist()


@pytest.mark.parametrize(("protocol", "rules"), [("shares", with_books()), ("paper", RULES)])
def test_forest_of_rows_that_owners_lack_is_that_of_missing_values(
    tmp_path: Path, protocol: Any, rules: Any
) -> None:
    """Also when it is tested on such rows."""
    federation = made(tmp_path, protocol)
    plain = made(tmp_path, protocol)
    for party in LACKED:
        told(federation, party, align(ids=without(party)))
    federation.coordinator.create(rules, federation.seed, targets())
    federation.resume(ignore)
    codes = {party: expected(federation, party) for party in LACKED}
    plain.train(codes, rules, targets(), ignore)
    assert federation.coordinator.digest() == plain.coordinator.digest()
    n = len(IDS)
    for party in LACKED:
        told(federation, party, align(np.arange(n), without(party), "test"))
    votes = federation.coordinator.votes("test", n, "hard")
    assert votes.totals.tolist() == plain.votes(codes, n, "hard").totals.tolist()


@pytest.mark.parametrize(("protocol", "rules"), [("shares", with_books()), ("paper", RULES)])
def test_trees_draw_rows_by_their_numbers_whatever_the_positions(
    tmp_path: Path, protocol: Any, rules: Any
) -> None:
    digests = []
    for numbers in (NUMBERS, np.arange(len(IDS))):
        federation = made(tmp_path, protocol)
        for party in LACKED:
            told(federation, party, align(numbers, without(party)))
        federation.coordinator.create(rules, federation.seed, targets(numbers))
        federation.resume(ignore)
        digests.append(federation.coordinator.digest())
    assert digests[0] != digests[1]


def test_owner_with_other_numbers_than_cs_sends_no_bins(tmp_path: Path) -> None:
    federation = made(tmp_path)
    for party in LACKED:
        told(federation, party, align(NUMBERS - 1, without(party)))
    federation.coordinator.create(with_books(), federation.seed, targets())
    with refused("schema", by="bank"):
        federation.resume(ignore)
    assert federation.participants["bank"].store.books == []


# -- what is agreed on stays ------------------------------------------------------------------------


def test_rows_and_their_numbers_survive_a_restart(tmp_path: Path) -> None:
    federation = made(tmp_path, stores=Directory(tmp_path / "forest", new=True))
    owner = told(federation, "bank", align(ids=without("bank")))
    again = Participant(owner.identity, owner.columns, owner.secret, owner.store)
    again.recall()
    again.rows = owner.rows
    assert again.numbers[TRAINING].tolist() == NUMBERS.tolist()
    assert again.tables[TRAINING].tolist() == expected(federation, "bank").tolist()
    assert owner.store.expect("ids", str).split("\n") == without("bank")
    assert again.handle(CS, align(ids=without("bank"))) == Done()
    federation.stores.close()


@pytest.mark.parametrize(
    "message",
    [
        align(NUMBERS - 1, without("bank")),
        align(NUMBERS[1:], without("bank")[1:]),
        align(ids=[*without("bank")[:-2], "", ""]),
        align(ids=[*without("bank")[:-2], "own 1", ""]),
    ],
    ids=["other numbers", "a row less", "a row that it has as one that it lacks", "another row"],
)
def test_other_training_rows_than_before_are_refused(tmp_path: Path, message: Align) -> None:
    federation = made(tmp_path, stores=Directory(tmp_path / "forest", new=True))
    owner = told(federation, "bank", align(ids=without("bank")))
    with refused("schema", by="bank", unchanged=lambda: owner.tables[TRAINING].tolist()):
        told(federation, "bank", message)
    federation.stores.close()


# -- a lying CS -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (align(ids=IDS), "schema"),
        (align(ids=[""] * 40), "schema"),
        (align(ids=[*without("bank")[:-1], "p01"]), "schema"),
        (align(ids=["p01\np02", *without("bank")[1:]]), "length"),
        (align(ids=without("bank")[1:]), "length"),
        (align(NUMBERS[1:], without("bank")), "length"),
        (align([], []), "length"),
        (align(NUMBERS[::-1], without("bank")), "out-of-range"),
        (align(NUMBERS // 2, without("bank")), "out-of-range"),
        (align(np.arange(-1, 39), without("bank")), "out-of-range"),
        (align([-(2**63), *NUMBERS[1:]], without("bank")), "out-of-range"),
        (align(np.arange(10_001), [*without("bank"), *[""] * 9_961]), "too-large"),
    ],
    ids=[
        "ids that it lacks",
        "none of its own",
        "a row twice",
        "two ids in one line",
        "more numbers than ids",
        "fewer",
        "no rows",
        "numbers in another order",
        "a number twice",
        "a number below zero",
        "the lowest number",
        "too many",
    ],
)
@pytest.mark.parametrize("table", [TRAINING, "test"])
def test_rows_that_no_honest_cs_names_are_refused(
    tmp_path: Path, message: Align, kind: str, table: str
) -> None:
    federation = made(tmp_path)
    owner = federation.participants["bank"]
    with refused(kind, by="bank"):
        told(federation, "bank", Align(epoch=1, table=table, rows=message.rows))
    assert (owner.tables, owner.numbers) == ({}, {})


def test_too_many_rows_are_refused_before_they_take_memory() -> None:
    n = 2**20
    flood = NumberedRows(np.arange(n).tobytes(), "\n" * (n - 1))
    wrong = NumberedRows(bytes(8), "\n" * n)
    tracemalloc.start()
    kinds = [refusal_kind(lambda rows=rows: rows.read(10_000)) for rows in (flood, wrong)]  # type: ignore[misc]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kinds == ["too-large", "length"]
    assert peak < 2**18


def test_owner_learns_no_id_that_it_lacks() -> None:
    rows = align(ids=without("bank")).rows
    assert [name for place, name in enumerate(IDS) if name in rows.ids] == [n for n in without("bank") if n]
    told = Align(epoch=1, table=TRAINING, rows=rows).discloses()
    assert told == {"ids that all have": 36, "numbers of rows": 40}


# -- how rows are written ---------------------------------------------------------------------------


@given(st.dictionaries(st.integers(0, 2**63 - 1), st.text("aé☃ ", max_size=3), min_size=1))
def test_numbered_rows_are_read_as_they_were_written(found: dict[int, str]) -> None:
    numbers = sorted(found)
    rows = NumberedRows.of(np.array(numbers), [found[number] for number in numbers])
    read, ids = rows.read(len(numbers))
    assert dict(zip(read.tolist(), ids, strict=True)) == found
    assert len(rows) == len(found)
    assert refusal_kind(lambda: rows.read(len(numbers) - 1)) == "too-large"


@given(st.binary(max_size=40), st.text("a\n", max_size=5))
def test_noise_is_rows_in_one_way_or_refused(numbers: bytes, ids: str) -> None:
    rows = NumberedRows(numbers, ids)
    with suppress(FormatError):
        assert NumberedRows.of(*rows.read(5)) == rows
