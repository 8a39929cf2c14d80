"""Messages by which CS and the participants agree on rows."""

from typing import Annotated

import msgspec

from revfrf.messages.base import MIB, Count, Message, counting, once

TableName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class SchemaRequest(Message, frozen=True):
    """CS to a participant: which columns do you have, and how many rows?"""

    protocol = "matching"
    max_bytes = 1024
    epoch: Count


class MatchRequest(Message, frozen=True):
    """CS to a participant: blinded ids. Which of them do you have, too?"""

    protocol = "matching"
    max_bytes = 512 * MIB
    discloses = once("numbers of ids asked about")
    epoch: Count
    table: TableName
    blinded: bytes


class MatchReply(Message, frozen=True):
    """A participant to CS: its own ids blinded, and CS's blinded once more."""

    protocol = "matching"
    max_bytes = 1024 * MIB
    discloses = once("answers to which ids are common")  # and how many others there are
    own: bytes
    twice: bytes


class Align(Message, frozen=True):
    """CS to a participant: the rows of a table, by the ids that everybody has."""

    protocol = "matching"
    max_bytes = 1024 * MIB
    discloses = counting(ids="ids that all have")
    epoch: Count
    table: TableName
    ids: tuple[str, ...]


class Drop(Message, frozen=True):
    """CS to a participant: forget a table that is no longer asked about."""

    protocol = "matching"
    max_bytes = 1024
    epoch: Count
    table: TableName
