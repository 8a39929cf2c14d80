"""What each party gets to see: every message of a run is kept, and searched for what must not travel."""

import base64
import random
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.crypto.encoding import MISSING, FixedPoint
from revfrf.crypto.keys import Parameters
from revfrf.errors import RejectedError
from revfrf.federation import Federation
from revfrf.forest.candidates import Proposal, propose
from revfrf.forest.nodes import Node
from revfrf.messages import registry, testing
from revfrf.messages.base import FEATURES, QUESTIONS, SIZES, Message
from revfrf.messages.training import Column, LevelReply, LevelRequest, NodeRows
from revfrf.protocols import fos_find
from revfrf.protocols.key_setup import CC, CS, KGC
from revfrf.transport.base import Reply
from revfrf.transport.codec import encode
from revfrf.transport.memory import MemoryNetwork
from tests.federations import (
    Case,
    grow_plainly,
    ignore,
    keys,
    participants,
    reference_trees,
    targets_of,
    with_rules,
)
from tests.reference import forest as reference

N_ROWS, DECIMALS = 70, 9
OWNED = {"bank": 2, "telco": 3, "shop": 1}

# -- canaries and the search for them ----------------------------------------------------------------


@dataclass
class Scanner:
    """Finds any of many patterns in bytes, and says what it is."""

    patterns: dict[int, dict[bytes, str]] = field(default_factory=dict)

    def add(self, what: str, *patterns: bytes) -> None:
        for pattern in patterns:
            assert len(pattern) >= 8, f"{what}: too short to be told from chance"
            self.patterns.setdefault(len(pattern), {})[pattern] = what

    def add_number(self, what: str, value: int) -> None:
        """An integer in every form it may be written in."""
        size = -(-value.bit_length() // 8) if value >= 2**63 else 8
        raw = value.to_bytes(size, "big", signed=size == 8)
        self.add(what, raw, raw[::-1], str(value).encode(), raw.hex().encode(), f"{value:x}".encode())

    def add_float(self, what: str, value: float) -> None:
        self.add(what, struct.pack("<d", value), struct.pack(">d", value), repr(value).encode())

    def add_bytes(self, what: str, value: bytes) -> None:
        self.add(what, value, value[::-1], value.hex().encode(), base64.b64encode(value))

    def found(self, data: bytes) -> set[str]:
        return {
            known[data[at : at + size]]
            for size, known in self.patterns.items()
            for at in range(len(data) - size + 1)
            if data[at : at + size] in known
        }


def column(rng: random.Random) -> list[float]:
    """Numbers whose x̂ has all of its 62 bits, so that none of them turns up by chance."""
    return [rng.choice([-1, 1]) * rng.uniform(1e9, 4e9) for _ in range(N_ROWS)]


def case_of(n_classes: int) -> tuple[Case, dict[str, list[list[float]]]]:
    """Features that are canaries; for a regression the targets too, for classes weights besides."""
    rng = random.Random(n_classes)
    raw = {party: [column(rng) for _ in range(n)] for party, n in OWNED.items()}
    codes = {p: np.stack([FixedPoint(DECIMALS).encode(c) for c in table]) for p, table in raw.items()}
    y = [float(rng.randrange(n_classes)) if n_classes else rng.uniform(1e6, 2e6) for _ in range(N_ROWS)]
    rules = with_rules(
        n_trees=3, min_samples_leaf=2, method="uniform" if n_classes else "quantile", candidate_limit=2**62
    )
    weights = [rng.uniform(1, 2) for _ in range(N_ROWS)] if n_classes else None
    return Case(codes, y, n_classes, rules, weights, rng.randbytes(32)), raw


# -- a run whose every message is kept ---------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    sender: str
    recipient: str
    data: bytes

    @property
    def plain(self) -> dict[str, Any]:
        """What travels, read without our own types."""
        fields: dict[str, Any] = msgspec.msgpack.decode(self.data[1:])
        return fields


@dataclass
class Run:
    case: Case
    raw: dict[str, list[list[float]]]
    federation: Federation
    sent: list[Sent]
    proposals: list[Proposal]
    exponents: list[int]

    @property
    def scanner(self) -> Scanner:
        """Everything that must stay where it is."""
        scanner = Scanner()
        for party, table in self.raw.items():
            for values, codes in zip(table, self.case.codes[party], strict=True):
                for x, code in zip(values, codes.tolist(), strict=True):
                    scanner.add_float(f"a feature of {party}", x)
                    scanner.add_float(f"a feature of {party}", float(code))
                    scanner.add_number(f"a feature of {party}", code)
        add_labels(scanner, self.case, targets_of(self.case, self.federation.seed).values)
        cuts = {
            cut for p in self.proposals for own, n in zip(p.cuts, p.n_cuts, strict=True) for cut in own[:n]
        }
        for cut in cuts - {MISSING}:
            scanner.add_number("a cut", int(cut))
        for exponent in self.exponents:
            scanner.add_number("a weak key or the randomness of a ciphertext", exponent)
        dealt = keys()
        scanner.add_number("the strong share of CS", dealt.cs_share.value.reveal())
        scanner.add_number("the strong share of CC", dealt.cc_share.value.reveal())
        servers = (self.federation.coordinator, self.federation.compute)
        for role in (*servers, *participants(self.federation).values()):
            name, key = role.identity.name, role.identity.signing_key
            scanner.add_bytes(f"the signing seed of {name}", key.export())
        assert self.federation.kgc.signing is not None
        scanner.add_bytes("the signing seed of KGC", self.federation.kgc.signing.export())
        for name, owner in participants(self.federation).items():
            scanner.add_bytes(f"the secret of {name}", owner.secret)
        scanner.add_bytes("the forest's seed", self.federation.seed)
        scanner.add_bytes("the federation's seed", self.case.seed)
        return scanner


def add_labels(scanner: Scanner, case: Case, targets: NDArray[np.int64]) -> None:
    if case.n_classes:  # small numbers: what must not travel is their sequence, of any 20 rows
        classes = bytes(int(label) for label in case.y)
        for start in range(N_ROWS - 20 + 1):
            scanner.add("labels", classes[start : start + 20])
    else:
        for label, target in zip(case.y, targets.tolist(), strict=True):
            scanner.add_float("labels", label)
            scanner.add_number("labels", target)
    for weight in case.weights or ():
        scanner.add_float("weights", weight)


@pytest.fixture(scope="module", params=[0, 3], ids=["regression", "classes"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Key set-up, training and FRF-Test, with an ear on the network."""
    case, raw = case_of(request.param)
    sent: list[Sent] = []
    proposals: list[Proposal] = []
    exponents: list[int] = []
    deliver, draw = MemoryNetwork.deliver, Parameters.random_exponent

    def overhear(
        network: MemoryNetwork, sender: str, recipient: str, data: bytes, *expected: type[Reply]
    ) -> Reply:
        sent.append(Sent(sender, recipient, data))
        return deliver(network, sender, recipient, data, *expected)

    def watched(*args: Any) -> Proposal:
        proposals.append(propose(*args))
        return proposals[-1]

    def drawn(parameters: Parameters) -> int:
        exponents.append(draw(parameters))
        return exponents[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryNetwork, "deliver", overhear)
        patch.setattr(fos_find, "propose", watched)
        patch.setattr(Parameters, "random_exponent", drawn)
        columns = {p: [Column(f"x{i}", DECIMALS, None) for i in range(n)] for p, n in OWNED.items()}
        federation = Federation(columns, dealt=keys(), seed=case.seed)
        federation.train(case.codes, case.rules, targets_of(case, federation.seed), ignore)
        federation.votes(case.codes, N_ROWS, "soft")
        yield Run(case, raw, federation, sent, proposals, exponents)


def test_run_is_worth_watching(run: Run) -> None:
    kinds = {sent.plain["type"] for sent in run.sent}
    assert kinds == {kind.__name__ for kind in registry.MESSAGES}
    assert {split.owner for split in run.federation.coordinator.store.splits.values()} == set(OWNED)
    assert len(run.exponents) >= len(run.federation.coordinator.store.splits) + 5
    assert sum(len(sent.data) for sent in run.sent) > 10_000


# -- what must not travel ---------------------------------------------------------------------------


def test_nothing_secret_travels_but_the_strong_shares_to_their_owners(run: Run) -> None:
    scanner = run.scanner
    seen = [
        (s.plain["type"], s.sender, s.recipient, what) for s in run.sent for what in scanner.found(s.data)
    ]
    assert sorted(seen) == [
        ("Dealt", KGC, CC, "the strong share of CC"),
        ("Dealt", KGC, CS, "the strong share of CS"),
    ]


def test_scanner_finds_every_canary_wherever_it_is_put(run: Run) -> None:
    scanner = run.scanner
    kinds = Counter[str]()
    for known in scanner.patterns.values():
        for pattern, what in known.items():
            kinds[what] += 1
            if kinds[what] <= 40:
                data = encode(testing.TestReply(bits=b"\x07\x00" + pattern + b"\xff"))
                assert what in scanner.found(data)
    for party in OWNED:
        assert {f"a feature of {party}", f"the secret of {party}", f"the signing seed of {party}"} <= set(
            kinds
        )
    assert {"labels", "a cut", "the forest's seed", "the strong share of CC"} <= set(kinds)
    assert ("weights" in kinds) == bool(run.case.n_classes)
    assert scanner.found(encode(testing.TestReply(bits=bytes(1000)))) == set()


def test_scanner_sees_a_participant_that_sends_its_column(run: Run) -> None:
    codes = run.case.codes["shop"][0]
    for leak in (codes.tobytes(), codes.byteswap().tobytes(), np.array(run.raw["shop"][0]).tobytes()):
        reply = LevelReply(level=0, ciphertexts=b"", signature=None, n_cuts=b"\1", bins=leak)
        assert "a feature of shop" in run.scanner.found(encode(reply))


def test_scanner_sees_labels_in_a_question(run: Run) -> None:
    labels = [int(y) for y in run.case.y]
    leak = bytes(labels) if run.case.n_classes else np.array(run.case.y).tobytes()
    request = testing.TestRequest(
        epoch=1, forest=bytes(16), table="t", nodes=NodeRows(trees=b"", paths=b"", sizes=b"", rows=leak)
    )
    assert run.scanner.found(encode(request)) == {"labels"}


def test_only_kgc_and_the_coordinator_start_or_end_a_message(run: Run) -> None:
    """A star: participants and CC never hear of each other but through the epoch certificate."""
    for sent in run.sent:
        assert {sent.sender, sent.recipient} & {CS, KGC}
        if KGC in (sent.sender, sent.recipient):
            assert sent.plain["type"] in ("Dealt", "Enrolment", "EpochCertificate", "Done")


def test_compute_partner_sees_nothing_of_the_forest(run: Run) -> None:
    seen = {sent.plain["type"] for sent in run.sent if sent.recipient == CC}
    assert seen == {"Dealt", "EpochCertificate"}


# -- whose rows are seen by whom --------------------------------------------------------------------

Question = tuple[str, Node, tuple[int, ...], tuple[int, ...]]
"""A party, a node, the numbers of its features that are asked, and the rows it is told."""


def split_rows(nodes: dict[str, bytes]) -> list[tuple[Node, tuple[int, ...]]]:
    """Nodes with their rows, from the wire: gaps in LEB128."""
    trees = np.frombuffer(nodes["trees"], "<u4").tolist()
    paths = np.frombuffer(nodes["paths"], "<u8").tolist()
    data, found = iter(nodes["rows"]), []
    for tree, path, size in zip(trees, paths, np.frombuffer(nodes["sizes"], SIZES).tolist(), strict=True):
        rows, after = [], 0
        for _ in range(size):
            gap, shift, byte = 0, 0, 128
            while byte >= 128:
                byte = next(data)
                gap |= (byte & 127) << shift
                shift += 7
            rows.append(after + gap)
            after += gap + 1
        found.append(((tree, path), tuple(rows)))
    assert next(data, None) is None
    return found


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
    for tree in reference_trees(run.case):
        rows = [row for row in range(N_ROWS) if tree.counts[row] > 0]
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
    splits = run.federation.coordinator.store.splits
    assert told == Counter((split.owner, node) for node, split in splits.items())


# -- the books --------------------------------------------------------------------------------------


def disclosed(sent: Sent) -> dict[str, int]:
    """What a message tells, counted from its plain fields."""
    f = sent.plain
    match f["type"]:
        case "Dealt":
            return {"public parameters": 1} | ({"its strong share": 1} if f["share"] is not None else {})
        case "Enrolment":
            return {"public keys": 1}
        case "EpochCertificate":
            return {"members of the federation": len(f["members"])}
        case "OpenForest":
            return {"the forest's rules": 1}
        case "Schema":
            names = sum(len(column["categories"] or ()) for column in f["columns"])
            return {"names and decimals of columns": len(f["columns"]), "names of categories": names}
        case "LevelRequest" | "TestRequest" as kind:
            nodes = split_rows(f["nodes"])
            rows = "rows of such nodes" if kind == "LevelRequest" else "test rows that reach them"
            told = {"nodes it was asked about": len(nodes), rows: sum(len(own) for _, own in nodes)}
            return told | ({"its own splits that won": len(f["won_cuts"])} if "won_cuts" in f else {})
        case "LevelReply":
            return {
                "bins of rows": len(f["bins"]),
                "numbers of candidate cuts": len(f["n_cuts"]),
                "bytes of encrypted splits": len(f["ciphertexts"]),
            }
        case "TestReply":
            return {"path bits of test rows, in whole bytes": 8 * len(f["bits"])}
    return {}


def test_leakage_is_what_was_overheard(run: Run) -> None:
    learnt: dict[str, Counter[str]] = {name: Counter() for name in (KGC, CS, CC, *OWNED)}
    for sent in run.sent:
        learnt[sent.recipient].update(disclosed(sent))
    assert run.federation.leakage() == {
        name: {what: count for what, count in told.items() if count} for name, told in learnt.items()
    }
    assert learnt[CS]["bins of rows"] > 500


def test_traffic_is_what_was_overheard(run: Run) -> None:
    traffic: dict[str, dict[str, int]] = {}
    for sent in run.sent:
        link = traffic.setdefault(f"{sent.sender} -> {sent.recipient}", {"messages": 0, "bytes": 0})
        link["messages"] += 1
        link["bytes"] += len(sent.data)
    booked = {
        link: {what: sum(cell[what] for cell in by_protocol.values()) for what in ("messages", "bytes")}
        for link, by_protocol in run.federation.costs().traffic.items()
    }
    assert booked == traffic


def test_refusal_tells_the_peer_nothing_but_that(run: Run) -> None:
    """Whatever the reason, the words are the same."""
    channel = run.federation.network.channel(CS)
    good = next(s for s in run.sent if s.plain["type"] == "LevelRequest" and s.recipient == "bank")
    request = msgspec.msgpack.decode(good.data[1:], type=LevelRequest)
    reasons: list[Message] = [
        request,
        msgspec.structs.replace(request, epoch=9),
        msgspec.structs.replace(request, forest=bytes(16)),
        msgspec.structs.replace(request, level=99, asked_nodes=b"\7"),
    ]
    said, why = set(), set()
    for message in reasons:
        with pytest.raises(Exception, match="bank") as caught:
            channel.call("bank", message, LevelReply)
        assert isinstance(caught.value.__cause__, RejectedError)
        said.add(str(caught.value))
        why.add(str(caught.value.__cause__))
    assert said == {"'bank': rejected"}
    assert len(why) == 4
