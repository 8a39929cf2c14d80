"""Messages of the key set-up."""

import msgspec

from revfrf.messages.base import MIB, Count, Digest, Message, Name, Number, Signature, counting, once
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.names import PARTICIPANT, Protocol


class DtpkcParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The public parameters of DT-PKC, which the paper protocol alone has."""

    n: Number
    g0: Number
    exponent_bits: Count


class ProvenKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A weak key by its public half, and the proof that the sender holds the secret one."""

    h: Number
    challenge: Number
    response: Number


class KeyDeal(Message, frozen=True):
    """KGC to a party: enrol for an epoch to come, with a weak key if there are parameters to make it under.

    CS and CC then get their strong shares. `number` counts KGC's deals: one that comes after a later one is
    void.
    """

    protocol = "key set-up"
    federation: Name
    epoch: Count
    number: Count
    dtpkc: DtpkcParameters | None
    share: Number | None

    def __repr__(self) -> str:
        return f"KeyDeal({self.federation!r}, …)"  # it may carry a strong share

    def discloses(self) -> dict[str, int]:
        """Public numbers, and to a server its own share."""
        parts = {"public parameters": self.dtpkc, "its strong share": self.share}
        return {what: 1 for what, part in parts.items() if part is not None}


class Enrolment(Message, frozen=True):
    """A party to KGC: its public keys; the weak one if it was dealt parameters."""

    protocol = "key set-up"
    discloses = once("public keys")
    name: Name
    role: Name
    weak: ProvenKey | None
    verify_key: Digest


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party as the epoch certificate names it. `h` is there if the epoch has DT-PKC."""

    name: Name
    role: Name
    h: Number | None
    verify_key: Digest


class EpochCertificate(Message, frozen=True):
    """KGC to everybody: who belongs to the federation in this epoch, with which keys.

    With `notes_key` KGC signs notes about requests for predictions. `requests` are those of the participants
    who left when the epoch began: KGC cannot expel anybody. `erases`: every member has to erase what it had
    of the epoch before, and to sign a receipt for it: all keys, or what belongs to those who have left.
    """

    protocol = "key set-up"
    max_bytes = 64 * MIB
    discloses = counting(members="members of the federation")
    federation: Name
    epoch: Count
    forest_protocol: Protocol
    notes_key: Digest
    dtpkc: DtpkcParameters | None
    members: tuple[Member, ...]
    revoked: tuple[Name, ...]
    requests: tuple[RevocationRequest, ...]
    erases: bool
    previous: bytes
    signature: Signature

    @property
    def participants(self) -> list[str]:
        return [member.name for member in self.members if member.role == PARTICIPANT]

    @property
    def by_name(self) -> dict[str, Member]:
        """The members by their names. A server is named after its role."""
        return {member.name: member for member in self.members}


class EpochAccepted(Message, frozen=True):
    """A party to KGC: this is the epoch that it is in now."""

    protocol = "key set-up"
    max_bytes = 1024
    epoch: Count


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
