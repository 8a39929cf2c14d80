"""What each party sees of a forest of the shares protocol, and what nobody finds after somebody has left."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revfrf import RevocableForestClassifier
from revfrf.crypto.encoding import missing
from revfrf.embedded.federation import Federation
from revfrf.forest.books import bins_of
from revfrf.messages.bins import BinsReply, BinsRequest
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS, KGC
from revfrf.protocols.bins import rows_digest
from revfrf.testing.federations import Case, Codes, ignore, targets_of, with_books
from revfrf.testing.recorders import Sent, recording
from revfrf.transport.codec import encode
from tests.federations import grow_plainly
from tests.storage.traces import WINDOW, all_there, raw, where
from tests.views.overheard import (
    DECIMALS,
    LEAVER,
    N_ROWS,
    OWNED,
    Scanner,
    Table,
    add_labels,
    add_table,
    canaries,
)

N_TESTED = 9


@dataclass
class Run:
    """A forest's life with an ear on the network: training, a test, and a participant that leaves."""

    case: Case
    raw: Table
    tested_raw: Table
    tested: Codes
    federation: Federation
    sent: list[Sent]
    n_trained: int
    n_tested: int
    books: dict[str, list[Any]]
    secrets: dict[str, bytes] = field(repr=False)

    @property
    def training(self) -> list[Sent]:
        return self.sent[: self.n_trained]

    @property
    def testing(self) -> list[Sent]:
        return self.sent[self.n_trained : self.n_tested]

    @property
    def leaving(self) -> list[Sent]:
        return self.sent[self.n_tested :]

    @cached_property
    def scanner(self) -> Scanner:
        """Everything that must stay where it is."""
        scanner = Scanner()
        add_table(scanner, "a value of {}", self.raw, self.case.codes)
        add_table(scanner, "a tested value of {}", self.tested_raw, self.tested)
        add_labels(scanner, self.case, targets_of(self.case).values)
        for party, books in self.books.items():
            for cut in {int(cut) for book in books for cut in book.cuts} - {missing(64)}:
                scanner.add_number(f"a threshold of {party}", cut)
        for what, secret in self.secrets.items():
            scanner.add_bytes(what, secret)
        return scanner


@pytest.fixture(scope="module", params=[0, 3], ids=["regression", "classes"])
def run(request: pytest.FixtureRequest) -> Run:
    n_classes: int = request.param
    rng = random.Random(n_classes)
    raw_rows, codes = canaries(rng, N_ROWS)
    tested_raw, tested = canaries(rng, N_TESTED)
    y = [float(rng.randrange(n_classes)) if n_classes else rng.uniform(1e6, 2e6) for _ in range(N_ROWS)]
    weights = [rng.uniform(1, 2) for _ in range(N_ROWS)] if n_classes else None
    case = Case(codes, y, n_classes, with_books(n_trees=3, min_samples_leaf=2), weights, rng.randbytes(32))
    columns = {p: [Column(f"x{i}", DECIMALS, 64, None) for i in range(n)] for p, n in OWNED.items()}
    with recording() as sent:
        federation = Federation(columns, seed=case.seed, protocol="shares")
        federation.train(codes, case.rules, targets_of(case), ignore)
        n_trained = len(sent)
        federation.votes(tested, N_TESTED, "soft")
        n_tested = len(sent)
        participants = dict(federation.participants)
        books = {party: list(role.store.books) for party, role in participants.items()}
        secrets = {f"the secret of {party}": role.secret for party, role in participants.items()}
        secrets |= {
            f"the signing seed of {role.identity.name}": role.identity.signing_key.export()
            for role in federation.with_policies.values()
        }
        secrets |= {"the forest's seed": federation.seed, "the federation's seed": case.seed}
        federation.revoke([LEAVER], 2, ignore)
    return Run(case, raw_rows, tested_raw, tested, federation, sent, n_trained, n_tested, books, secrets)


def of_kind(sent: Sequence[Sent], kind: str) -> list[Sent]:
    return [each for each in sent if each.type == kind]


# -- messages ---------------------------------------------------------------------------------------


def test_run_is_worth_watching(run: Run) -> None:
    kinds = {each.type for each in run.sent}
    assert {"OpenForest", "Schema", "BinsRequest", "BinsReply", "EventReport", "EventNotice"} <= kinds
    assert run.federation.coordinator.side.n_nodes > 20
    owners = {feature.split("/")[0] for feature in run.federation.coordinator.side.forest.used_cuts()}
    assert owners == set(OWNED) - {LEAVER}


def test_no_value_threshold_label_or_secret_travels(run: Run) -> None:
    found = {(each.type, each.sender, what) for each in run.sent for what in run.scanner.found(each.data)}
    assert found == set()


def test_scanner_finds_what_it_looks_for(run: Run) -> None:
    leaks: list[tuple[str, bytes]] = [
        ("a value of shop", run.case.codes["shop"][0].tobytes()),
        ("a tested value of bank", np.array(run.tested_raw["bank"][1]).tobytes()),
        ("labels", bytes(map(int, run.case.y)) if run.case.n_classes else np.array(run.case.y).tobytes()),
    ]
    leaks += [(f"a threshold of {party}", books[0].thresholds) for party, books in run.books.items()]
    leaks += list(run.secrets.items())
    for what, leak in leaks:
        assert what in run.scanner.found(encode(BinsReply(lines=(), data=leak)))
        request = BinsRequest(epoch=1, forest=bytes(16), table="t", rows=bytes(32), columns=leak, offset=0)
        assert what in run.scanner.found(encode(request))
    assert run.scanner.found(encode(BinsReply(lines=(), data=bytes(999)))) == set()


def test_participants_are_told_the_rules_and_asked_for_whole_columns_and_nothing_else(run: Run) -> None:
    """No row set of a node, no score; of splits, once the forest is grown, which of its own cuts it uses."""
    told = [each for each in run.sent if each.sender == CS and each.recipient in OWNED]
    assert {each.type for each in told} == {"OpenForest", "BinsRequest", "EventNotice"}
    for notice in of_kind(told, "EventNotice"):
        assert {column["feature"].split("/")[0] for column in notice.plain["used"]} <= {notice.recipient}
    for party, n in OWNED.items():
        [request] = [each.message for each in of_kind(run.training, "BinsRequest") if each.recipient == party]
        assert isinstance(request, BinsRequest)
        assert request.rows == rows_digest(np.arange(N_ROWS))
        assert (request.offset, request.table) == (0, "training")
        assert np.frombuffer(request.columns, "<u2").tolist() == list(range(n))


def test_questions_to_participants_are_the_same_whatever_the_labels(run: Run) -> None:
    case = run.case
    other = Case(case.codes, case.y[::-1], case.n_classes, case.rules, case.weights, case.seed)
    columns = {p: [Column(f"x{i}", DECIMALS, 64, None) for i in range(n)] for p, n in OWNED.items()}
    with recording() as sent:
        federation = Federation(columns, seed=case.seed, protocol="shares")
        federation.train(case.codes, case.rules, targets_of(other), ignore)

    def asked(some: Sequence[Sent]) -> list[dict[str, Any]]:
        fields = [each.plain for each in some if each.type == "BinsRequest"]
        return sorted(({**each, "forest": b""} for each in fields), key=lambda each: str(each["columns"]))

    trained = grow_plainly(case)
    assert federation.coordinator.digest() != trained.digest
    assert asked(sent) == asked(run.training)


def test_coordinator_receives_one_bin_per_row_and_column_and_salted_digests(run: Run) -> None:
    for party, table in run.case.codes.items():
        [reply] = [each.message for each in of_kind(run.training, "BinsReply") if each.sender == party]
        assert isinstance(reply, BinsReply)
        bins = [bins_of(codes, book.cuts) for codes, book in zip(table, run.books[party], strict=True)]
        assert reply.data == b"".join(own.tobytes() for own in bins)
        assert [signed.line for signed in reply.lines] == [book.line for book in run.books[party]]
        assert reply.discloses() == {"bins of rows": N_ROWS * OWNED[party]}
    salts = [book.salt for books in run.books.values() for book in books]
    assert len(set(salts)) == len(salts) == sum(OWNED.values())
    heard = {each.type for each in run.training if each.sender in OWNED and each.recipient == CS}
    assert heard == {"Schema", "BinsReply", "Countersigned"}


def test_bins_of_tested_rows_are_asked_of_columns_that_the_forest_uses(run: Run) -> None:
    requests, replies = of_kind(run.testing, "BinsRequest"), of_kind(run.testing, "BinsReply")
    columns = {each.recipient: np.frombuffer(each.plain["columns"], "<u2").tolist() for each in requests}
    for each in requests:
        assert each.plain["rows"] == rows_digest(np.arange(N_TESTED))
    for each in replies:
        own, books = columns[each.sender], run.books[each.sender]
        bins = [bins_of(run.tested[each.sender][i], books[i].cuts) for i in own]
        assert each.plain["data"] == b"".join(part.tobytes() for part in bins)
        assert each.plain["lines"] == []
    assert sum(len(each.plain["data"]) for each in replies) <= N_TESTED * sum(OWNED.values())


def test_compute_partner_and_key_centre_hear_nothing_of_rows(run: Run) -> None:
    for each in run.sent:
        if each.recipient in (CC, KGC) or each.sender in (CC, KGC):
            assert each.type not in ("BinsRequest", "BinsReply")
        assert {each.sender, each.recipient} & {CS, KGC}
    told = {each.type for each in run.training if (each.sender, each.recipient) == (CS, CC)}
    assert told == {"OpenForest"}  # at level 2, CC also hears of the event


def test_nobody_hears_of_nodes_or_rows_when_somebody_leaves(run: Run) -> None:
    told = {each.type for each in run.leaving if each.recipient in OWNED}
    assert told <= {"EpochCertificate", "EventNotice", "Done"}
    said = {each.type for each in run.leaving if each.sender == CS}
    assert said <= {"EpochAccepted", "EventReport", "EventNotice"}


def test_books_count_what_was_received(run: Run) -> None:
    learnt = run.federation.leakage()
    bins = sum(len(each.plain["data"]) for each in of_kind(run.sent, "BinsReply"))
    assert learnt[CS]["bins of rows"] == bins
    for party in set(OWNED) - {LEAVER}:
        assert learnt[party].keys() == {
            "event certificates",
            "its own cuts that are used",
            "members of the federation",
            "names, decimals, rings and numbers of cuts of columns",
            "the forest's rules",
        }


# -- files ------------------------------------------------------------------------------------------


def grown(directory: Path, n_rows: int = 400) -> RevocableForestClassifier:
    """A forest of one-column parties; their x̂ are numbers that occur nowhere by chance."""
    X = np.random.default_rng(1).normal(size=(n_rows, 5))
    Y = (X[:, 0] + X[:, 2] * X[:, 1] > 0).astype(np.int64)
    parties = {f"p{i}": [i] for i in range(5)}
    model = RevocableForestClassifier(
        12, max_depth=8, min_samples_leaf=1, decimals=17, random_state=1, parties=parties, directory=directory
    )
    return model.fit(X, Y)


def of_coordinator(model: Any, party: str) -> list[bytes]:
    """What CS keeps of a party's column. What the party has signed of it stays, in event certificates."""
    held = model.federation_.coordinator.store.bins[f"{party}/x0"]
    return [held.bins.tobytes(), held.salt]


def of_owner(model: Any, party: str) -> list[bytes]:
    """What only the party has."""
    owner = model.federation_.participants[party]
    [book] = owner.store.books
    rows = owner.tables["training"].astype("<i8").tobytes()
    return [book.thresholds, book.salt, rows, owner.secret, owner.identity.signing_key.export()]


def trees_of(model: Any) -> set[bytes]:
    return {tree.to_bytes() for tree in model.federation_.coordinator.store.trees.values()}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("reopened", [False, True], ids=["at once", "after a restart"])
def test_no_file_has_a_trace_of_what_leavers_take_along(
    tmp_path: Path, level: RevocationLevel, reopened: bool
) -> None:
    model = grown(tmp_path)
    dead, gone = list[bytes](), set[str]()
    for leavers in (["p1"], ["p0", "p3"]):
        if reopened:
            model.close()
            model = RevocableForestClassifier.open(tmp_path)
        taken = [
            thing for name in leavers for thing in (*of_coordinator(model, name), *of_owner(model, name))
        ]
        before = parts_of(trees_of(model))
        assert all_there(raw(tmp_path), taken)
        model.revoke(leavers, level)
        gone |= set(leavers)
        after = parts_of(trees_of(model))
        dead += [*taken, *(before - after)]
        files, live = raw(tmp_path), {f"p{i}" for i in range(5)} - gone
        assert where(files, dead) == {}
        assert not [name for name in files if any(f"-{party}-" in name for party in gone)]
        for party in live:
            assert all_there(files, [*of_coordinator(model, party), *of_owner(model, party)])
    model.close()
    assert where(raw(tmp_path), dead) == {}
    assert len(dead) > 300


def parts_of(trees: set[bytes]) -> set[bytes]:
    """Every sixteen bytes of trees that no others have by chance: mostly numbers of cuts."""
    parts = {tree[i : i + WINDOW] for tree in trees for i in range(len(tree) - WINDOW + 1)}
    return {part for part in parts if 3 * len(set(part)) > WINDOW}


def test_directory_of_each_party_holds_its_own_alone(tmp_path: Path) -> None:
    model = grown(tmp_path)
    files = raw(tmp_path)
    for party in model.parties_:
        own = where(files, of_owner(model, party)[:1] + of_owner(model, party)[2:])
        assert {name.split(".")[0] for name in own} == {
            name.split(".")[0] for name in files if name.startswith(f"participant-{party}-")
        }
        salt = where(files, of_owner(model, party)[1:2])
        assert {name.split("-")[0].split(".")[0] for name in salt} == {"participant", "cs"}
        [bins, *_] = of_coordinator(model, party)
        assert {name.split(".")[0] for name in where(files, [bins])} == {"cs"}
    model.close()
