"""FRF-Predict and FT-Predict (the paper's appendix C): answers for rows that only the requester sees.

::

    u0   [x] of every value under pk_0, a signed request  ->  CS                FRF-Predict, line 1
    CS   at each depth, of all trees and rows: HoLT       <>  CC and owners     FT-Predict, lines 4-7
    CS   the sum of the trees' votes                      ->  u0  decides       FRF-Predict, lines 5-10

HoLT tells CS, and CS alone, which way each row goes. It takes two exchanges at each depth, whatever the
number of trees and rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from revfrf.crypto.dtpkc.dtpkc import ho_enc
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters
from revfrf.crypto.dtpkc.packing import Comparison, slots
from revfrf.crypto.encoding import bound, missing
from revfrf.errors import AbsentError, FormatError, ProtocolError, RangeError, RefusedError, UsageError
from revfrf.forest.kernel import Ints
from revfrf.forest.nodes import Nodes
from revfrf.forest.voting import Votes, Voting
from revfrf.messages.base import array
from revfrf.messages.frf_predict import ForestFacts, ForestQuery, PredictReply, PredictRequest, Request
from revfrf.names import CC, CS
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.opening import forest_id
from revfrf.protocols.common.request import rows_digest, sign_request
from revfrf.protocols.paper.fle_expan import PaperPlan
from revfrf.protocols.paper.frf_test import by_owner, reached_children, scatter, walk
from revfrf.protocols.paper.ho_lt import ComparingServer, ho_lt
from revfrf.storage.memory import CoordinatorStore
from revfrf.transport.base import Channel, blaming

ROWS_AT_ONCE = 256
_VOTES, _N_VOTED = "<i8", "<u4"


@dataclass(frozen=True, eq=False)
class Answer:
    """The votes for each row, and who kept other trees from voting."""

    votes: Votes
    absent: tuple[str, ...]


# -- the requester ----------------------------------------------------------------------------------


def ask_facts(channel: Channel, identity: Identity) -> ForestFacts:
    """Return what CS publishes of its forest, checked: of this requester's federation and epoch."""
    admission = identity.admitted
    with blaming(CS):
        facts = channel.call(CS, ForestQuery(admission=admission), ForestFacts)
        if (facts.opening.federation, facts.epoch) != (admission.federation, admission.epoch):
            raise ProtocolError("a forest of another federation or epoch", kind="epoch")
        if facts.opening.forest != forest_id(facts.opening):
            raise ProtocolError("a forest with the name of another", kind="forest")
    return facts


def ask(
    channel: Channel,
    identity: Identity,
    facts: ForestFacts,
    codes: Mapping[str, Ints],
    voting: Voting,
    partial: bool,
    n_jobs: int,
) -> Answer:
    """Send one request. `codes` has the x̂ of each party's columns, shape (n_columns, n_rows).

    Raises RefusedError and AbsentError, naming the party, if the forest cannot answer.
    """
    p = identity.weak.parameters
    slots(p)  # keys that are too short to compare
    values = _row_values(facts, codes)
    n_rows = len(values)
    ciphertexts = ho_enc(identity.weak.public, values.ravel().tolist(), n_jobs=n_jobs)
    rows = b"".join(ciphertext.to_bytes(p) for ciphertext in ciphertexts)
    request = sign_request(identity, facts.opening.forest, n_rows, voting, partial, rows)
    with blaming(CS):
        reply = channel.call(CS, PredictRequest(request=request, rows=rows), PredictReply)
        if reply.failure is not None:
            raise _error(reply.failure.party, reply.failure.reason)
        return _read_answer(facts, n_rows, partial, reply)


def _row_values(facts: ForestFacts, codes: Mapping[str, Ints]) -> Ints:
    """Return all columns in the order of the facts, shape (n_rows, n_columns). Raises UsageError."""
    for party in codes.keys() | facts.columns.keys():
        expected, given = len(facts.columns.get(party, ())), len(codes.get(party, ()))
        if not expected or given != expected:
            raise UsageError(f"a request has {expected} columns of {party!r}, not {given}")
    if len({table.shape[1] for table in codes.values()}) != 1:
        raise UsageError("all columns of a request have the same number of rows")
    for party, columns in facts.columns.items():
        for column, code in zip(columns, codes[party], strict=True):
            if ((code < missing(column.ring)) | (code >= bound(column.ring))).any():
                where = f"party {party!r}, column {column.name!r}"
                raise RangeError(f"{where}: a number outside ±2^{column.ring - 2}")
    return np.concatenate([codes[party] for party in facts.columns]).T


def rows_at_once(facts: ForestFacts, parameters: Parameters) -> int:
    """Return how many rows one request can hold; its rows share one consent, and fail together."""
    width = parameters.ciphertext_bytes * sum(map(len, facts.columns.values()))
    return max(1, min(ROWS_AT_ONCE, PredictRequest.max_bytes // 2 // width))


def _read_answer(facts: ForestFacts, n_rows: int, partial: bool, reply: PredictReply) -> Answer:
    """Return CS's answer, checked: one that this forest can give."""
    n_voted = array(reply.n_voted, _N_VOTED, n_rows).astype(np.int64)
    votes = array(reply.votes, _VOTES, n_rows * facts.n_votes).reshape(n_rows, facts.n_votes)
    whole = (n_voted == n_voted.max()).all() and not reply.absent
    if (n_voted > facts.opening.rules.n_trees).any() or not (whole or (partial and reply.absent)):
        raise FormatError("an answer of other trees than the forest has", kind="out-of-range")
    return Answer(Votes(votes.astype(np.int64), n_voted), reply.absent)


def _error(party: str, reason: str) -> RefusedError | AbsentError:
    if reason == "refused":
        return RefusedError(party, "has refused this request, and its consent is needed")
    if party == CC:
        return AbsentError(CC, "is offline, so nothing can be compared; retry later")
    return AbsentError(
        party,
        "is offline, so its splits cannot be evaluated; retry later, or ask for a partial answer "
        "(`partial=True`, `--partial`)",
    )


# -- CS ---------------------------------------------------------------------------------------------


def read_rows(plan: PaperPlan, message: PredictRequest) -> list[Ciphertext]:
    """Return the ciphertexts of a request, row by row, checked: as many as were signed, valid elements."""
    p, request = plan.parameters, message.request
    if rows_digest(message.rows) != request.digest:
        raise ProtocolError("other rows than the request was signed for", kind="request")
    values = array(message.rows, f"V{p.ciphertext_bytes}", request.n_rows * len(plan.features))
    return [Ciphertext.from_bytes(p, value) for value in values.tolist()]


def write_answer(answer: Answer) -> PredictReply:
    """Return an answer as a message."""
    votes, n_voted = (
        a.astype(t).tobytes() for a, t in ((answer.votes.totals, _VOTES), (answer.votes.n_voted, _N_VOTED))
    )
    return PredictReply(votes=votes, n_voted=n_voted, absent=answer.absent, failure=None)


def frf_predict(
    cs: ComparingServer,
    plan: PaperPlan,
    store: CoordinatorStore,
    request: Request,
    rows: Sequence[Ciphertext],
    absent: set[str],
    progress: Callable[[float], None],
) -> Iterator[Nodes]:
    """Walk the rows of a request to their leaves, and yield the leaves with their rows.

    Adds to `absent` who has stopped rows on their way, which only a partial request allows.
    """
    rules, depths = plan.rules, count()

    def descend(nodes: Nodes) -> Nodes:
        """Return the children that any row reaches, below the splits of owners who are there."""
        depth = next(depths)
        to_walk = len(nodes.rows) * (rules.max_depth - depth)
        progress(request.n_rows - to_walk / (rules.n_trees * rules.max_depth))
        owned = {owner: at for owner, at in by_owner(store, nodes).items() if owner not in absent}
        asked = {owner: _comparisons(plan, store, rows, nodes.take(at)) for owner, at in owned.items()}
        answered = ho_lt(cs, request, depth, asked) if asked else {}  # FT-Predict, lines 4 to 7
        absent.update(owned.keys() - answered.keys())
        if absent and not request.partial:
            raise AbsentError(min(absent), "is offline")
        right, going = np.zeros(len(nodes.rows), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
        for owner, bits in answered.items():
            scatter(nodes, owned[owner], ~np.array(bits), right)
            going[owned[owner]] = True
        return reached_children(nodes, np.flatnonzero(going), right)

    every_row = np.arange(request.n_rows, dtype=np.uint32)
    return walk(store, Nodes.roots([every_row] * rules.n_trees), descend)  # FRF-Predict, lines 2 to 4


def _comparisons(
    plan: PaperPlan, store: CoordinatorStore, rows: Sequence[Ciphertext], nodes: Nodes
) -> list[Comparison]:
    """Return for each row of each node its value of the split's feature, with the split."""
    place = {feature: i for i, feature in enumerate(plan.features)}
    comparisons = []
    for j, name in enumerate(nodes.names()):
        split = store.splits[name]
        s, column = Ciphertext.unchecked(plan.parameters, split.ciphertext), place[split.feature]
        reached = nodes.rows[nodes.starts[j] : nodes.starts[j + 1]].tolist()
        comparisons += [Comparison(rows[row * len(place) + column], s) for row in reached]
    return comparisons
