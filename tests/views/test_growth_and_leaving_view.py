"""What each party sees of rows, nodes and splits when a forest grows, and when a participant leaves."""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from revfrf.forest.nodes import Node
from revfrf.messages.base import FEATURES, QUESTIONS
from revfrf.names import CC, CS, KGC
from revfrf.testing.recorders import Sent
from tests.federations import grow_plainly
from tests.reference import forest as reference
from tests.views.overheard import ASKING, LEAVER, N_ROWS, OWNED, WIDTH, Run, split_rows

# -- whose rows are seen by whom --------------------------------------------------------------------

Question = tuple[str, Node, tuple[int, ...], tuple[int, ...]]
"""A party, a node, the numbers of its features that are asked, and the rows it is told."""


def asked(sent: Iterable[Sent]) -> Counter[Question]:
    questions: Counter[Question] = Counter()
    for message in sent:
        if message.plain["type"] == "LevelRequest":
            nodes = np.frombuffer(message.plain["asked_nodes"], QUESTIONS).tolist()
            features = np.frombuffer(message.plain["asked_features"], FEATURES).tolist()
            pairs = list(zip(nodes, features, strict=True))
            for position, (node, rows) in enumerate(split_rows(message.plain["nodes"])):
                own = tuple(sorted(f for n, f in pairs if n == position))
                questions[message.recipient, node, own, rows] += 1
    return questions


def expected_questions(tree: reference.Tree, path: int, rows: list[int]) -> Iterator[Question]:
    """By docs/forest.md: the candidates are asked, and only if none of them can split, the others."""
    if reference.must_be_leaf(tree, path, rows):
        return
    draws = {
        f.id: reference.draw(reference.key("candidate", tree.seed, f.id), tree.number, path)
        for f in tree.features
    }
    candidates = {f: d for f, d in draws.items() if d <= tree.rules.candidate_limit}
    rounds = [set(candidates)]
    split = reference.winner(tree, path, rows, candidates)
    if split is None:
        rounds.append(set(draws) - set(candidates))
        split = reference.winner(tree, path, rows, draws)
    for names in rounds:
        for party, n in OWNED.items():
            own = tuple(i for i in range(n) if f"{party}/x{i}" in names)
            if own:
                yield party, (tree.number, path), own, tuple(rows)
    if split is not None:
        feature = next(f for f in tree.features if f.id == split.feature)
        left, right = reference.divided(feature, split.threshold, rows)
        yield from expected_questions(tree, 2 * path, left)
        yield from expected_questions(tree, 2 * path + 1, right)


def test_participant_gets_the_rows_of_exactly_the_nodes_where_its_features_are_asked(run: Run) -> None:
    expected: Counter[Question] = Counter()
    for tree in grow_plainly(run.case).trees:
        rows = [row for row in range(N_ROWS) if tree.weights[row] > 0]
        expected.update(expected_questions(tree, 1, rows))
    assert asked(run.sent) == expected
    nodes_of = {party: {node for p, node, _, _ in expected if p == party} for party in OWNED}
    assert nodes_of["shop"] < nodes_of["bank"] | nodes_of["telco"] | nodes_of["shop"]


def test_owner_gets_the_test_rows_that_reach_its_own_nodes(run: Run) -> None:
    plain = grow_plainly(run.case)
    expected: Counter[tuple[str, Node, tuple[int, ...]]] = Counter()
    reached: dict[Node, list[int]] = {}
    for row in range(N_ROWS):
        values = {f.id: f.values[row] for f in plain.features}
        for tree in range(run.case.rules.n_trees):
            _, path = reference.leaf_of(plain.forest, tree, values)
            while path := path >> 1:
                reached.setdefault((tree, path), []).append(row)
    for node, rows in reached.items():
        expected[plain.forest.splits[node].feature.split("/")[0], node, tuple(rows)] += 1
    seen: Counter[tuple[str, Node, tuple[int, ...]]] = Counter()
    for sent in run.sent:
        if sent.plain["type"] == "TestRequest":
            seen.update((sent.recipient, node, rows) for node, rows in split_rows(sent.plain["nodes"]))
    assert seen == expected


def test_winner_alone_is_told_that_its_split_won(run: Run) -> None:
    told: Counter[tuple[str, Node]] = Counter()
    for sent in run.sent:
        if sent.plain["type"] == "LevelRequest":
            trees = np.frombuffer(sent.plain["won_trees"], "<u4").tolist()
            paths = np.frombuffer(sent.plain["won_paths"], "<u8").tolist()
            told.update((sent.recipient, node) for node in zip(trees, paths, strict=True))
    splits = run.before.splits
    assert told == Counter((split.owner, node) for node, split in splits.items())


# -- what leaving shows to whom ---------------------------------------------------------------------


def nodes_in(fields: dict[str, Any]) -> list[Node]:
    trees = np.frombuffer(fields["trees"], "<u4").tolist()
    return list(zip(trees, np.frombuffer(fields["paths"], "<u8").tolist(), strict=True))


def below(run: Run, node: Node) -> bool:
    """Whether a node is a split of the leaver, or below one."""
    tree, path = node
    above = [(tree, path >> up) for up in range(path.bit_length())]
    return any(place in run.before.splits and run.before.splits[place].owner == LEAVER for place in above)


def test_leaver_says_that_it_leaves_and_hears_and_says_nothing_more(run: Run) -> None:
    seen = Counter(
        (s.sender, s.recipient, s.plain["type"]) for s in run.leaving if LEAVER in (s.sender, s.recipient)
    )
    assert seen == {(LEAVER, KGC, "RevocationRequest"): 1, (KGC, LEAVER, "Done"): 1}
    [told] = [sent.plain for sent in run.leaving if sent.plain["type"] == "RevocationRequest"]
    signed = {"federation", "forest", "epoch", "party", "level", "nonce", "time", "signature"}
    assert set(told) == signed | {"type"}


def test_nothing_of_the_leavers_splits_or_keys_travels_when_it_leaves(run: Run) -> None:
    """Neither a cut nor a ciphertext, a batch or a signature of one, nor a key but the public one in the
    certificate, which is what it has left.
    """
    own = [split for split in run.before.splits.values() if split.owner == LEAVER]
    assert own
    for sent in run.leaving:
        assert not any(split.ciphertext in sent.data or split.batch.signature in sent.data for split in own)
    assert not run.scanner.found(b"".join(certificate_parts(run)))
    assert not any(split.ciphertext in part for split in own for part in certificate_parts(run))


def certificate_parts(run: Run) -> list[bytes]:
    """Everything in the event certificate with all receipts, decoded where it is base64."""
    [sent] = [sent for sent in run.leaving if sent.plain["type"] == "Certified"]
    assert (sent.sender, sent.recipient) == (KGC, CS)
    certificate = run.federation.coordinator.certificates[-1]
    assert not certificate.unsigned
    return [certificate.to_json(), *decoded(json.loads(certificate.to_json()))]


def decoded(value: Any) -> Iterator[bytes]:
    match value:
        case dict():
            for inner in value.values():
                yield from decoded(inner)
        case list():
            for inner in value:
                yield from decoded(inner)
        case str():
            try:
                yield base64.b64decode(value, validate=True)
            except binascii.Error:
                yield value.encode()


def test_scanner_reads_certificates(run: Run) -> None:
    what, number = run.before.numbers[0]
    raw = number.to_bytes(-(-number.bit_length() // 8), "big")
    leak = json.loads(json.dumps({"members": [{"h": base64.b64encode(raw).decode()}]}))
    assert what in run.scanner.found(b"".join(decoded(leak)))


def test_no_ciphertext_of_before_travels_again(run: Run) -> None:
    old = {split.ciphertext for split in run.before.splits.values()}
    for sent in run.leaving:
        for field_of in ("ciphertexts", "packs", "rows"):
            blob = sent.plain.get(field_of, b"")
            assert not old & {blob[at : at + WIDTH] for at in range(0, len(blob), WIDTH)}
    assert not old & {split.ciphertext for split in run.after.splits.values()}


def test_owner_is_told_to_forget_exactly_its_own_nodes_below_splits_that_left(run: Run) -> None:
    told = {sent.recipient: sent.plain for sent in run.leaving if sent.plain["type"] == "Destroy"}
    expected: dict[str, set[Node]] = {}
    for node, split in run.before.splits.items():
        if split.owner != LEAVER and below(run, node):
            expected.setdefault(split.owner, set()).add(node)
    assert expected
    assert {owner: sorted(nodes_in(f)) for owner, f in told.items()} == {
        owner: sorted(nodes) for owner, nodes in expected.items()
    }
    for fields in told.values():
        assert set(fields) == {"type", "epoch", "forest", "round", "trees", "paths"}


def test_owner_encrypts_exactly_its_own_splits_that_stay_anew(run: Run) -> None:
    asked = {sent.recipient: sent.plain for sent in run.leaving if sent.plain["type"] == "Rekey"}
    answered = {sent.sender: sent.plain for sent in run.leaving if sent.plain["type"] == "Rekeyed"}
    expected: dict[str, set[Node]] = {}
    for node, split in run.before.splits.items():
        if not below(run, node):
            expected.setdefault(split.owner, set()).add(node)
    assert expected
    assert {owner: sorted(nodes_in(f)) for owner, f in asked.items()} == {
        owner: sorted(nodes) for owner, nodes in expected.items()
    }
    for owner, fields in answered.items():
        assert set(fields) == {"type", "ciphertexts", "signature"}
        assert len(fields["ciphertexts"]) == WIDTH * len(expected[owner])
    assert set(answered) == set(expected)


def test_participant_gets_the_rows_of_exactly_the_nodes_that_grow_again(run: Run) -> None:
    expected: Counter[Question] = Counter()
    for tree in grow_plainly(run.case.without(LEAVER)).trees:
        rows = [row for row in range(N_ROWS) if tree.weights[row] > 0]
        expected.update(q for q in expected_questions(tree, 1, rows) if below(run, q[1]))
    assert expected
    assert asked(run.leaving) == expected


def test_servers_hear_of_leaving_that_it_happened(run: Run) -> None:
    """Neither nodes nor rows; how many nodes there were, and digests, from the report."""
    heard = {name: {s.plain["type"] for s in run.leaving if s.recipient == name} for name in (CC, KGC)}
    assert heard[CC] == {"KeyDeal", "EpochCertificate", "EventNotice"}
    assert heard[KGC] == {"RevocationRequest", "Enrolment", "EpochAccepted", "EventReport"}
    [report] = [sent.plain["report"] for sent in run.leaving if sent.plain["type"] == "EventReport"]
    counts, digests = {"destroyed", "rebuilt", "kept"}, {"digest_before", "digest_after"}
    assert set(report) == counts | digests | {
        "epoch",
        "forest",
        "inputs_before",
        "inputs_after",
        "waits_for",
        "signature",
    }
    assert (report["inputs_after"]["features"], report["waits_for"]) == ([], [])


def test_requesters_hear_nothing_of_leaving(run: Run) -> None:
    strangers = set(ASKING) - set(OWNED)
    assert not [sent for sent in run.leaving if {sent.sender, sent.recipient} & strangers]
