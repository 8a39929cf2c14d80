"""Alignment: CS and the participants agree on the rows of a table, by the ids that all of them have.

CS asks one participant after the other which of its ids that one has, too, by private set intersection
(`matching`): the participant learns how many ids CS asks about, CS which of them the participant has. Each is
asked only about what was common to all before. Then CS tells everybody the ids that are left, in the order in
which rows are counted from now on; all of them are the participant's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.canonical import digest
from revfrf.crypto.psi import Query, answer
from revfrf.errors import ProtocolError, UsageError
from revfrf.messages.alignment import Align, MatchReply, MatchRequest, SchemaRequest
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Column, Schema
from revfrf.transport.base import Channel, blaming

_ALIGNED = "revfrf aligned rows v1"
_FEW, _MANY = 10_000, 20
"""CS may ask about so many ids, or so many times as many as the participant has."""


class RowSource(Protocol):
    """Rows with ids, as a participant has them in a file."""

    @property
    def ids(self) -> Sequence[str]:
        """An id for each row, each once."""

    def codes(self, columns: Sequence[Column]) -> NDArray[np.int64]:
        """The x̂ of these columns, a row a column."""


@dataclass(frozen=True, slots=True)
class Matched:
    """How many ids were common to all participants up to this one."""

    party: str
    common: int


# -- CS ---------------------------------------------------------------------------------------------


def ask_schemas(channel: Channel, epoch: int, parties: Sequence[str]) -> dict[str, Schema]:
    """What these participants publish of their columns, and how many rows each has."""
    return {party: channel.call(party, SchemaRequest(epoch=epoch), Schema) for party in parties}


def match(
    channel: Channel,
    federation: str,
    epoch: int,
    table: str,
    ids: Sequence[str],
    parties: Sequence[str],
    n_jobs: int,
    progress: Callable[[Matched], None],
) -> list[str]:
    """Those of CS's ids that all of these participants have, in alphabetical order, which tells nothing of
    how anybody keeps them.

    Raises UsageError if there are none, naming the participant after whom nothing was left.
    """
    common = list(ids)
    for party in parties:
        with blaming(party):
            asking = Query(common, federation=federation, table=table, n_jobs=n_jobs)
            request = MatchRequest(epoch=epoch, table=table, blinded=asking.request())
            reply = channel.call(party, request, MatchReply)
            common = asking.common(reply.own, reply.twice)
        progress(Matched(party, len(common)))
        if not common:
            raise UsageError(
                f"{party!r} has none of the ids that CS and the participants before it have; "
                "look at the id columns"
            )
    return sorted(common)


def align(channel: Channel, epoch: int, table: str, ids: Sequence[str], parties: Sequence[str]) -> None:
    """Tell these participants the rows of a table; they may be told again."""
    message = Align(epoch=epoch, table=table, ids=tuple(ids))
    for party in parties:
        channel.call(party, message, Done)


# -- a participant ----------------------------------------------------------------------------------


def answer_match(rows: RowSource, federation: str, message: MatchRequest, n_jobs: int) -> MatchReply:
    """Blind the ids on both sides."""
    most = max(_FEW, _MANY * len(rows.ids))
    own, twice = answer(
        rows.ids, message.blinded, most, federation=federation, table=message.table, n_jobs=n_jobs
    )
    return MatchReply(own=own, twice=twice)


def aligned_codes(rows: RowSource, columns: Sequence[Column], ids: Sequence[str]) -> NDArray[np.int64]:
    """The x̂ of the rows with these ids, in this order. Raises ProtocolError for ids that are not ours."""
    places = {name: place for place, name in enumerate(rows.ids)}
    if not ids or len(set(ids)) != len(ids) or not places.keys() >= set(ids):
        raise ProtocolError("rows that are not ours, one of them twice, or none", kind="schema")
    codes: NDArray[np.int64] = rows.codes(columns)[:, [places[name] for name in ids]]
    return codes


def rows_name(ids: Sequence[str]) -> bytes:
    """By which a participant knows aligned rows again."""
    return digest(_ALIGNED, tuple(ids))
