"""A forest's life whose every message is kept, and a scanner for what must not travel in them."""

import base64
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.crypto.dtpkc import packing, sealed_bits
from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.dtpkc.packing import Mask
from revfrf.crypto.encoding import FixedPoint, missing
from revfrf.embedded.costs import Costs
from revfrf.embedded.federation import Federation
from revfrf.forest.candidates import Proposal
from revfrf.forest.nodes import Node
from revfrf.forest.voting import Voting
from revfrf.messages.base import SIZES, Message
from revfrf.protocols.paper import fos_find, frf_predict, ho_lt
from revfrf.roles.party import Party
from revfrf.storage.memory import StoredSplit
from revfrf.testing.federations import Case, Codes, targets_of
from revfrf.testing.recorders import Sent, recording
from revfrf.transport.base import Reply
from revfrf.transport.memory import MemoryChannel
from tests.federations import grow_plainly
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
    return raw, {p: np.stack([FixedPoint(DECIMALS, 64).encode(c) for c in table]) for p, table in raw.items()}


@dataclass
class Watch:
    """What is overheard on the network, and what is noted where it is made."""

    sent: list[Sent]
    questions: list[tuple[str, str, str]] = field(default_factory=list)
    """Who started which exchange with whom."""
    proposals: list[Proposal] = field(default_factory=list)
    exponents: list[int] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    """What CC opens: masked differences."""
    read: list[bool] = field(default_factory=list)
    """What CC reads from them."""
    path_bits: list[bool] = field(default_factory=list)
    sealing_keys: list[int] = field(default_factory=list)


@contextmanager
def watching() -> Iterator[Watch]:
    """An ear on every network, and on every draw."""
    call, mask = MemoryChannel.call, sealed_bits._mask

    def asked(channel: MemoryChannel, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        watch.questions.append((channel.sender, recipient, type(request).__name__))
        return call(channel, recipient, request, reply_type)

    def sealed(key: int, bits: int, count: int) -> int:
        watch.sealing_keys.append(key)
        return mask(key, bits, count)

    with recording() as sent, pytest.MonkeyPatch.context() as patch:
        watch = Watch(sent)
        patch.setattr(MemoryChannel, "call", asked)
        patch.setattr(sealed_bits, "_mask", sealed)
        for owner, name, keep in (
            (fos_find, "propose", watch.proposals.append),
            (Parameters, "random_exponent", watch.exponents.append),
            (packing, "root_open", watch.opened.extend),
            (ho_lt, "read_slots", lambda bits: watch.read.extend(map(bool, bits))),
            (frf_predict, "ho_lt", lambda told: watch.path_bits.extend(chain.from_iterable(told.values()))),
        ):
            patch.setattr(owner, name, kept(getattr(owner, name), keep))
        generate = kept(Mask.generate, watch.masks.append)
        patch.setattr(Mask, "generate", staticmethod(generate))
        yield watch


def kept(function: Callable[..., Any], keep: Callable[[Any], None]) -> Callable[..., Any]:
    """A function whose results are kept."""

    def keeping(*arguments: Any, **named: Any) -> Any:
        made = function(*arguments, **named)
        keep(made)
        return made

    return keeping


@dataclass(frozen=True)
class Asked:
    """A request: the rows, how the trees vote, and their answer."""

    requester: str
    raw: Table
    codes: Codes
    voting: Voting
    votes: NDArray[np.int64]

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
        roles: list[Party] = [f.coordinator, f.compute, *f.participants.values()]
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
        seeds += [(f"the secret of {name}", owner.secret) for name, owner in f.participants.items()]
        assert f.kgc.keys is not None
        seeds += [(f"the {what} seed of KGC", seed) for what, seed in f.kgc.keys.export().items()]
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
        add_labels(scanner, self.case, targets_of(self.case).values)
        cuts = {
            cut
            for p in self.watch.proposals
            for own, n in zip(p.thresholds, p.n_cuts, strict=True)
            for cut in own[:n]
        }
        for cut in cuts - {missing(64)}:
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


def of_kind(run: Run, kind: str) -> list[Sent]:
    return [sent for sent in run.sent if sent.plain["type"] == kind]


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
