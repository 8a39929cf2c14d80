"""What a request shows to the servers, to the owners of splits, and to who asks."""

from collections import Counter
from typing import Any

import numpy as np

from revfrf.names import CC, CS
from revfrf.testing.federations import random_case, train
from tests.federations import grow_plainly
from tests.reference import forest as reference
from tests.views.overheard import ASKING, OWNED, WIDTH, Run, compared, of_kind, watching

HEADER = {"admission", "forest", "id", "n_rows", "voting", "partial", "digest", "signature"}


def headers(run: Run) -> dict[str, dict[str, Any]]:
    """What each requester has signed."""
    asked = [sent.plain["request"] for sent in of_kind(run, "PredictRequest")]
    return {header["admission"]["member"]["name"]: header for header in asked}


def test_a_request_says_who_asks_and_how_much_and_nothing_else_of_the_rows(run: Run) -> None:
    signed = headers(run)
    assert set(signed) == set(ASKING)
    for name, header in signed.items():
        n_rows, voting = ASKING[name]
        assert set(header) == HEADER
        assert set(header["admission"]) == {"type", "federation", "epoch", "member", "signature"}
        assert set(header["admission"]["member"]) == {"name", "role", "h", "verify_key"}
        assert (header["n_rows"], header["voting"], header["partial"]) == (n_rows, voting, False)
        assert len(header["digest"]) == 32
    for sent in of_kind(run, "PredictRequest"):
        assert set(sent.plain) == {"type", "request", "rows"}
        assert len(sent.plain["rows"]) == WIDTH * sum(OWNED.values()) * sent.plain["request"]["n_rows"]


def test_equal_values_of_a_request_are_different_ciphertexts() -> None:
    with watching() as watch:
        rows = {party: np.zeros((n, 20), dtype=np.int64) for party, n in OWNED.items()}
        federation = train(random_case(71))
        federation.ask(rows, None, "soft", False, lambda _: None)
    [request] = [sent.plain for sent in watch.sent if sent.plain["type"] == "PredictRequest"]
    zeros = {request["rows"][at : at + WIDTH] for at in range(0, len(request["rows"]), WIDTH)}
    assert len(zeros) == 20 * sum(OWNED.values())


def test_compute_partner_learns_the_rules_of_the_forest_and_nothing_of_its_growth(run: Run) -> None:
    seen = {sent.plain["type"] for sent in run.sent if sent.recipient == CC}
    assert seen == {"KeyDeal", "EpochCertificate", "OpenForest", "MaskedComparisons"}
    grown = next(i for i, sent in enumerate(run.sent) if sent.plain["type"] == "ForestQuery")
    before = [sent.plain["type"] for sent in run.sent[:grown] if sent.recipient == CC]
    assert before == ["KeyDeal", "EpochCertificate", "OpenForest"]


def test_compute_partner_hears_of_a_level_whose_splits_are_compared_how_often_and_no_more(run: Run) -> None:
    """No row, no node, no path, and no ciphertext of a value or a split."""
    expected, seen = [], []
    for asked in run.requests:
        for number, level in enumerate(compared(run, asked)):
            if level:
                owners = sorted(level)
                counts = [level[owner] for owner in owners]
                expected.append((headers(run)[asked.requester], number, owners, counts, WIDTH * sum(counts)))
    for sent in of_kind(run, "MaskedComparisons"):
        f = sent.plain
        assert (sent.sender, sent.recipient) == (CS, CC)
        assert set(f) == {"type", "request", "depth", "owners", "counts", "packs"}
        counts = np.frombuffer(f["counts"], "<u4").tolist()
        seen.append((f["request"], f["depth"], f["owners"], counts, len(f["packs"])))
    assert seen == expected
    known = {split.ciphertext for split in run.before.splits.values()} | {
        sent.plain["rows"][at : at + WIDTH]
        for sent in of_kind(run, "PredictRequest")
        for at in range(0, len(sent.plain["rows"]), WIDTH)
    }
    c_parts = {ciphertext[: WIDTH * 2 // 3] for ciphertext in known}
    packs = b"".join(sent.plain["packs"] for sent in of_kind(run, "MaskedComparisons"))
    assert not c_parts & {packs[at : at + WIDTH * 2 // 3] for at in range(0, len(packs), WIDTH)}


def test_owner_hears_how_often_its_splits_are_compared_and_of_no_other_level(run: Run) -> None:
    """Neither rows nor nodes nor paths, and nothing at all where none of its splits is compared."""
    expected: Counter[tuple[str, str, int, int]] = Counter()
    silent = 0
    for asked in run.requests:
        for number, level in enumerate(compared(run, asked)):
            expected.update((owner, asked.requester, number, count) for owner, count in level.items())
            silent += len(OWNED) - len(level)
    seen: Counter[tuple[str, str, int, int]] = Counter()
    for sent in of_kind(run, "ShareRequest"):
        f = sent.plain
        name = f["request"]["admission"]["member"]["name"]
        assert set(f) == {"type", "request", "depth", "count", "ciphertext", "signature"}
        assert f["request"] == headers(run)[name]
        assert len(f["ciphertext"]) == WIDTH
        seen[sent.recipient, name, f["depth"], f["count"]] += 1
    assert seen == expected
    assert silent > 0


def test_owners_receive_no_other_message_while_requests_are_answered(run: Run) -> None:
    grown = next(i for i, sent in enumerate(run.sent) if sent.plain["type"] == "ForestQuery")
    heard = {(sent.recipient, sent.plain["type"]) for sent in run.sent[grown:] if sent.recipient in OWNED}
    as_requester = {("bank", kind) for kind in ("Admission", "ForestFacts", "PredictReply")}
    assert heard == {(owner, "ShareRequest") for owner in OWNED} | as_requester


def test_results_reach_the_coordinator_sealed_and_an_owner_answers_with_its_share_alone(run: Run) -> None:
    asked = of_kind(run, "MaskedComparisons")
    for question, sent in zip(asked, of_kind(run, "SealedResults"), strict=True):
        f, counts = sent.plain, np.frombuffer(question.plain["counts"], "<u4").tolist()
        assert (sent.sender, sent.recipient) == (CC, CS)
        assert set(f) == {"type", "ciphertexts", "masked", "signatures"}
        assert len(f["ciphertexts"]) == WIDTH * len(counts)
        assert [len(bits) for bits in f["masked"]] == [
            -(-(n + 1) // 8) if n + 1 > 254 else 0
            for n in counts  # behind them the bit that says of faults
        ]
    for sent in of_kind(run, "ShareReply"):
        assert sent.recipient == CS
        assert set(sent.plain) == {"type", "count", "share"}
        assert len(sent.plain["share"]) <= WIDTH // 3


def test_requester_receives_votes_only(run: Run) -> None:
    """And the schema, before. Neither splits nor leaves nor paths, and nothing of single trees."""
    for name in ("requester", "clinic"):
        seen = [sent.plain["type"] for sent in run.sent if sent.recipient == name]
        assert seen == ["KeyDeal", "Admission", "ForestFacts", "PredictReply"]
    plain = grow_plainly(run.case)
    for asked, sent in zip(run.requests, of_kind(run, "PredictReply"), strict=True):
        f, n_trees = sent.plain, run.case.rules.n_trees
        assert (sent.sender, sent.recipient) == (CS, asked.requester)
        assert set(f) == {"type", "votes", "n_voted", "absent", "failure"}
        assert (f["absent"], f["failure"]) == ([], None)
        assert np.frombuffer(f["n_voted"], "<u4").tolist() == [n_trees] * asked.n_rows
        votes = np.frombuffer(f["votes"], "<i8").reshape(asked.n_rows, -1)
        np.testing.assert_array_equal(votes, asked.votes)
        for number, its_votes in enumerate(votes.tolist()):
            leaves = reference.predict(plain.forest, asked.row(number))
            if not run.case.n_classes:
                assert its_votes == [reference.number_votes(leaves, plain.scale)]
            elif asked.voting == "soft":
                assert its_votes == reference.soft_votes(leaves)
            else:
                assert its_votes == reference.hard_votes(leaves)


def test_facts_of_a_forest_are_its_name_and_its_columns(run: Run) -> None:
    for sent in of_kind(run, "ForestFacts"):
        f = sent.plain
        known = {
            "type",
            "epoch",
            "opening",
            "n_votes",
            "columns",
            "labels",
            "centre",
            "vote_places",
            "absent",
        }
        assert set(f) == known
        assert f["labels"] == f["absent"] == []
        [opening] = [o for o in of_kind(run, "OpenForest") if o.recipient == CC]
        assert f["opening"] == opening.plain
        names = {party: [column["name"] for column in columns] for party, columns in f["columns"].items()}
        assert names == {party: [f"x{i}" for i in range(n)] for party, n in OWNED.items()}
        assert {key for columns in f["columns"].values() for column in columns for key in column} == {
            "name",
            "decimals",
            "ring",
            "categories",
        }
