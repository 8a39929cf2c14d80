"""Messages of the key set-up."""

import msgspec

from revfrf.messages.base import MIB, Count, Digest, Message, Name, Number, Signature, counting, once
from revfrf.names import PARTICIPANT


class KeyDeal(Message, frozen=True):
    """KGC to a party: the public parameters of an epoch to come, and for CS and CC its strong share.

    `number` counts KGC's deals: one that comes after a later one is void.
    """

    protocol = "key set-up"
    federation: Name
    epoch: Count
    number: Count
    n: Number
    g0: Number
    exponent_bits: Count
    share: Number | None

    def __repr__(self) -> str:
        return f"KeyDeal({self.federation!r}, …)"  # it may carry a strong share

    def discloses(self) -> dict[str, int]:
        """Public numbers, and to a server its own share."""
        return {"public parameters": 1} | ({"its strong share": 1} if self.share else {})


class Enrolment(Message, frozen=True):
    """A party to KGC: its public keys, and the proof that it holds the secret half of h."""

    protocol = "key set-up"
    discloses = once("public keys")
    name: Name
    role: Name
    h: Number
    challenge: Number
    response: Number
    verify_key: Digest


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party as the epoch certificate names it."""

    name: Name
    role: Name
    h: Number
    verify_key: Digest


class EpochCertificate(Message, frozen=True):
    """KGC to everybody: who belongs to the federation in this epoch, with which keys."""

    protocol = "key set-up"
    max_bytes = 64 * MIB
    discloses = counting(members="members of the federation")
    federation: Name
    epoch: Count
    n: Number
    g0: Number
    exponent_bits: Count
    members: tuple[Member, ...]
    revoked: tuple[Name, ...]
    previous: bytes
    signature: Signature

    @property
    def participants(self) -> list[str]:
        return [member.name for member in self.members if member.role == PARTICIPANT]

    @property
    def by_name(self) -> dict[str, Member]:
        """The members by their names. A server is named after its role."""
        return {member.name: member for member in self.members}


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's word that it has erased its keys of an epoch, on entering the one with this certificate.

    `keys` is the digest of what was erased: the weak key, by its public half, and of a server the strong
    share, by its modulus.
    """

    party: Name
    epoch: Count
    keys: Digest
    entered: Digest
    signature: Signature


class EpochAccepted(Message, frozen=True):
    """A party to KGC: from now on this epoch alone; and, if it has new keys, the old ones are erased."""

    protocol = "key set-up"
    max_bytes = 64 * 1024
    epoch: Count
    receipt: Receipt | None

    def discloses(self) -> dict[str, int]:
        return {"erasure receipts": 1} if self.receipt else {}


class Admission(Message, frozen=True):
    """KGC to a requester, who shows it to others: in this epoch, this party may ask for predictions."""

    protocol = "key set-up"
    max_bytes = 64 * 1024
    discloses = once("its own admission")
    federation: Name
    epoch: Count
    member: Member
    signature: Signature


class SetUpRequest(Message, frozen=True):
    """CS to KGC: enrol everybody whom you have invited, and begin the first epoch."""

    protocol = "key set-up"
    max_bytes = 1024


class SetUpReply(Message, frozen=True):
    """KGC to CS: who is missing, or has refused the epoch; nobody if it has begun and everybody knows."""

    protocol = "key set-up"
    max_bytes = 64 * 1024
    missing: Name | None
    refused: Name | None


class AdmissionRequest(Message, frozen=True):
    """A requester to KGC: admit me in the current epoch."""

    protocol = "key set-up"
    max_bytes = 1024
