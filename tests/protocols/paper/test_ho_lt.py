"""HoLT between roles: true for all numbers, and with a lying CS, CC or owner."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc import as_printed
from revfrf.crypto.dtpkc.arithmetic import jacobi
from revfrf.crypto.dtpkc.as_printed import Term
from revfrf.crypto.dtpkc.dtpkc import add_constant, ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, WeakKey
from revfrf.crypto.dtpkc.packing import Comparison
from revfrf.crypto.encoding import missing
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError, RefusedError, RejectedError, SlotError
from revfrf.messages.base import Done, Message, number, of_number
from revfrf.messages.frf_predict import MaskedComparisons, Request, SealedResults, ShareReply, ShareRequest
from revfrf.names import CC, CS
from revfrf.protocols.common.identity import Keys
from revfrf.protocols.common.opening import forest_id
from revfrf.protocols.common.request import RequestPolicy, sign_request
from revfrf.protocols.paper import ho_lt as module
from revfrf.protocols.paper.ho_lt import _RESULT, ComparingServer, _result, ho_lt
from revfrf.testing.federations import columns_of, random_case, targets_of, toy_keys, train, with_rules
from revfrf.testing.peers import FaultyPeer
from revfrf.testing.refusals import refusal_kind
from revfrf.transport.base import Channel, Reply
from tests.conftest import world_of
from tests.federations import grown_splits
from tests.protocols.paper.blame import blamed, u4

MISSING = missing(64)

CASE = random_case(41)
OWNERS = ("bank", "shop", "telco")
LARGEST = 2**62 - 1
CORNERS = [MISSING, -LARGEST, -1, 0, 1, LARGEST]
Pairs = Mapping[str, Sequence[tuple[int, int]]]
"""By owner, numbers to compare: x of the requester with s of the owner."""

changed = msgspec.structs.replace


@dataclass
class World:
    """A federation with an open forest and a requester, and CS's part of HoLT in the test's hands."""

    federation: Federation

    def key(self, name: str) -> WeakKey:
        roles = {
            CS: self.federation.coordinator,
            **self.federation.participants,
            **self.federation.requesters,
        }
        return roles[name].identity.weak

    def server(self, channel: Channel | None = None, n_jobs: int = 1) -> ComparingServer:
        share = self.federation.coordinator.identity.share
        cc = self.federation.coordinator.plan.verify_keys[CC]
        channel = channel or self.federation.network.channel(CS)
        return ComparingServer(channel, share, self.key(CS), cc, n_jobs)

    def request(self, n_rows: int = 100) -> Request:
        identity = self.federation.requesters["clinic"].identity
        return sign_request(identity, self.federation.coordinator.plan.forest, n_rows, "hard", False, b"rows")

    def asked(self, pairs: Pairs) -> dict[str, list[Comparison]]:
        return {owner: [self.comparison(owner, x, s) for x, s in own] for owner, own in pairs.items()}

    def comparison(self, owner: str, x: int, s: int) -> Comparison:
        [encrypted] = ho_enc(self.key("clinic").public, [x], n_jobs=1)
        return Comparison(encrypted, *ho_enc(self.key(owner).public, [s], n_jobs=1))

    def compare(
        self,
        pairs: Pairs,
        *,
        request: Request | None = None,
        depth: int = 0,
        channel: Channel | None = None,
        n_jobs: int = 1,
    ) -> dict[str, list[bool]]:
        server = self.server(channel, n_jobs)
        return ho_lt(server, request or self.request(), depth, self.asked(pairs))

    def books(self) -> list[Any]:
        owners = [owner.book for owner in self.federation.participants.values()]
        return [(dict(book.known), dict(book.rows)) for book in (self.federation.compute.book, *owners)]

    def shares_given(self, owners: Sequence[str] = OWNERS) -> int:
        """How often any of these owners has raised something to its key."""
        entries = self.federation.network.ledger.entries
        return sum(
            entries[owner, "HoLT"].powers["secret", 256] for owner in owners if (owner, "HoLT") in entries
        )


def opened(case: Any, dealt: Any) -> World:
    federation = Federation(columns_of(case.codes), setup=dealt, seed=case.seed)
    for name, table in case.codes.items():
        federation.participants[name].hold("training", table)
    federation.coordinator.create(case.rules, federation.seed, targets_of(case))
    federation.coordinator.open()
    for owner in federation.participants.values():  # who has nodes everywhere
        levels, trees = range(case.rules.max_depth), range(case.rules.n_trees)
        owner.store.own_splits.update({(tree, 1 << depth): (0, 0) for tree in trees for depth in levels})
    federation.enrol_requester("clinic")
    return World(federation)


@pytest.fixture(scope="module")
def world() -> World:
    return opened(CASE, toy_keys())


def truth(pairs: Pairs) -> dict[str, list[bool]]:
    return {owner: [x <= s for x, s in own] for owner, own in pairs.items()}


# -- what it answers --------------------------------------------------------------------------------

numbers = st.integers(MISSING, LARGEST) | st.sampled_from(CORNERS) | st.integers(-3, 3)
one_owner = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5)


@settings(max_examples=40)
@given(pairs=st.dictionaries(st.sampled_from(OWNERS), one_owner, min_size=1))
def test_answers_are_true_whatever_the_numbers_and_owners(world: World, pairs: Pairs) -> None:
    assert world.compare(pairs) == truth(pairs)


def test_corners_are_compared_rightly_with_each_other(world: World) -> None:
    pairs = {"telco": [(x, s) for x in CORNERS for s in CORNERS]}
    assert world.compare(pairs) == truth(pairs)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_more_bits_than_a_ciphertext_holds_are_opened_all_the_same(world: World, n_jobs: int) -> None:
    room, rng = world.federation.parameters.plaintext_bits, random.Random(1)
    counts = {"bank": room + 1, "shop": 2, "telco": room}
    pairs = {
        owner: [(rng.randrange(-9, 9), rng.randrange(-9, 9)) for _ in range(n)] for owner, n in counts.items()
    }
    assert world.compare(pairs, request=world.request(1000), n_jobs=n_jobs) == truth(pairs)


def test_answers_are_true_if_packs_hold_comparisons_of_several_owners() -> None:
    """1024 bits: seven comparisons a pack."""
    rng = random.Random(2)
    pairs = {
        owner: [(rng.randrange(MISSING, LARGEST), rng.randrange(MISSING, LARGEST)) for _ in range(count)]
        for owner, count in (("bank", 5), ("shop", 1), ("telco", 10))
    }
    assert opened(CASE, world_of(1024)).compare(pairs) == truth(pairs)


def test_every_level_of_a_request_is_answered(world: World) -> None:
    request = world.request()
    for depth in range(CASE.rules.max_depth):
        pairs = {"shop": [(depth, 1)], "bank": [(1, depth), (depth, depth)]}
        assert world.compare(pairs, request=request, depth=depth) == truth(pairs)


def test_owner_who_is_absent_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(world.federation.network.roles, "shop")
    pairs = {"bank": [(1, 2)], "shop": [(3, 4)], "telco": [(6, 5), (1, 1)]}
    assert world.compare(pairs) == {"bank": [True], "telco": [False, True]}
    assert world.compare({"shop": [(1, 2)]}) == {}


@pytest.mark.parametrize(("n_trees", "n_rows"), [(1, 1), (4, 12), (9, 30)])
def test_owner_computes_one_power_a_request_and_level(n_trees: int, n_rows: int) -> None:
    """Whatever the number of trees and rows, and none for levels at which no row comes to its splits."""
    case = random_case(42, rules=with_rules(n_trees=n_trees))
    federation = train(case)
    splits, levels = grown_splits(federation), {owner: set[int]() for owner in OWNERS}
    for tree, row in np.ndindex(n_trees, n_rows):
        path = 1
        while (tree, path) in splits:
            owner, column = splits[tree, path].feature.split("/")
            levels[owner].add(path.bit_length())
            path = 2 * path + int(case.codes[owner][int(column[1:])][row] > splits[tree, path].threshold)
    federation.ask({p: t[:, :n_rows] for p, t in case.codes.items()}, None, "hard", False, lambda _: None)
    work = federation.costs().work
    for owner, asked in levels.items():
        powers = work[owner].get("HoLT", {"exponentiations": {}})["exponentiations"]
        assert powers == ({"secret mod N": len(asked)} if asked else {})
        assert federation.network.messages[CS, owner, "HoLT"] == len(asked)
    assert any(levels.values())


# -- as the paper prints it -------------------------------------------------------------------------


def less_as_printed(world: World, owner: str, x: Ciphertext, s: Ciphertext) -> bool:
    """x < s, by the paper's HoLT, opened by CS and the owner."""
    cs, key = world.key(CS), world.key(owner)
    terms = Term(world.key("clinic").public, x), Term(key.public, s)
    cc = world.federation.compute.identity.share
    asking = partial(as_printed.cc_ho_add, cc), partial(as_printed.cc_ho_lt, cc)
    answer = as_printed.ho_lt(world.server().share, cs.public, *terms, *asking)
    [bit] = par_h_dec2(cs, [answer], par_h_dec1(key, [answer], n_jobs=1), n_jobs=1)
    assert bit in (0, 1)
    return bool(bit)


def test_packed_answers_are_those_of_the_paper(world: World) -> None:
    """The paper's HoLT says x < s, the packed one x ≤ s, which is x < s + 1."""
    rng, p = random.Random(3), world.federation.parameters
    pairs = [(rng.randrange(-4, 4), rng.randrange(-4, 4)) for _ in range(20)]
    pairs += [(rng.choice(CORNERS), rng.choice(CORNERS)) for _ in range(15)]
    comparisons = [world.comparison("telco", x, s) for x, s in pairs]
    packed = ho_lt(world.server(), world.request(), 0, {"telco": comparisons})["telco"]
    assert packed == [less_as_printed(world, "telco", c.x, add_constant(p, c.s, 1)) for c in comparisons]
    strictly = [less_as_printed(world, "telco", c.x, c.s) for c in comparisons]
    assert strictly == [x < s for x, s in pairs]
    assert {at for at, (x, s) in enumerate(pairs) if x == s} == {
        at for at, both in enumerate(zip(packed, strictly, strict=True)) if both == (True, False)
    }


# -- a lying owner ----------------------------------------------------------------------------------


def lie(world: World, monkeypatch: pytest.MonkeyPatch, party: str, change: Callable[[Any], Message]) -> None:
    roles = world.federation.network.roles
    monkeypatch.setitem(roles, party, FaultyPeer(roles[party], on_reply=lambda _, reply: change(reply)))


def negative_symbol() -> int:
    n = toy_keys().parameters.n
    return next(x for x in range(2, 100) if jacobi(x, n) == -1)


WRONG: dict[str, Callable[[int], bytes]] = {
    "another number": lambda z: number(z * 4 % toy_keys().parameters.n),
    "one": lambda _: b"\1",
    "zero": lambda _: b"\0",
    "N": lambda _: number(toy_keys().parameters.n),
    "above N": lambda z: number(z + toy_keys().parameters.n),
    "Jacobi symbol -1": lambda _: number(negative_symbol()),
    "thousands of bits": lambda _: b"\xff" * 8000,
}
PAIRS = {owner: [(1, 2), (2, 1), (0, 0)] for owner in OWNERS}


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("wrong", WRONG)
def test_owner_whose_share_is_wrong_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: str, wrong: str
) -> None:
    lie(world, monkeypatch, owner, lambda reply: changed(reply, share=WRONG[wrong](of_number(reply.share))))
    with blamed(owner):
        world.compare(PAIRS)


@pytest.mark.parametrize("owner", OWNERS)
def test_sign_of_a_share_spoils_no_answer(world: World, monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    """Opened together with others it is squared away; alone it does not open, and the owner is named."""
    n = world.federation.parameters.n
    lie(world, monkeypatch, owner, lambda reply: changed(reply, share=number(n - of_number(reply.share))))
    if owner != OWNERS[0]:
        assert world.compare(PAIRS) == truth(PAIRS)
    with blamed(owner):
        world.compare({owner: PAIRS[owner]})


def test_owner_with_another_key_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Keys(WeakKey.generate(world.federation.parameters), None)
    monkeypatch.setattr(world.federation.participants["shop"].identity, "keys", other)
    with blamed("shop"):
        world.compare(PAIRS)


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: changed(reply, share=b"\0" + reply.share),
        lambda reply: changed(reply, share=b""),
        lambda reply: changed(reply, share=bytes(9000)),
        lambda reply: changed(reply, count=reply.count + 1),
        lambda _: Done(),
    ],
    ids=["leading zeros", "nothing", "longer than any number", "of more bits", "another message"],
)
def test_owner_whose_share_is_malformed_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Message]
) -> None:
    lie(world, monkeypatch, "shop", change)
    with blamed("shop"):
        world.compare(PAIRS)


# -- a lying CC -------------------------------------------------------------------------------------

WIDTH = 96


def swapped(reply: SealedResults) -> SealedResults:
    """The first two owners' results change places."""
    c, signatures = reply.ciphertexts, reply.signatures
    return changed(
        reply,
        ciphertexts=c[WIDTH : 2 * WIDTH] + c[:WIDTH] + c[2 * WIDTH :],
        signatures=(signatures[1], signatures[0], *signatures[2:]),
    )


MALFORMED: dict[str, tuple[Callable[[Any], Message], str]] = {
    "no results": (lambda r: changed(r, ciphertexts=b""), "length"),
    "a byte less": (lambda r: changed(r, ciphertexts=r.ciphertexts[:-1]), "length"),
    "a result more": (lambda r: changed(r, ciphertexts=r.ciphertexts + r.ciphertexts[:WIDTH]), "length"),
    "a signature less": (lambda r: changed(r, signatures=r.signatures[1:]), "length"),
    "a signature more": (lambda r: changed(r, signatures=(*r.signatures, bytes(64))), "length"),
    "masked bits of fewer owners": (lambda r: changed(r, masked=r.masked[1:]), "length"),
    "zeros": (lambda r: changed(r, ciphertexts=bytes(3 * WIDTH)), "out-of-range"),
    "ones": (lambda r: changed(r, ciphertexts=b"\xff" * 3 * WIDTH), "out-of-range"),
    "a signature that is none": (
        lambda r: changed(r, signatures=(bytes(63), *r.signatures[1:])),
        "malformed",
    ),
    "another message": (lambda _: Done(), "malformed"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_results_are_shown_to_no_owner(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    change, kind = MALFORMED[name]
    lie(world, monkeypatch, CC, change)
    before = world.shares_given()
    with pytest.raises(RefusedError) as caught:
        world.compare(PAIRS)
    assert caught.value.party == CC
    assert isinstance(caught.value.__cause__, RejectedError)
    assert caught.value.__cause__.kind == kind
    assert world.shares_given() == before


@pytest.mark.parametrize(
    "change",
    [
        swapped,
        lambda r: changed(r, signatures=swapped(r).signatures),
        lambda r: changed(r, ciphertexts=swapped(r).ciphertexts),
        lambda r: changed(r, signatures=(bytes(64),) * 3),
    ],
    ids=["results", "signatures only", "ciphertexts only", "unsigned"],
)
@pytest.mark.parametrize("checking", [True, False], ids=["CS checks", "CS does not"])
def test_owner_gives_no_share_of_results_that_were_swapped(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Message], checking: bool
) -> None:
    """A CS that checks what CC has signed blames CC; from one that does not, the owner refuses it.
    All owners are asked at once, and telco's result is its own.
    """
    lie(world, monkeypatch, CC, change)
    if not checking:
        monkeypatch.setattr(module, "verify_result", lambda *_: None)  # the owner has its own reference
    before = world.shares_given(("bank", "shop"))
    with blamed(CC if checking else "bank"):
        world.compare(PAIRS)
    assert world.shares_given(("bank", "shop")) == before


def resealed(world: World, request: Request, more: int) -> Callable[[SealedResults], SealedResults]:
    """Add to the first owner's bits, and sign it as CC."""
    p, signing = world.federation.parameters, world.federation.compute.identity.signing_key

    def change(reply: SealedResults) -> SealedResults:
        old = Ciphertext.from_bytes(p, reply.ciphertexts[:WIDTH])
        new = add_constant(p, old, more).to_bytes(p)
        signature = signing.sign(_RESULT, *_result(request, 0, "bank", 3, new))
        return changed(
            reply, ciphertexts=new + reply.ciphertexts[WIDTH:], signatures=(signature, *reply.signatures[1:])
        )

    return change


@pytest.mark.parametrize("more", [1 << 20, 1 << 200, -8], ids=["a bit", "a high bit", "a negative number"])
def test_compute_partner_that_seals_more_bits_than_were_asked_for_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    request = world.request()
    lie(world, monkeypatch, CC, resealed(world, request, more))
    with pytest.raises(RefusedError) as caught:
        world.compare({"bank": PAIRS["bank"]}, request=request)
    assert isinstance(caught.value.__cause__, SlotError)
    assert caught.value.party == CC


@pytest.mark.parametrize("count", [3, 300])
def test_masked_bits_come_exactly_where_a_ciphertext_cannot_hold_them(
    world: World, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    lie(world, monkeypatch, CC, lambda r: changed(r, masked=(b"" if r.masked[0] else b"\0",)))
    with blamed(CC):
        world.compare({"bank": [(1, 2)] * count})


# -- a lying CS, to an owner ------------------------------------------------------------------------


@dataclass
class Recording:
    """CS's channel, on which all that is sent is written down, and some do not hear it."""

    federation: Federation
    deaf: Sequence[str]
    sent: list[Any] = field(default_factory=list)

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        self.sent.append(request)
        if recipient in self.deaf:
            raise AbsentError(recipient, "is deaf")
        return self.federation.network.channel(CS).call(recipient, request, reply_type)


def refused(
    world: World,
    party: str,
    message: Message,
    reply_type: type[Reply],
    sender: str = CS,
    attempt: bool = False,
) -> str:
    """The kind of the refusal; nothing is written down, unless the attempt counts."""
    before, channel = world.books(), world.federation.network.channel(sender)
    kind = refusal_kind(
        lambda: channel.call(party, message, reply_type), by=party, unchanged=world.shares_given
    )
    assert (world.books() == before) != attempt
    return kind


def results(world: World, request: Request | None = None, depth: int = 0) -> dict[str, ShareRequest]:
    """What CS would send to each owner."""
    channel = Recording(world.federation, OWNERS)
    assert world.compare(PAIRS, request=request, depth=depth, channel=channel) == {}
    return dict(zip(OWNERS, channel.sent[1:], strict=True))


def test_owner_gives_its_share_once(world: World) -> None:
    request = world.request()
    first, later = (results(world, request, depth)["bank"] for depth in (0, 2))
    channel = world.federation.network.channel(CS)
    for message in (first, later):
        assert of_number(channel.call("bank", message, ShareReply).share) > 1
    for message in (first, later):
        assert refused(world, "bank", message, ShareReply) == "replay"


def split_ciphertext(world: World) -> bytes:
    """As CS has it for each split of the owner."""
    [ciphertext] = ho_enc(world.key("bank").public, [12345], n_jobs=1)
    return ciphertext.to_bytes(world.federation.parameters)


FORGERIES: dict[str, Callable[[World, dict[str, ShareRequest]], ShareRequest]] = {
    "of another owner": lambda _, sent: sent["shop"],
    "another owner's ciphertext": lambda _, sent: changed(sent["bank"], ciphertext=sent["shop"].ciphertext),
    "another depth": lambda _, sent: changed(sent["bank"], depth=1),
    "another request": lambda world, sent: changed(sent["bank"], request=world.request()),
    "fewer comparisons": lambda _, sent: changed(sent["bank"], count=2),
    "more comparisons": lambda _, sent: changed(sent["bank"], count=4),
    "a split itself": lambda world, sent: changed(sent["bank"], ciphertext=split_ciphertext(world)),
    "unsigned": lambda _, sent: changed(sent["bank"], signature=bytes(64)),
    "signed by another": lambda _, sent: changed(sent["bank"], signature=SigningKey.generate().sign(_RESULT)),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_owner_opens_nothing_but_results_for_itself(world: World, forgery: str) -> None:
    sent = results(world)
    assert refused(world, "bank", FORGERIES[forgery](world, sent), ShareReply) == "signature"
    world.federation.network.channel(CS).call("bank", sent["bank"], ShareReply)


def signed_by_cc(world: World, message: ShareRequest, **changes: Any) -> ShareRequest:
    new = changed(message, **changes)
    fields = _result(new.request, new.depth, "bank", new.count, new.ciphertext)
    return changed(new, signature=world.federation.compute.identity.signing_key.sign(_RESULT, *fields))


def test_owner_keeps_to_the_request_even_if_the_compute_partner_does_not(world: World) -> None:
    honest = results(world)["bank"]
    most = CASE.rules.n_trees * honest.request.n_rows
    for changes in ({"depth": CASE.rules.max_depth}, {"count": most + 1}, {"count": 0}):
        assert refused(world, "bank", signed_by_cc(world, honest, **changes), ShareReply) == "request"


@pytest.mark.parametrize("g", [0, 1, -1, None], ids=["0", "1", "-1", "Jacobi symbol -1"])
def test_owner_raises_no_hostile_element_to_its_key(world: World, g: int | None) -> None:
    honest, n = results(world)["bank"], world.federation.parameters.n
    hostile = negative_symbol() if g is None else g % n
    ciphertext = honest.ciphertext[:64] + hostile.to_bytes(32, "big")
    message = signed_by_cc(world, honest, ciphertext=ciphertext)
    assert refused(world, "bank", message, ShareReply, attempt=True) in ("out-of-range", "trivial", "jacobi")


# -- a lying CS, to CC ------------------------------------------------------------------------------


def packed(world: World, pairs: Pairs = PAIRS, request: Request | None = None) -> MaskedComparisons:
    """What CS would send to CC."""
    channel = Recording(world.federation, [CC])
    with pytest.raises(AbsentError):
        world.compare(pairs, request=request, channel=channel)
    [message] = channel.sent
    assert isinstance(message, MaskedComparisons)
    return message


NEEDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "an owner twice": ({"owners": ("bank", "bank", "telco")}, "request"),
    "no owners": ({"owners": (), "counts": b"", "packs": b""}, "request"),
    "owners without comparisons": ({"counts": u4(9, 0, 0)}, "request"),
    "no comparisons": ({"counts": u4(0, 0, 0)}, "request"),
    "a count too few": ({"counts": u4(3, 3)}, "length"),
    "a byte too many": ({"counts": u4(3, 3, 3) + b"\0"}, "length"),
    "more than trees times rows": ({"counts": u4(3, 3, 395)}, "request"),
    "billions": ({"counts": u4(2**32 - 1, 2**32 - 1, 2**32 - 1)}, "request"),
    "an unknown owner": ({"owners": ("bank", "nobody", "telco")}, "member"),
    "a requester as owner": ({"owners": ("bank", "clinic", "telco")}, "member"),
    "CS as owner": ({"owners": ("bank", CS, "telco")}, "member"),
    "a depth too deep": ({"depth": CASE.rules.max_depth}, "request"),
}


@pytest.mark.parametrize("name", NEEDLESS)
def test_compute_partner_refuses_what_no_request_needs(world: World, name: str) -> None:
    changes, kind = NEEDLESS[name]
    honest = packed(world)
    assert refused(world, CC, changed(honest, **changes), SealedResults) == kind
    world.federation.network.channel(CS).call(CC, honest, SealedResults)


NO_PACKS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a byte less": (lambda packs: packs[:-1], "length"),
    "a pack less": (lambda packs: packs[:-WIDTH], "length"),
    "a pack more": (lambda packs: packs + packs[:WIDTH], "length"),
    "none": (lambda _: b"", "length"),
    "zeros": (lambda packs: bytes(len(packs)), "out-of-range"),
    "ones": (lambda packs: b"\xff" * len(packs), "out-of-range"),
    "C is N": (lambda packs: toy_keys().parameters.n.to_bytes(64, "big") + packs[64:], "not-a-unit"),
    "another's half": (
        lambda packs: packs[:64] + packs[WIDTH + 64 : 2 * WIDTH] + packs[WIDTH:],
        "decryption",
    ),
}


@pytest.mark.parametrize("name", NO_PACKS)
def test_compute_partner_refuses_packs_that_are_none_and_the_attempt_counts(world: World, name: str) -> None:
    change, kind = NO_PACKS[name]
    honest = packed(world)
    bad = changed(honest, packs=change(honest.packs))
    assert refused(world, CC, bad, SealedResults, attempt=True) == kind
    assert refused(world, CC, honest, SealedResults) == "replay"


@pytest.mark.parametrize("x", [2**65, -(2**65), 2**70, -(2**70), 2**240, -(2**240)])
def test_numbers_beyond_the_range_are_refused_by_the_compute_partner(world: World, x: int) -> None:
    for pairs in ({"bank": [(x, 0)]}, {"bank": [(0, 1), (0, x)], "shop": [(1, 1)]}):
        with blamed(CC):
            world.compare(pairs)


@pytest.mark.parametrize("x", [0, 2**65, -(2**70), 2**240])
def test_without_consent_nobody_learns_whether_numbers_are_out_of_range(
    world: World, monkeypatch: pytest.MonkeyPatch, x: int
) -> None:
    """Else CS could ask whether a cut lies in a window of its choice, until it knows it."""
    monkeypatch.setattr(world.federation.participants["bank"], "policy", RequestPolicy(accepts=[]))
    message = packed(world, {"bank": [(x, 0)]})
    reply = world.federation.network.channel(CS).call(CC, message, SealedResults)
    assert (len(reply.ciphertexts), reply.masked, len(reply.signatures)) == (WIDTH, (b"",), 1)
    with blamed("bank"):
        world.compare({"bank": [(x, 0)]})


def test_owner_consents_to_no_more_than_its_own_nodes_can_need(world: World) -> None:
    owner = world.federation.participants["bank"]
    everywhere = dict(owner.store.own_splits)
    try:
        owner.store.own_splits.clear()
        owner.store.own_splits.update({(0, 1): (0, 0), (2, 1): (0, 0), (2, 2): (0, 0), (2, 3): (0, 0)})
        rows = world.request(n_rows=3)
        for depth, most in ((0, 6), (1, 3)):
            world.compare({"bank": [(1, 2)] * most}, request=rows, depth=depth)
        for depth, count in ((0, 7), (1, 4), (2, 1)):
            with blamed("bank"):
                world.compare({"bank": [(1, 2)] * count}, request=world.request(n_rows=3), depth=depth)
    finally:
        owner.store.own_splits.update(everywhere)


def test_compute_partner_answers_levels_once_and_in_order(world: World) -> None:
    request, channel = world.request(), world.federation.network.channel(CS)
    message = packed(world, request=request)
    channel.call(CC, changed(message, depth=1), SealedResults)
    for depth in (1, 0):
        assert refused(world, CC, changed(message, depth=depth), SealedResults) == "replay"
    channel.call(CC, changed(message, depth=3), SealedResults)


def test_compute_partner_serves_one_forest_of_its_federation_and_epoch(world: World) -> None:
    other = Federation(columns_of(CASE.codes), setup=toy_keys(), seed=CASE.seed)
    without = replace(world, federation=other)
    honest, opening = packed(world), world.federation.coordinator.opening
    channel = other.network.channel(CS)
    with pytest.raises(RefusedError) as caught:
        channel.call(CC, honest, SealedResults)
    assert isinstance(caught.value.__cause__, RejectedError)
    assert caught.value.__cause__.kind == "forest"
    own = changed(opening, federation=other.coordinator.certificate.federation)
    assert refused(without, CC, own, Done) == "forest"
    own = changed(own, forest=forest_id(own))
    assert refused(without, CC, opening, Done) == "forest"
    assert refused(without, CC, changed(own, epoch=2), Done) == "epoch"
    more = changed(own.rules, n_trees=own.rules.n_trees + 1)
    assert refused(without, CC, changed(own, rules=more), Done) == "forest"
    assert refused(without, CC, own, Done, "bank") == "sender"
    assert other.compute.forest is None
    channel.call(CC, own, Done)
    channel.call(CC, own, Done)  # told again
    second = changed(own, nonce=bytes(16))
    assert refused(without, CC, changed(second, forest=forest_id(second)), Done) == "forest"
    assert other.compute.forest == own
