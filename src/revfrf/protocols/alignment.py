"""Alignment: CS and the participants agree on the rows of a table, by the ids that all of them have.

CS asks every participant, all at the same time, which of CS's ids it has, by private set intersection
(`crypto.psi`). A participant learns how many ids CS has; CS learns, per participant, which of these it has.
Then CS tells each of them the rows of the table (`Align`): the ids of those that it has, all of them its own,
and the numbers alone of the others, where it has missing values. CS takes the rows that all have, and numbers
them in the order of their ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revfrf.crypto.encoding import missing
from revfrf.crypto.psi import Query, answer
from revfrf.errors import ProtocolError, UsageError
from revfrf.forest.kernel import Ints
from revfrf.io.party_data import Rows
from revfrf.messages.alignment import Align, MatchReply, MatchRequest
from revfrf.messages.base import Message
from revfrf.messages.fle_expan import Column
from revfrf.parallel import side_by_side
from revfrf.transport.base import Channel, Reply, blaming

_FEW, _MANY = 10_000, 20
"""CS may name this many rows, or this many times as many as the participant has."""


@dataclass(frozen=True, slots=True)
class Matched:
    """Those of CS's ids that all participants have, and how many CS shares with each of them.

    The ids are in alphabetical order, which tells nothing of how anybody keeps them.
    """

    ids: Sequence[str]
    shared: Mapping[str, int]

    def __str__(self) -> str:
        """How many ids CS shares with each participant: "300 with 'bank', 12 with 'telco'"."""
        return ", ".join(f"{count:,} with {party!r}" for party, count in self.shared.items())


# -- CS ---------------------------------------------------------------------------------------------


def ask_all(
    channel: Channel, parties: Sequence[str], message: Message, reply_type: type[Reply]
) -> dict[str, Reply]:
    """Ask all of these participants the same."""
    replies = side_by_side(lambda party: channel.call(party, message, reply_type), parties)
    return dict(zip(parties, replies, strict=True))


def match(
    channel: Channel,
    federation: str,
    epoch: int,
    table: str,
    ids: Sequence[str],
    parties: Sequence[str],
    n_jobs: int,
) -> Matched:
    """Find those of CS's ids that all of these participants have. Raises UsageError if there are none."""
    asking = {party: Query(ids, federation=federation, table=table, n_jobs=n_jobs) for party in parties}

    def ask(party: str) -> MatchReply:
        request = MatchRequest(epoch=epoch, table=table, blinded=asking[party].request)
        return channel.call(party, request, MatchReply)

    common, shared = set(ids), {}
    for party, reply in zip(parties, side_by_side(ask, parties), strict=True):
        with blaming(party):
            found = asking[party].common(reply.own, reply.twice)
        common &= set(found)
        shared[party] = len(found)
    matched = Matched(sorted(common), shared)
    if not common:
        raise UsageError(f"no row is shared by all participants ({matched}); check the id columns")
    return matched


# -- a participant ----------------------------------------------------------------------------------


def answer_match(ids: Sequence[str], federation: str, message: MatchRequest, n_jobs: int) -> MatchReply:
    """Blind the ids on both sides."""
    most, table = _most_rows(ids), message.table
    own, twice = answer(ids, message.blinded, most, federation=federation, table=table, n_jobs=n_jobs)
    return MatchReply(own=own, twice=twice)


def answer_align(rows: Rows, columns: Sequence[Column], message: Align, *, clamp: bool) -> tuple[Ints, Ints]:
    """Return the numbers of the rows that CS names, and their x̂: missing values where there is no such row.

    Raises ProtocolError for ids that are not its own, or one of them twice, or none.
    """
    numbers, ids = message.rows.read(_most_rows(rows.ids))
    places = {name: place for place, name in enumerate(rows.ids)}
    named = [name for name in ids if name]
    if not named or len(set(named)) != len(named) or not places.keys() >= set(named):
        raise ProtocolError("rows that are not ours, one of them twice, or none", kind="schema")
    # `take` keeps columns contiguous, for which the kernels are compiled
    codes = np.take(rows.codes(columns, clamp=clamp), [places.get(name, 0) for name in ids], axis=1)
    lacked = np.array([not name for name in ids])
    for column, values in zip(columns, codes, strict=True):
        values[lacked] = missing(column.ring)
    return numbers, codes


def _most_rows(ids: Sequence[str]) -> int:
    """Return how many rows CS may name to a participant that has these."""
    return max(_FEW, _MANY * len(ids))
