"""What each party gets to see: every message of a run is kept, and searched for what must not travel."""

import base64
import binascii
import json
import random
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.costs import Costs
from revfrf.crypto import literal, packing, results
from revfrf.crypto.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.encoding import MISSING, FixedPoint
from revfrf.crypto.keys import Ciphertext, Parameters
from revfrf.crypto.literal import Term
from revfrf.crypto.packing import Comparison, Mask, Pack
from revfrf.crypto.strong import StrongShare, root_open
from revfrf.errors import PolicyError, RefusedError, RejectedError
from revfrf.federation import Federation
from revfrf.forest.candidates import Proposal, propose
from revfrf.forest.nodes import Node
from revfrf.forest.voting import Voting
from revfrf.messages import registry, testing
from revfrf.messages.base import FEATURES, QUESTIONS, SIZES, Message
from revfrf.messages.prediction import Request, ShareReply, ShareRequest
from revfrf.messages.training import Column, LevelReply, LevelRequest, NodeRows
from revfrf.names import CC, CS, KGC
from revfrf.protocols import fos_find, frf_predict, ho_lt
from revfrf.protocols.ho_lt import ComparingServer, ho_lt_as_printed
from revfrf.protocols.request import RequestPolicy
from revfrf.roles.party import Party
from revfrf.storage.memory import StoredSplit
from revfrf.transport.base import Reply
from revfrf.transport.codec import encode
from revfrf.transport.memory import MemoryChannel, MemoryNetwork
from tests.federations import (
    Case,
    Codes,
    grow_plainly,
    ignore,
    keys,
    participant,
    participants,
    random_case,
    reference_trees,
    targets_of,
    train,
    with_rules,
)
from tests.reference import forest as reference

N_ROWS, DECIMALS = 70, 9
OWNED = {"bank": 2, "telco": 3, "shop": 1}
ASKING: dict[str, tuple[int, Voting]] = {
    "requester": (256, "soft"),
    "bank": (12, "hard"),
    "clinic": (1, "soft"),
}
"""Who asks about how many rows: enough that one owner's bits at a level do not fit into a ciphertext; a
participant; so few that levels pass without some owners.
"""
LEAVER = "telco"
STAYING = {party: n for party, n in OWNED.items() if party != LEAVER}
WIDTH = 3 * 256 // 8
"""Bytes of a ciphertext, and of a pack."""

# -- canaries and the search for them ----------------------------------------------------------------

HEAD = 8


@dataclass
class Scanner:
    """Finds any of many patterns in bytes, and says what it is."""

    patterns: dict[bytes, dict[bytes, str]] = field(default_factory=dict)
    """By their first bytes."""

    def add(self, what: str, *patterns: bytes) -> None:
        for pattern in patterns:
            assert len(pattern) >= HEAD, f"{what}: too short to be told from chance"
            self.patterns.setdefault(pattern[:HEAD], {})[pattern] = what

    def add_number(self, what: str, value: int) -> None:
        """An integer in every form it may be written in."""
        size = -(-value.bit_length() // 8) if value >= 2**63 else 8
        raw = value.to_bytes(size, "big", signed=size == 8 and value < 2**63)
        self.add(what, raw, raw[::-1], str(value).encode(), raw.hex().encode(), f"{value:x}".encode())

    def add_float(self, what: str, value: float) -> None:
        self.add(what, struct.pack("<d", value), struct.pack(">d", value), repr(value).encode())

    def add_bytes(self, what: str, value: bytes) -> None:
        self.add(what, value, value[::-1], value.hex().encode(), base64.b64encode(value))

    def add_bits(self, what: str, bits: Sequence[bool]) -> None:
        """Any 64 bits in a row, however packed, unless they are nearly all alike."""
        for start in range(len(bits) - 64 + 1):
            some = bits[start : start + 64]
            if 16 <= sum(some) <= 48:
                self.add(what, bytes(some), bytes(0xC2 + bit for bit in some))  # 0xc2, 0xc3: MessagePack's
                self.add(what, np.packbits(some).tobytes(), np.packbits(some, bitorder="little").tobytes())

    def found(self, data: bytes) -> set[str]:
        return {
            what
            for at in range(len(data) - HEAD + 1)
            for pattern, what in self.patterns.get(data[at : at + HEAD], {}).items()
            if data.startswith(pattern, at)
        }


Table = dict[str, list[list[float]]]
"""For each party its columns."""


def canaries(rng: random.Random, n_rows: int) -> tuple[Table, Codes]:
    """Numbers whose x̂ has all of its 62 bits, so that none of them turns up by chance."""
    raw = {
        party: [[rng.choice([-1, 1]) * rng.uniform(1e9, 4e9) for _ in range(n_rows)] for _ in range(n)]
        for party, n in OWNED.items()
    }
    return raw, {p: np.stack([FixedPoint(DECIMALS).encode(c) for c in table]) for p, table in raw.items()}


def case_of(n_classes: int) -> tuple[Case, Table]:
    """Features that are canaries; for a regression the targets too, for classes weights besides."""
    rng = random.Random(n_classes)
    raw, codes = canaries(rng, N_ROWS)
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
class Watch:
    """What is overheard on the network, and what is noted where it is made."""

    sent: list[Sent] = field(default_factory=list)
    questions: list[tuple[str, str, str]] = field(default_factory=list)
    """Who started which exchange with whom."""
    proposals: list[Proposal] = field(default_factory=list)
    exponents: list[int] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    literal_masks: list[int] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    """What CC opens: masked differences."""
    read: list[bool] = field(default_factory=list)
    """What CC reads from them."""
    path_bits: list[bool] = field(default_factory=list)
    sealing_keys: list[int] = field(default_factory=list)


@contextmanager
def watching() -> Iterator[Watch]:
    """An ear on every network, and on every draw."""
    watch = Watch()
    deliver, call = MemoryNetwork.deliver, MemoryChannel.call
    draw, generate, mask = Parameters.random_exponent, Mask.generate, results._mask
    read_slots, compare = packing.read_slots, ho_lt.ho_lt
    random_message, random_factor = literal._random_message, literal._random_factor

    def overhear(
        network: MemoryNetwork,
        sender: str,
        recipient: str,
        data: bytes,
        *expected: type[Reply],
        protocol: str | None = None,
    ) -> Reply:
        watch.sent.append(Sent(sender, recipient, data))
        return deliver(network, sender, recipient, data, *expected, protocol=protocol)

    def asked(channel: MemoryChannel, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        watch.questions.append((channel.sender, recipient, type(request).__name__))
        return call(channel, recipient, request, reply_type)

    def proposed(*args: Any) -> Proposal:
        watch.proposals.append(propose(*args))
        return watch.proposals[-1]

    def drawn(parameters: Parameters) -> int:
        watch.exponents.append(draw(parameters))
        return watch.exponents[-1]

    def masked(_: type[Mask]) -> Mask:
        watch.masks.append(generate())
        return watch.masks[-1]

    def opened(
        share: StrongShare, c_parts: Sequence[int], halves: Sequence[int], *, n_jobs: int
    ) -> list[int]:
        plaintexts = root_open(share, c_parts, halves, n_jobs=n_jobs)
        watch.opened += plaintexts
        return plaintexts

    def read(share: StrongShare, packs: Sequence[Pack], *, n_jobs: int) -> list[bool | None]:
        bits = read_slots(share, packs, n_jobs=n_jobs)
        assert None not in bits
        watch.read += map(bool, bits)
        return bits

    def compared(
        cs: ComparingServer, request: Request, level: int, asked: Mapping[str, Sequence[Comparison]]
    ) -> dict[str, list[bool]]:
        told = compare(cs, request, level, asked)
        watch.path_bits += [bit for bits in told.values() for bit in bits]
        return told

    def sealed(key: int, bits: int, count: int) -> int:
        watch.sealing_keys.append(key)
        return mask(key, bits, count)

    def message(parameters: Parameters) -> int:
        watch.literal_masks.append(random_message(parameters))
        return watch.literal_masks[-1]

    def factor(parameters: Parameters) -> int:
        watch.literal_masks.append(random_factor(parameters))
        return watch.literal_masks[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryNetwork, "deliver", overhear)
        patch.setattr(MemoryChannel, "call", asked)
        patch.setattr(fos_find, "propose", proposed)
        patch.setattr(Parameters, "random_exponent", drawn)
        patch.setattr(Mask, "generate", classmethod(masked))
        patch.setattr(packing, "root_open", opened)
        patch.setattr(ho_lt, "read_slots", read)
        patch.setattr(frf_predict, "ho_lt", compared)
        patch.setattr(results, "_mask", sealed)
        patch.setattr(literal, "_random_message", message)
        patch.setattr(literal, "_random_factor", factor)
        yield watch


@dataclass(frozen=True)
class Asked:
    """A request: the rows, how the trees vote, and their answer."""

    requester: str
    raw: Table
    codes: Codes
    voting: Voting
    votes: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        return len(self.codes["shop"][0])

    def row(self, number: int) -> dict[str, int]:
        """x̂ by feature."""
        return {
            f"{party}/x{i}": int(column[number])
            for party, table in self.codes.items()
            for i, column in enumerate(table)
        }


@dataclass(frozen=True)
class Held:
    """What a federation holds at a moment: its splits, and every secret with its name."""

    splits: dict[Node, StoredSplit]
    numbers: list[tuple[str, int]]
    seeds: list[tuple[str, bytes]]

    @classmethod
    def by(cls, federation: Federation, new: str = "") -> "Held":
        f = federation
        roles: list[Party] = [f.coordinator, f.compute, *participants(f).values()]
        if not new:  # keys of requesters are not made anew
            roles += f.requesters.values()
        numbers, seeds = [], [("the forest's seed", f.seed)]
        for identity in (role.identity for role in roles):
            numbers.append((f"the {new}weak key of {identity.name}", identity.weak.sk.reveal()))
            seeds.append((f"the signing seed of {identity.name}", identity.signing_key.export()))
        for share in (f.coordinator.identity.share, f.compute.identity.share):
            numbers.append((f"the {new}strong share of {share.server}", share.value.reveal()))
            half = f"the upper half of the {new}share of {share.server}"
            numbers.append((half, share.root_exponent.reveal()))
        seeds += [(f"the secret of {name}", owner.secret) for name, owner in participants(f).items()]
        assert f.kgc.signing is not None
        seeds.append(("the signing seed of KGC", f.kgc.signing.export()))
        return cls(dict(f.coordinator.store.splits), numbers, seeds)


@dataclass
class Run:
    """A forest's life: until a participant leaves, and how it leaves."""

    case: Case
    raw: Table
    federation: Federation
    watch: Watch
    requests: list[Asked]
    before: Held
    after: Held
    n_before: int
    leakage: dict[str, dict[str, int]]
    costs: Costs

    @property
    def sent(self) -> list[Sent]:
        """Every message until somebody leaves."""
        return self.watch.sent[: self.n_before]

    @property
    def leaving(self) -> list[Sent]:
        """Every message of FRF-Revoc."""
        return self.watch.sent[self.n_before :]

    @cached_property
    def scanner(self) -> Scanner:
        """Everything that must stay where it is."""
        scanner = Scanner()
        add_table(scanner, "a feature of {}", self.raw, self.case.codes)
        for asked in self.requests:
            add_table(scanner, f"a value of {asked.requester}'s request", asked.raw, asked.codes)
        add_labels(scanner, self.case, targets_of(self.case, self.federation.seed).values)
        cuts = {
            cut
            for p in self.watch.proposals
            for own, n in zip(p.cuts, p.n_cuts, strict=True)
            for cut in own[:n]
        }
        for cut in cuts - {MISSING}:
            scanner.add_number("a cut", int(cut))
        for exponent in self.watch.exponents:
            scanner.add_number("the randomness of a ciphertext", exponent)
        add_masks(scanner, self.watch)
        for held in (self.before, self.after):
            for what, number in held.numbers:
                scanner.add_number(what, number)
            for what, seed in held.seeds:
                scanner.add_bytes(what, seed)
        scanner.add_bytes("the federation's seed", self.case.seed)
        return scanner


def add_table(scanner: Scanner, what: str, raw: Table, codes: Codes) -> None:
    for party, table in raw.items():
        for values, column in zip(table, codes[party], strict=True):
            for x, code in zip(values, column.tolist(), strict=True):
                scanner.add_float(what.format(party), x)
                scanner.add_float(what.format(party), float(code))
                scanner.add_number(what.format(party), code)


def add_masks(scanner: Scanner, watch: Watch) -> None:
    for mask in watch.masks:
        for number in (mask.r, abs(mask.r_prime)):
            if number >= 2**40:  # shorter ones, one in 2^24, might turn up by chance
                scanner.add_number("a mask", number)
    for number in watch.literal_masks:
        if abs(number) >= 2**40:
            scanner.add_number("a mask", abs(number))
    for plaintext in watch.opened:
        scanner.add_number("a masked difference", plaintext)
    for key in watch.sealing_keys:
        scanner.add_number("a key that seals bits", key)
    scanner.add_bits("coins", [mask.coin for mask in watch.masks])
    scanner.add_bits("bits as CC reads them", watch.read)
    scanner.add_bits("path bits", watch.path_bits)


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
def run(request: pytest.FixtureRequest) -> Run:
    """Key set-up, training, FRF-Test, requests, the paper's own HoLT, and a participant that leaves, with an
    ear on the network.
    """
    case, raw = case_of(request.param)
    columns = {p: [Column(f"x{i}", DECIMALS, None) for i in range(n)] for p, n in OWNED.items()}
    with watching() as watch:
        federation = Federation(columns, dealt=keys(), seed=case.seed)
        federation.train(case.codes, case.rules, targets_of(case, federation.seed), ignore)
        federation.votes(case.codes, N_ROWS, "soft")
        federation.enrol_requester("clinic")
        rng, requests = random.Random(f"rows {request.param}"), []
        for name, (n_rows, voting) in ASKING.items():
            values, codes = canaries(rng, n_rows)
            requester = None if name == "requester" else name
            answer = federation.ask(codes, requester, voting, False, lambda _: None)
            requests.append(Asked(name, values, codes, voting, answer.votes))
        compare_as_printed(federation, requests[-1])
        before, n_before = Held.by(federation), len(watch.sent)
        federation.revoke([LEAVER], 2, (), ignore)
        after = Held.by(federation, "new ")
    books = federation.leakage(), federation.costs()
    return Run(case, raw, federation, watch, requests, before, after, n_before, *books)


def compare_as_printed(federation: Federation, asked: Asked) -> None:
    """A value of this request with the split of the first root, by the paper's own HoLT."""
    cs, asking = federation.coordinator.identity, federation.requesters[asked.requester].identity
    split = federation.coordinator.store.splits[0, 1]
    owner = participant(federation, split.owner)
    _, cut = owner.store.cuts[0, 1]
    x = asked.row(0)[split.feature]
    terms = (
        Term(asking.weak.public, *ho_enc(asking.weak.public, [x], n_jobs=1)),
        Term(owner.identity.weak.public, Ciphertext.from_bytes(federation.parameters, split.ciphertext)),
    )
    federation.compute.literal = True
    cc = federation.coordinator.verify_key_of(CC)
    server = ComparingServer(federation.network.channel(CS), cs.share, cs.weak, cc, 1)
    answer = ho_lt_as_printed(server, *terms)
    federation.compute.literal = False
    [less] = par_h_dec2(cs.weak, [answer], par_h_dec1(owner.identity.weak, [answer]))
    assert less == (x < cut)


def test_run_is_worth_watching(run: Run) -> None:
    kinds = {sent.plain["type"] for sent in run.watch.sent}
    between_machines = ("network", "matching")
    modules = {kind: kind.__module__.rpartition(".")[2] for kind in registry.MESSAGES}
    assert kinds == {kind.__name__ for kind, module in modules.items() if module not in between_machines}
    splits = run.before.splits
    assert {split.owner for split in splits.values()} == set(OWNED)
    assert len(run.watch.exponents) >= len(splits) + 5
    assert sum(len(sent.data) for sent in run.sent) > 100_000
    comparisons = sum(level.total() for asked in run.requests for level in compared(run, asked))
    assert len(run.watch.masks) == len(run.watch.read) == len(run.watch.path_bits) == comparisons > 1000
    assert len(run.watch.literal_masks) == 3
    masked = [bits for sent in of_kind(run, "SealedResults") for bits in sent.plain["masked"]]
    assert any(masked)
    assert not all(masked)
    trained = {int(code) for table in run.case.codes.values() for code in table.ravel()}
    for asked in run.requests:
        assert not trained & {value for row in range(asked.n_rows) for value in asked.row(row).values()}


def of_kind(run: Run, kind: str) -> list[Sent]:
    return [sent for sent in run.sent if sent.plain["type"] == kind]


# -- what must not travel ---------------------------------------------------------------------------


def test_nothing_secret_travels_but_the_strong_shares_to_their_owners(run: Run) -> None:
    scanner = run.scanner
    seen = [
        (s.plain["type"], s.sender, s.recipient, what)
        for s in run.watch.sent
        for what in scanner.found(s.data)
    ]
    assert sorted(seen) == [
        ("Dealt", KGC, CC, "the new strong share of CC"),
        ("Dealt", KGC, CC, "the strong share of CC"),
        ("Dealt", KGC, CS, "the new strong share of CS"),
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
        assert {f"a feature of {party}", f"the secret of {party}"} <= set(kinds)
    for name in (CS, CC, *OWNED, "requester", "clinic"):
        assert {f"the weak key of {name}", f"the signing seed of {name}"} <= set(kinds)
    for name in (CS, CC, *STAYING):
        assert f"the new weak key of {name}" in kinds
    for name in ASKING:
        assert f"a value of {name}'s request" in kinds
    assert {"labels", "a cut", "the forest's seed", "the strong share of CC"} <= set(kinds)
    assert {"a mask", "a masked difference", "a key that seals bits"} <= set(kinds)
    assert {"coins", "bits as CC reads them", "path bits"} <= set(kinds)
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


def test_scanner_sees_bits_however_they_are_packed(run: Run) -> None:
    coins = [mask.coin for mask in run.watch.masks]
    for bits, what in ((coins, "coins"), (run.watch.path_bits, "path bits")):
        some = np.array(bits[5:300])
        leaks = (
            some.tobytes(),
            np.packbits(some).tobytes(),
            np.packbits(some, bitorder="little").tobytes(),
            msgspec.msgpack.encode(some.tolist()),
        )
        for leak in leaks:
            assert what in run.scanner.found(encode(testing.TestReply(bits=leak)))


def test_scanner_sees_a_value_of_a_request_in_a_question_to_an_owner(run: Run) -> None:
    good = msgspec.msgpack.decode(of_kind(run, "ShareRequest")[0].data[1:], type=ShareRequest)
    for asked in run.requests:
        leak = asked.codes["telco"][:, 0].tobytes()
        bad = msgspec.structs.replace(good, ciphertext=good.ciphertext + leak)
        assert run.scanner.found(encode(bad)) == {f"a value of {asked.requester}'s request"}
    assert run.scanner.found(encode(good)) == set()


def test_only_kgc_and_the_coordinator_start_or_end_a_message(run: Run) -> None:
    """A star: participants, requesters and CC never hear of each other but through what KGC has signed."""
    enrolling = {"Dealt", "Enrolment", "EpochCertificate", "EpochAccepted", "Admission", "Done"}
    revoking = {"RevocationRequest", "RevocationReport", "Certified"}
    for sent in run.watch.sent:
        assert {sent.sender, sent.recipient} & {CS, KGC}
        if KGC in (sent.sender, sent.recipient):
            assert sent.plain["type"] in enrolling | revoking


def test_only_kgc_and_the_coordinator_ask_and_requesters_the_coordinator_and_who_leaves(run: Run) -> None:
    started = {(sender, kind) for sender, _, kind in run.watch.questions if sender not in (KGC, CS)}
    asking = {(name, kind) for name in ASKING for kind in ("ForestQuery", "PredictRequest")}
    assert started == asking | {(LEAVER, "RevocationRequest")}
    assert {recipient for sender, recipient, _ in run.watch.questions if sender in ASKING} == {CS}
    assert not any(sender == CC for sender, _, _ in run.watch.questions)


def test_key_centre_hears_nothing_of_requests_but_who_may_ask(run: Run) -> None:
    heard = Counter((sent.sender, sent.plain["type"]) for sent in run.sent if sent.recipient == KGC)
    for name in ("requester", "clinic"):
        assert (heard[name, "Enrolment"], heard[name, "Done"]) == (1, 1)
    assert (heard["bank", "Enrolment"], heard["bank", "EpochAccepted"], heard["bank", "Done"]) == (1, 1, 1)
    assert {kind for _, kind in heard} == {"Enrolment", "EpochAccepted", "Done"}


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
    splits = run.before.splits
    assert told == Counter((split.owner, node) for node, split in splits.items())


# -- what a request shows to whom -------------------------------------------------------------------

HEADER = {"admission", "forest", "id", "n_rows", "voting", "partial", "digest", "signature"}


def compared(run: Run, asked: Asked) -> list[Counter[str]]:
    """For each level, with whose splits how many comparisons the rows of a request need."""
    forest = grow_plainly(run.case).forest
    levels: list[Counter[str]] = [Counter() for _ in range(run.case.rules.max_depth)]
    for number in range(asked.n_rows):
        row = asked.row(number)
        for tree in range(forest.n_trees):
            _, path = reference.leaf_of(forest, tree, row)
            while path := path >> 1:
                levels[path.bit_length() - 1][forest.splits[tree, path].feature.split("/")[0]] += 1
    return levels


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


def test_equal_values_of_a_request_are_different_ciphertexts(run: Run) -> None:
    ciphertexts = [
        sent.plain["rows"][at : at + WIDTH]
        for sent in of_kind(run, "PredictRequest")
        for at in range(0, len(sent.plain["rows"]), WIDTH)
    ]
    assert len(set(ciphertexts)) == len(ciphertexts) > 1000
    with watching() as watch:
        rows = {party: np.zeros((n, 20), dtype=np.int64) for party, n in OWNED.items()}
        federation = train(random_case(71))
        federation.ask(rows, None, "soft", False, lambda _: None)
    [request] = [sent.plain for sent in watch.sent if sent.plain["type"] == "PredictRequest"]
    zeros = {request["rows"][at : at + WIDTH] for at in range(0, len(request["rows"]), WIDTH)}
    assert len(zeros) == 20 * sum(OWNED.values())


def test_compute_partner_learns_the_rules_of_the_forest_and_nothing_of_its_growth(run: Run) -> None:
    seen = {sent.plain["type"] for sent in run.sent if sent.recipient == CC}
    printed = {"HoAddRequest", "HoLTRequest"}
    assert seen == {"Dealt", "EpochCertificate", "OpenForest", "MaskedComparisons"} | printed
    grown = next(i for i, sent in enumerate(run.sent) if sent.plain["type"] == "ForestQuery")
    before = [sent.plain["type"] for sent in run.sent[:grown] if sent.recipient == CC]
    assert before == ["Dealt", "EpochCertificate", "OpenForest"]


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
        assert set(f) == {"type", "request", "level", "owners", "counts", "packs"}
        counts = np.frombuffer(f["counts"], "<u4").tolist()
        seen.append((f["request"], f["level"], f["owners"], counts, len(f["packs"])))
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
        assert set(f) == {"type", "request", "level", "count", "ciphertext", "signature"}
        assert f["request"] == headers(run)[name]
        assert len(f["ciphertext"]) == WIDTH
        seen[sent.recipient, name, f["level"], f["count"]] += 1
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
        assert seen == ["Dealt", "Admission", "ForestFacts", "PredictReply"]
    plain = grow_plainly(run.case)
    for asked, sent in zip(run.requests, of_kind(run, "PredictReply"), strict=True):
        f, n_trees = sent.plain, run.case.rules.n_trees
        assert (sent.sender, sent.recipient) == (CS, asked.requester)
        assert set(f) == {"type", "votes", "n_voted", "absent", "failure"}
        assert (f["absent"], f["failure"]) == ([], None)
        assert np.frombuffer(f["n_voted"], "<u4").tolist() == [n_trees] * asked.n_rows
        votes = np.frombuffer(f["votes"], "<f8").reshape(asked.n_rows, -1)
        np.testing.assert_array_equal(votes, asked.votes)
        for number, its_votes in enumerate(votes.tolist()):
            leaves = reference.predict(plain.forest, asked.row(number))
            expected: Sequence[float]
            if not run.case.n_classes:
                expected = [n_trees * reference.mean_value(leaves, 0.0, 0)]
            elif asked.voting == "soft":
                expected = [n_trees * share for share in reference.soft_votes(leaves)]
            else:
                expected = reference.hard_votes(leaves)
            assert its_votes == pytest.approx(list(expected), rel=1e-9)


def test_facts_of_a_forest_are_its_name_and_its_columns(run: Run) -> None:
    for sent in of_kind(run, "ForestFacts"):
        f = sent.plain
        assert set(f) == {"type", "epoch", "opening", "n_votes", "columns", "labels", "centre", "places"}
        assert f["labels"] == []
        [opening] = [o for o in of_kind(run, "OpenForest") if o.recipient == CC]
        assert f["opening"] == opening.plain
        names = {party: [column["name"] for column in columns] for party, columns in f["columns"].items()}
        assert names == {party: [f"x{i}" for i in range(n)] for party, n in OWNED.items()}
        assert {key for columns in f["columns"].values() for column in columns for key in column} == {
            "name",
            "decimals",
            "categories",
        }


def refuse(federation: Federation, owner: str, how: str) -> None:
    """Let an owner refuse what comes next, for this reason."""
    its = participant(federation, owner)
    match how:
        case "requester":
            its.policy = RequestPolicy(refuses=["clinic"])
        case "stranger":
            its.policy = RequestPolicy(accepts=["hospital"])
        case "quota":
            its.policy = RequestPolicy(max_rows=0)
        case "keys":
            its.identity.keys = None
        case "forest":
            its.growth = None


@pytest.mark.parametrize("how", ["requester", "stranger", "quota", "keys", "forest"])
def test_requester_hears_of_a_refusal_by_whom_and_not_why(how: str) -> None:
    case = random_case(72)
    federation = train(case)
    federation.enrol_requester("clinic")
    owner = federation.coordinator.store.splits[0, 1].owner
    refuse(federation, owner, how)
    with watching() as watch, pytest.raises(RefusedError) as caught:
        federation.ask(case.codes, "clinic", "soft", False, lambda _: None)
    assert (caught.value.party, caught.value.reason) == (
        owner,
        "has refused this request; without it there is no answer",
    )
    [reply] = [sent.plain for sent in watch.sent if sent.plain["type"] == "PredictReply"]
    failure = {"party": owner, "reason": "refused"}
    assert reply == {
        "type": "PredictReply",
        "votes": b"",
        "n_voted": b"",
        "absent": [],
        "failure": failure,
    }
    assert not [sent for sent in watch.sent if sent.sender == owner]


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
    requests = {(LEAVER, server, "RevocationRequest"): 1 for server in (KGC, CS)}
    assert seen == requests | {(server, LEAVER, "Done"): 1 for server in (KGC, CS)}
    told = [sent.plain for sent in run.leaving if sent.plain["type"] == "RevocationRequest"]
    assert told[0] == told[1]
    signed = {"federation", "forest", "epoch", "party", "level", "nonce", "time", "signature"}
    assert set(told[0]) == signed | {"type"}


def test_nothing_of_the_leavers_splits_or_keys_travels_when_it_leaves(run: Run) -> None:
    """Neither a cut nor a ciphertext, a batch or a signature of one, nor a key but the public one in the
    certificate, which is what it has left.
    """
    own = [split for split in run.before.splits.values() if split.owner == LEAVER]
    assert own
    for sent in run.leaving:
        assert not any(split.ciphertext in sent.data or split.batch.root in sent.data for split in own)
    assert not run.scanner.found(b"".join(certificate_parts(run)))
    assert not any(split.ciphertext in part for split in own for part in certificate_parts(run))


def certificate_parts(run: Run) -> list[bytes]:
    """Everything in the revocation certificate, decoded where it is base64."""
    [sent] = [sent for sent in run.leaving if sent.plain["type"] == "Certified"]
    assert (sent.sender, sent.recipient) == (KGC, CS)
    return [sent.plain["certificate"], *decoded(json.loads(sent.plain["certificate"]))]


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
        assert set(fields) == {"type", "epoch", "forest", "trees", "paths"}


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
    for tree in reference_trees(run.case.without(LEAVER)):
        rows = [row for row in range(N_ROWS) if tree.counts[row] > 0]
        expected.update(q for q in expected_questions(tree, 1, rows) if below(run, q[1]))
    assert expected
    assert asked(run.leaving) == expected


def test_servers_hear_of_leaving_that_it_happened(run: Run) -> None:
    """Neither nodes nor rows; the key centre how many nodes there were, from the report."""
    heard = {name: {s.plain["type"] for s in run.leaving if s.recipient == name} for name in (CC, KGC)}
    assert heard[CC] == {"Dealt", "EpochCertificate"}
    assert heard[KGC] == {"RevocationRequest", "Enrolment", "EpochAccepted", "RevocationReport"}
    [report] = [sent.plain["report"] for sent in run.leaving if sent.plain["type"] == "RevocationReport"]
    counts = {"destroyed", "rebuilt", "kept"}
    assert set(report) == counts | {"epoch", "forest", "digest_before", "digest_after", "signature"}


def test_requesters_hear_nothing_of_leaving(run: Run) -> None:
    strangers = set(ASKING) - set(OWNED)
    assert not [sent for sent in run.leaving if {sent.sender, sent.recipient} & strangers]


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
            columns = {"names and decimals of columns": len(f["columns"]), "names of categories": names}
            return columns | {"numbers of rows": 1}
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
        case _:
            return disclosed_by_leaving(f)


def disclosed_by_leaving(f: dict[str, Any]) -> dict[str, int]:
    match f["type"]:
        case "EpochAccepted":
            return {"erasure receipts": 1} if f["receipt"] is not None else {}
        case "RevocationRequest":
            return {"requests to leave": 1}
        case "Destroy":
            return {"its nodes below splits that have left": len(f["trees"]) // 4}
        case "Rekeyed":
            return {"bytes of encrypted splits": len(f["ciphertexts"])}
        case "RevocationReport":
            return {"reports of revocations": 1}
        case "Rekey" | "Certified":
            return {}
        case _:
            return disclosed_by_requests(f)


def disclosed_by_requests(f: dict[str, Any]) -> dict[str, int]:
    match f["type"]:
        case "Admission":
            return {"its own admission": 1}
        case "ForestFacts":
            columns = sum(len(columns) for columns in f["columns"].values())
            return {"names and decimals of columns": columns, "the forest's rules": 1}
        case "PredictRequest":
            return {"encrypted rows of requests": len(f["rows"]) // WIDTH // sum(OWNED.values())}
        case "PredictReply":
            return {"votes for rows of its own, in numbers": len(f["votes"]) // 8}
        case "MaskedComparisons":
            counts = struct.unpack(f"<{len(f['counts']) // 4}I", f["counts"])
            owners = {"requests and levels": 1, "owners of splits, by level": len(counts)}
            return owners | {"masked differences": sum(counts)}
        case "SealedResults":
            return {"sealed results": len(f["ciphertexts"]) // WIDTH}
        case "ShareRequest":
            return {"requests and levels": 1, "comparisons with its splits": f["count"]}
        case "ShareReply":
            return {"path bits of requests": f["count"]}
    assert f["type"] in ("Done", "ForestQuery", "HoAddRequest", "HoLTRequest", "CiphertextReply")
    return {}


def test_leakage_is_what_was_overheard(run: Run) -> None:
    learnt: dict[str, Counter[str]] = {name: Counter() for name in (KGC, CS, CC, *OWNED, *ASKING)}
    for sent in run.watch.sent:
        learnt[sent.recipient].update(disclosed(sent))
    assert run.leakage == {
        name: {what: count for what, count in told.items() if count} for name, told in learnt.items()
    }
    assert learnt[CS]["bins of rows"] > 500
    assert learnt[CS]["path bits of requests"] == len(run.watch.path_bits)
    assert learnt[CS]["encrypted rows of requests"] == sum(n_rows for n_rows, _ in ASKING.values())


def test_traffic_is_what_was_overheard(run: Run) -> None:
    traffic: dict[str, dict[str, int]] = {}
    for sent in run.watch.sent:
        link = traffic.setdefault(f"{sent.sender} -> {sent.recipient}", {"messages": 0, "bytes": 0})
        link["messages"] += 1
        link["bytes"] += len(sent.data)
    booked = {
        link: {what: sum(cell[what] for cell in by_protocol.values()) for what in ("messages", "bytes")}
        for link, by_protocol in run.costs.traffic.items()
    }
    assert booked == traffic


def test_refusal_tells_the_peer_nothing_but_that(run: Run) -> None:
    """Whatever the reason, the words are the same."""
    good = next(s for s in run.leaving if s.plain["type"] == "LevelRequest" and s.recipient == "bank")
    request = msgspec.msgpack.decode(good.data[1:], type=LevelRequest)
    reasons: list[Message] = [
        request,
        msgspec.structs.replace(request, epoch=9),
        msgspec.structs.replace(request, forest=bytes(16)),
        msgspec.structs.replace(request, level=99, asked_nodes=b"\7"),
    ]
    said, why = refusals(run.federation, "bank", reasons, LevelReply)
    assert said == {"'bank' has refused: rejected"}
    assert len(why) == 4


def refusals(
    federation: Federation, party: str, messages: Iterable[Message], reply_type: type[Message]
) -> tuple[set[str], set[str]]:
    """What CS is told, and the reasons that the party keeps to itself."""
    channel = federation.network.channel(CS)
    said, why = set(), set()
    for message in messages:
        with pytest.raises(RefusedError) as caught:
            channel.call(party, message, reply_type)
        assert isinstance(caught.value.__cause__, RejectedError)
        said.add(str(caught.value))
        why.add(str(caught.value.__cause__))
    return said, why


def test_refusal_to_open_results_tells_the_coordinator_that_it_is_the_policy_or_nothing() -> None:
    case = random_case(73)
    federation = train(case)
    with watching() as watch:
        federation.ask(case.codes, None, "soft", False, lambda _: None)
    sent = next(sent for sent in watch.sent if sent.plain["type"] == "ShareRequest")
    owner, good = sent.recipient, msgspec.msgpack.decode(sent.data[1:], type=ShareRequest)
    header = good.request
    forged = msgspec.structs.replace(header, n_rows=header.n_rows - 1)
    reasons: list[Message] = [
        good,  # again
        msgspec.structs.replace(good, level=good.level + 1),
        msgspec.structs.replace(good, request=forged),
        msgspec.structs.replace(good, request=msgspec.structs.replace(header, forest=bytes(16))),
    ]
    said, why = refusals(federation, owner, reasons, ShareReply)
    assert said == {f"{owner!r} has refused: rejected"}
    assert len(why) == 4
    its = participant(federation, owner)
    said, why = set(), set()
    for policy in (RequestPolicy(refuses=["requester"]), RequestPolicy(max_rows=1)):
        its.policy = policy
        heard, reason = refusals(federation, owner, [good], ShareReply)
        said |= heard
        why |= reason
    its.policy = RequestPolicy()
    assert said == {f"{owner!r} has refused: {PolicyError.peer_message}"}
    assert len(why) == 2
