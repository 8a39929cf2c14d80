"""FRF-Predict: the answers of FRF-Test, bit for bit; with absent parties; with a lying requester or CS."""

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.crypto.dtpkc.dtpkc import ho_enc
from revfrf.crypto.encoding import missing
from revfrf.embedded.federation import Federation
from revfrf.errors import (
    AbsentError,
    FormatError,
    PolicyError,
    ProtocolError,
    RangeError,
    RefusedError,
    RejectedError,
    UsageError,
)
from revfrf.forest.voting import Voting
from revfrf.messages.base import Message
from revfrf.messages.frf_predict import (
    Failure,
    ForestFacts,
    ForestQuery,
    MaskedComparisons,
    PredictReply,
    PredictRequest,
    ShareRequest,
)
from revfrf.names import CC, CS, REQUESTER
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import RequestPolicy, sign_request
from revfrf.protocols.paper import frf_predict as frf_predict_module
from revfrf.protocols.paper.frf_predict import Answer
from revfrf.roles.requester import Requester
from revfrf.testing.federations import Case, Codes, random_case, set_up, targets_of, train, with_rules
from revfrf.testing.peers import FaultyPeer, failing, replaced
from revfrf.testing.refusals import refusal_kind
from revfrf.transport.base import Answering
from tests.federations import grown_splits, in_numbers
from tests.protocols.paper.blame import blamed, u4
from tests.quick import quick

MISSING = missing(64)

CASE = random_case(51)
Absent = Callable[[str, int], bool]
"""Whether an owner is absent at a depth."""

changed = msgspec.structs.replace


def ask(
    federation: Federation,
    codes: Mapping[str, NDArray[Any]],
    voting: Voting = "hard",
    partial: bool = False,
    requester: str | None = None,
) -> Answer:
    return federation.ask(codes, requester, voting, partial, lambda _: None)


def some(codes: Codes, n_rows: int = 8) -> Codes:
    return {party: table[:, :n_rows] for party, table in codes.items()}


def difficult_rows(federation: Federation, codes: Codes, n_rows: int = 12) -> Codes:
    """Rows of the case, then rows on the cuts and just beside them, then rows in which values are missing."""
    rng, rows = np.random.default_rng(n_rows), {}
    for party, table in codes.items():
        near = np.empty((len(table), n_rows), dtype=np.int64)
        for column, values in enumerate(table):
            cuts = [cut for c, cut in federation.participants[party].store.own_splits.values() if c == column]
            near[column] = rng.choice(cuts or values, n_rows) + rng.integers(-1, 2, n_rows)
        missing = np.where(rng.random(near.shape) < 0.5, MISSING, near)
        rows[party] = np.concatenate([table[:, :n_rows], near, missing], axis=1)
    return rows


def nobody(_owner: str, _level: int) -> bool:
    return False


@dataclass
class Plain:
    """What the owners' own cuts say: each row's votes, trees that voted, who stopped others, levels."""

    votes: NDArray[np.int64]
    n_voted: list[int]
    absent: set[str]
    levels: int


def walked(federation: Federation, codes: Codes, voting: Voting = "hard", absent: Absent = nobody) -> Plain:
    """Row by row and tree by tree, without any message."""
    splits, cs = grown_splits(federation), federation.coordinator
    n_rows = next(iter(codes.values())).shape[1]
    scale = cs.targets.scale
    plain = Plain(np.zeros((n_rows, scale.n_votes), np.int64), [0] * n_rows, set(), 0)
    for row, tree in np.ndindex(n_rows, cs.plan.rules.n_trees):
        path = 1
        while (tree, path) in splits:
            owner, column = splits[tree, path].feature.split("/")
            depth = path.bit_length() - 1
            plain.levels = max(plain.levels, depth + 1)
            if absent(owner, depth):
                plain.absent.add(owner)
                break
            path = 2 * path + int(codes[owner][int(column[1:])][row] > splits[tree, path].threshold)
        else:
            sums = cs.store.leaves[tree, path]
            plain.n_voted[row] += 1
            if not scale.n_classes:
                plain.votes[row, 0] += (sums[1] << scale.vote_places - scale.places) // sums[0]
            elif voting == "hard":
                plain.votes[row, sums.index(max(sums))] += 1
            else:
                plain.votes[row] += [weight * 2**22 // sum(sums) for weight in sums]
    return plain


def agrees(answer: Answer, plain: Plain) -> bool:
    votes = (plain.votes.tolist(), plain.n_voted)
    return in_numbers(answer.votes) == votes and answer.absent == tuple(sorted(plain.absent))


# -- the same answers as FRF-Test -------------------------------------------------------------------

NUMBERS = random_case(53, n_classes=0, y=[float(v) / 7 for v in random_case(53).codes["bank"][0]])
CASES: dict[str, Case] = {
    "classes": CASE,
    "numbers": NUMBERS,
    "one tree": random_case(54, rules=with_rules(n_trees=1)),
    "one depth": random_case(55, rules=with_rules(max_depth=1)),
    "unequal depths": random_case(56, rules=with_rules(max_depth=12, n_trees=3)),
    "single leaves": random_case(57, rules=with_rules(min_samples_split=1000)),
    "one party": random_case(58).without("bank").without("shop"),
    "many trees": random_case(59, rules=with_rules(n_trees=15, max_depth=3)),
}


@pytest.mark.parametrize(
    ("name", "n_jobs"), quick(product(CASES, [1, 2]), [*((name, 1) for name in CASES), ("many trees", 2)])
)
def test_answers_are_those_of_the_test_bit_for_bit(name: str, n_jobs: int) -> None:
    case = CASES[name]
    federation = train(case, set_up(case, n_jobs))
    rows = difficult_rows(federation, case.codes)
    votings: tuple[Voting, ...] = ("hard", "soft")
    for voting in votings:
        answer = ask(federation, rows, voting)
        assert in_numbers(answer.votes) == in_numbers(federation.votes(rows, 36, voting))
        assert answer.votes.n_voted.tolist() == [case.rules.n_trees] * 36
        assert answer.absent == ()
        assert agrees(answer, walked(federation, rows, voting))


def test_depths_are_unequal_and_leaves_single_where_the_names_say_so() -> None:
    leaves = {name: train(CASES[name]).coordinator.store.leaves for name in CASES}
    assert {path for _, path in leaves["single leaves"]} == {1}
    assert len({path.bit_length() for _, path in leaves["unequal depths"]}) > 3


@pytest.fixture(scope="module")
def federation() -> Federation:
    """A forest with two requesters who are no participants."""
    federation = train(CASE)
    for name in ("clinic", "doctor"):
        federation.enrol_requester(name)
    return federation


@pytest.mark.parametrize("at_once", [1, 7, 36, 50])
def test_long_tables_are_several_requests_and_one_answer(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    rows, book = difficult_rows(federation, CASE.codes), federation.coordinator.book
    monkeypatch.setattr(frf_predict_module, "ROWS_AT_ONCE", at_once)
    known, counted = len(book.known), book.rows["clinic"]
    answer = ask(federation, rows, "soft", requester="clinic")
    assert in_numbers(answer.votes) == in_numbers(federation.votes(rows, 36, "soft"))
    assert len(book.known) - known == -(-36 // at_once)
    assert book.rows["clinic"] - counted == 36


def test_progress_begins_at_nothing_and_never_goes_back(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frf_predict_module, "ROWS_AT_ONCE", 5)
    told: list[float] = []
    federation.ask(some(CASE.codes, 12), "clinic", "hard", False, told.append)
    assert told[0] == 0
    assert told == sorted(told)
    assert set(told) >= {0, 5, 10}
    assert len(set(told)) > 6
    assert told[-1] < 12


@pytest.mark.parametrize("requester", [None, "clinic", "bank", "shop"])
def test_answer_does_not_depend_on_who_asks(federation: Federation, requester: str | None) -> None:
    votes = federation.votes(some(CASE.codes), 8, "hard")
    answer = ask(federation, some(CASE.codes), requester=requester)
    assert in_numbers(answer.votes) == in_numbers(votes)


def test_two_who_ask_at_once_get_their_own_answers(federation: Federation) -> None:
    tables = {"clinic": some(CASE.codes), "doctor": {p: t[:, 20:28] for p, t in CASE.codes.items()}}
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda name: ask(federation, tables[name], "soft", requester=name), tables)
        for codes, answer in zip(tables.values(), answers, strict=True):
            assert in_numbers(answer.votes) == in_numbers(federation.votes(codes, 8, "soft"))


def test_forest_of_single_leaves_asks_neither_the_compute_partner_nor_owners() -> None:
    federation = train(CASES["single leaves"])
    ask(federation, some(CASES["single leaves"].codes))
    assert not [link for link in federation.network.messages if link[2] == "HoLT"]
    assert federation.coordinator.book.known
    assert not federation.compute.book.known


# -- who is absent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [CASE, NUMBERS], ids=["classes", "numbers"])
@pytest.mark.parametrize(
    "gone", [["bank"], ["telco"], ["shop"], ["shop", "telco"], ["bank", "shop", "telco"]]
)
def test_partial_answer_is_that_of_the_trees_that_need_nobody_absent(case: Case, gone: list[str]) -> None:
    federation = train(case)
    for party in gone:
        del federation.network.roles[party]
    rows = difficult_rows(federation, case.codes, 5)
    plain = walked(federation, rows, absent=lambda owner, _: owner in gone)
    assert plain.absent
    assert agrees(ask(federation, rows, partial=True), plain)
    with pytest.raises(AbsentError, match="a partial answer") as caught:
        ask(federation, rows)
    assert caught.value.party in plain.absent


@pytest.mark.parametrize("partial", [False, True])
def test_absence_of_an_owner_whom_no_row_needs_does_not_matter(partial: bool) -> None:
    case = replace(CASE, codes=CASE.codes | {"idle": np.zeros((1, CASE.n_rows), dtype=np.int64)})
    federation = train(case)
    del federation.network.roles["idle"]
    answer = ask(federation, some(case.codes), partial=partial)
    assert in_numbers(answer.votes) == in_numbers(federation.votes(some(case.codes), 8, "hard"))
    assert (answer.votes.n_voted.tolist(), answer.absent) == ([case.rules.n_trees] * 8, ())


@dataclass
class Vanishing:
    """A role that answers so many messages of requests, and is gone then."""

    federation: Federation
    name: str
    honest: Answering
    answers: int = 1

    def handle(self, sender: str, message: Message) -> Message:
        reply = self.honest.handle(sender, message)
        self.answers -= 1
        if not self.answers:
            del self.federation.network.roles[self.name]
        return reply


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("owner", ["bank", "telco"])
def test_owner_may_vanish_in_the_middle_of_a_request(owner: str, partial: bool) -> None:
    """It has answered at the first depth at which it was asked, and no more."""
    federation = train(CASE)
    rows, levels = difficult_rows(federation, CASE.codes, 5), set[int]()

    def note(name: str, depth: int) -> bool:
        if name == owner:
            levels.add(depth)
        return False

    walked(federation, rows, absent=note)
    plain = walked(federation, rows, absent=lambda name, depth: name == owner and depth > min(levels))
    assert 0 < sum(plain.n_voted) < 15 * CASE.rules.n_trees
    assert plain.absent == {owner}
    roles = federation.network.roles
    roles[owner] = Vanishing(federation, owner, roles[owner])
    if partial:
        assert agrees(ask(federation, rows, partial=True), plain)
        return
    with blamed(owner, AbsentError):
        ask(federation, rows)


def test_owner_that_comes_back_in_the_middle_is_asked_in_the_next_request() -> None:
    federation = train(CASE)
    owner = "bank"  # other owners have splits below its depth
    rows, roles = difficult_rows(federation, CASE.codes, 5), federation.network.roles
    honest = roles.pop(owner)

    class Watching:
        """CC, in whose second depth the owner comes back."""

        def handle(self, sender: str, message: Message) -> Message:
            if isinstance(message, MaskedComparisons) and message.depth:
                roles[owner] = honest
            return federation.compute.handle(sender, message)

    roles[CC] = Watching()
    plain = walked(federation, rows, absent=lambda name, _: name == owner)
    at_first = walked(federation, rows, absent=lambda name, depth: name == owner and not depth)
    assert plain.n_voted != at_first.n_voted
    assert agrees(ask(federation, rows, partial=True), plain)
    assert ask(federation, rows).votes.n_voted.all()


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("answers", [0, 1])
def test_without_the_compute_partner_there_is_no_answer(partial: bool, answers: int) -> None:
    federation = train(CASE)
    if answers:
        federation.network.roles[CC] = Vanishing(federation, CC, federation.compute, answers)
    else:
        del federation.network.roles[CC]
    with blamed(CC, AbsentError):
        ask(federation, some(CASE.codes), partial=partial)


def test_coordinator_that_is_absent_is_named() -> None:
    federation = train(CASE)
    del federation.network.roles[CS]
    with blamed(CS, AbsentError):
        ask(federation, some(CASE.codes))


# -- who refuses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("owner", ["bank", "telco", "shop"])
def test_owner_that_refuses_is_named_and_never_left_out(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, owner: str, partial: bool
) -> None:
    role = federation.participants[owner]
    monkeypatch.setattr(role, "policy", RequestPolicy(refuses=["clinic"]))
    before = dict(role.book.known), dict(role.book.rows)
    with pytest.raises(RefusedError, match="has refused this request") as caught:
        ask(federation, CASE.codes, partial=partial, requester="clinic")
    assert caught.value.party == owner
    assert (dict(role.book.known), dict(role.book.rows)) == before
    assert ask(federation, some(CASE.codes), requester="doctor").votes.n_voted.all()


def test_owner_that_refuses_in_the_middle_is_named(federation: Federation) -> None:
    refusing = failing(PolicyError("no more"), ShareRequest, after=1)
    peer = FaultyPeer(federation.participants["bank"], on_request=refusing)
    with replaced(federation.network, "bank", peer), blamed("bank"):
        ask(federation, CASE.codes, partial=True)


@pytest.mark.parametrize("value", [2**62, -(2**62) - 1, 2**63 - 1])
def test_numbers_out_of_range_are_not_even_encrypted(federation: Federation, value: int) -> None:
    codes = {party: np.full((len(table), 1), value, dtype=np.int64) for party, table in CASE.codes.items()}
    with pytest.raises(RangeError, match="party 'bank', column 'x0'"):
        ask(federation, codes, requester="clinic")


def test_table_of_other_columns_or_unequal_lengths_is_refused(federation: Federation) -> None:
    codes = some(CASE.codes, 3)
    for wrong in (
        codes | {"casino": codes["shop"]},
        {party: table for party, table in codes.items() if party != "shop"},
        codes | {"shop": codes["shop"][:, :2]},
        codes | {"telco": codes["telco"][:1]},
    ):
        with pytest.raises(UsageError):
            ask(federation, wrong, requester="clinic")


@pytest.mark.parametrize("value", [2**70, -(2**70), 2**120])
def test_rows_that_encrypt_numbers_out_of_range_are_refused_by_the_compute_partner(
    federation: Federation, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a requester that does not check what it encrypts."""
    codes = {party: np.full((len(table), 1), value, dtype=object) for party, table in CASE.codes.items()}
    monkeypatch.setattr(
        frf_predict_module,
        "_row_values",
        lambda facts, given: np.concatenate([given[party] for party in facts.columns]).T,
    )
    for partial in (False, True):
        with blamed(CC):
            ask(federation, codes, partial=partial, requester="clinic")


@pytest.mark.parametrize("open_it", [False, True], ids=["before it is created", "before it has grown"])
def test_forest_that_is_not_whole_answers_nobody(open_it: bool) -> None:
    federation = set_up(CASE)
    if open_it:
        for name, table in CASE.codes.items():
            federation.participants[name].hold("training", table)
        federation.coordinator.create(CASE.rules, federation.seed, targets_of(CASE))
        federation.coordinator.open()
    with blamed(CS):
        ask(federation, some(CASE.codes))


# -- a lying requester ------------------------------------------------------------------------------


def encrypted(federation: Federation, values: list[int]) -> bytes:
    weak = federation.requesters["clinic"].identity.weak
    return b"".join(c.to_bytes(weak.parameters) for c in ho_enc(weak.public, values, n_jobs=1))


def signed(federation: Federation, rows: bytes, n_rows: int = 2) -> PredictRequest:
    identity = federation.requesters["clinic"].identity
    request = sign_request(identity, federation.coordinator.plan.forest, n_rows, "hard", False, rows)
    return PredictRequest(request=request, rows=rows)


def send(federation: Federation, message: Message, sender: str = "clinic") -> PredictReply:
    return federation.network.channel(sender).call(CS, message, PredictReply)


def books(federation: Federation) -> list[Any]:
    owners = [owner.book for owner in federation.participants.values()]
    kept = (federation.coordinator.book, federation.compute.book, *owners)
    return [(dict(book.known), dict(book.rows)) for book in kept]


def refusal(federation: Federation, message: Message, sender: str = "clinic") -> str:
    """The kind of CS's refusal; nobody writes anything down, and CS has asked nobody."""
    return refusal_kind(
        lambda: send(federation, message, sender),
        by=CS,
        unchanged=lambda: (books(federation), federation.network.messages[CS, CC, "HoLT"]),
    )


def test_request_is_answered_once(federation: Federation) -> None:
    message = signed(federation, encrypted(federation, [1] * 12))
    assert send(federation, message).failure is None
    assert refusal(federation, message) == "replay"


def test_other_rows_than_were_signed_are_refused(federation: Federation) -> None:
    message = signed(federation, encrypted(federation, list(range(12))))
    width = len(message.rows) // 2
    for rows in (
        encrypted(federation, list(range(12))),
        message.rows[width:] + message.rows[:width],
        message.rows[:-1],
        message.rows + b"\0",
        b"",
    ):
        assert refusal(federation, changed(message, rows=rows)) == "request"
    assert send(federation, message).failure is None


@pytest.mark.parametrize(("n_values", "n_rows"), [(12, 1), (12, 3), (6, 2), (10, 2), (14, 2), (0, 1)])
def test_other_numbers_of_rows_or_columns_are_refused(
    federation: Federation, n_values: int, n_rows: int
) -> None:
    rows = encrypted(federation, [1] * n_values)
    assert refusal(federation, signed(federation, rows, n_rows)) == "length"


@pytest.mark.parametrize("place", [0, 11])
def test_rows_that_are_no_ciphertexts_are_refused(federation: Federation, place: int) -> None:
    rows = bytearray(encrypted(federation, [1] * 12))
    rows[96 * place : 96 * (place + 1)] = bytes(96)
    assert refusal(federation, signed(federation, bytes(rows))) == "out-of-range"


@pytest.mark.parametrize("sender", ["doctor", "bank"])
def test_request_is_taken_from_the_requester_alone(federation: Federation, sender: str) -> None:
    message = signed(federation, encrypted(federation, [1] * 12))
    assert refusal(federation, message, sender) == "sender"
    assert send(federation, message).failure is None


# -- a lying CS -------------------------------------------------------------------------------------


def answer_of_liar(
    federation: Federation, kind: type[Message], change: Callable[[Any], Message], partial: bool = False
) -> Answer:
    """The clinic asks about two rows. Raises what it finds wrong, after a check that it blames CS."""
    liar = FaultyPeer(
        federation.coordinator, on_reply=lambda _, reply: change(reply) if isinstance(reply, kind) else reply
    )
    try:
        with replaced(federation.network, CS, liar):
            return ask(federation, some(CASE.codes, 2), partial=partial, requester="clinic")
    except RefusedError as error:
        if error.party == CS and isinstance(error.__cause__, RejectedError) and "refused" not in error.reason:
            raise error.__cause__ from error
        raise


N_TREES = CASE.rules.n_trees
WRONG_ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "no votes": ({"votes": b""}, "length"),
    "votes for another number of rows": ({"votes": bytes(8 * 7)}, "length"),
    "a broken vote": ({"votes": bytes(8 * 6 - 1)}, "length"),
    "trees of one row": ({"n_voted": u4(N_TREES)}, "length"),
    "trees of three rows": ({"n_voted": u4(N_TREES, N_TREES, N_TREES)}, "length"),
    "no trees": ({"n_voted": b""}, "length"),
    "more trees than there are": ({"n_voted": u4(N_TREES, N_TREES + 1)}, "out-of-range"),
}


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_answer_with_other_numbers_of_votes_or_trees_is_refused(
    federation: Federation, name: str, partial: bool
) -> None:
    fields, kind = WRONG_ANSWERS[name]
    with pytest.raises(FormatError) as caught:
        answer_of_liar(federation, PredictReply, lambda reply: changed(reply, **fields), partial)
    assert caught.value.kind == kind


def test_answer_of_fewer_trees_is_refused_unless_it_may_be_partial(federation: Federation) -> None:
    fewer = functools.partial(changed, n_voted=u4(N_TREES, N_TREES - 1), absent=("shop",))
    with pytest.raises(FormatError) as caught:
        answer_of_liar(federation, PredictReply, fewer)
    assert caught.value.kind == "out-of-range"
    assert answer_of_liar(federation, PredictReply, fewer, partial=True).absent == ("shop",)


def test_answer_of_fewer_trees_names_somebody_absent(federation: Federation) -> None:
    with pytest.raises(RejectedError):
        answer_of_liar(federation, PredictReply, lambda r: changed(r, n_voted=u4(0, N_TREES)), partial=True)


def test_failure_is_an_error_whatever_else_the_answer_says(federation: Federation) -> None:
    for reason, error in (("absent", AbsentError), ("refused", RefusedError)):
        failure = msgspec.convert({"party": "shop", "reason": reason}, Failure)
        with pytest.raises(error) as caught:
            answer_of_liar(
                federation, PredictReply, functools.partial(changed, failure=failure), partial=True
            )
        assert caught.value.party == "shop"


def other_opening(lie: dict[str, Any], facts: ForestFacts) -> ForestFacts:
    return changed(facts, opening=changed(facts.opening, **lie))


@pytest.mark.parametrize(
    "lie",
    [
        functools.partial(other_opening, {"federation": "another"}),
        functools.partial(changed, epoch=0),
        functools.partial(changed, epoch=2),
    ],
    ids=["federation", "epoch 0", "epoch 2"],
)
def test_nothing_is_sent_to_a_forest_of_another_federation_or_epoch(
    federation: Federation, lie: Callable[[Any], Message]
) -> None:
    sent = federation.network.messages["clinic", CS, "FRF-Predict"]
    with pytest.raises(ProtocolError) as caught:
        answer_of_liar(federation, ForestFacts, lie)
    assert caught.value.kind == "epoch"
    assert federation.network.messages["clinic", CS, "FRF-Predict"] == sent + 1


def test_forest_whose_rules_are_not_those_of_its_name_is_sent_nothing(federation: Federation) -> None:
    """More trees or levels would let CS ask CC more than the requester has signed for."""
    rules = federation.coordinator.plan.rules
    lies: list[dict[str, Any]] = [
        {"rules": changed(rules, n_trees=N_TREES + 1)},
        {"rules": changed(rules, max_depth=62)},
        {"forest": bytes(16)},
    ]
    for lie in lies:
        with pytest.raises(ProtocolError) as caught:
            answer_of_liar(federation, ForestFacts, functools.partial(other_opening, lie))
        assert caught.value.kind == "forest"


COLUMNS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "a column less": lambda columns: columns | {"telco": columns["telco"][1:]},
    "a column more": lambda columns: columns | {"telco": columns["telco"] + columns["shop"]},
    "another party": lambda columns: columns | {"casino": columns["shop"]},
}


@pytest.mark.parametrize("name", COLUMNS)
def test_nothing_is_sent_to_a_forest_of_other_columns(federation: Federation, name: str) -> None:
    sent = federation.network.messages["clinic", CS, "FRF-Predict"]
    with pytest.raises(UsageError, match="columns of"):
        answer_of_liar(federation, ForestFacts, lambda f: changed(f, columns=COLUMNS[name](f.columns)))
    assert federation.network.messages["clinic", CS, "FRF-Predict"] == sent + 1


def test_whoever_is_not_admitted_sends_no_rows(federation: Federation) -> None:
    kgc, network = federation.coordinator.identity.kgc, federation.network
    stranger = Requester(Identity("mallory", REQUESTER, kgc, None, True), network.channel("mallory"))
    with pytest.raises(ProtocolError):
        stranger.ask(some(CASE.codes), "hard")
    assert network.messages["mallory", CS, "FRF-Predict"] == 0


def test_facts_are_told_to_whom_kgc_has_admitted_alone(federation: Federation) -> None:
    admission = federation.requesters["clinic"].identity.admission
    assert admission is not None
    assert refusal(federation, ForestQuery(admission=admission), "bank") == "sender"
