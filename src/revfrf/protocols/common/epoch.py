"""Epochs: who belongs to a federation, with which keys, and how one epoch follows another.

KGC signs an epoch certificate for each. The next one names the same members, except those who have left, and
the digest of the one before. Some epochs erase what the members had of the one before, and the members sign
for it when the event is certified. Under the paper protocol, all have new keys of DT-PKC in these epochs, and
nobody has in the others. Under the shares protocol there are no such keys.
"""

from collections.abc import Sequence
from math import gcd

from revfrf.crypto.canonical import digest
from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.dtpkc.strong import Server, StrongShare
from revfrf.crypto.secret import SecretInt
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import ProtocolError
from revfrf.messages.base import number, of_number
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.messages.key_setup import DtpkcParameters, EpochCertificate, Member
from revfrf.names import CC, CS
from revfrf.protocols.common.signed import sign, signed_fields, verify

SHARE_HOLDERS: dict[str, Server] = {CS: CS, CC: CC}
"""Who has a strong share."""

REVOCATION = "revfrf revocation request v1"
"""The domain of the requests to leave that begin an epoch."""

_CERTIFICATE = "revfrf epoch certificate v1"


def write_parameters(p: Parameters) -> DtpkcParameters:
    """Return the public parameters as messages carry them."""
    return DtpkcParameters(number(p.n), number(p.g0), p.exponent_bits)


def read_parameters(dtpkc: DtpkcParameters | None, allow_insecure: bool) -> Parameters:
    """Return the public parameters of a message that must have some.

    Raises ProtocolError if there are none, and UsageError for what cannot be any.
    """
    if dtpkc is None:
        raise ProtocolError("this federation has no DT-PKC keys: its protocol is another", kind="member")
    return Parameters(of_number(dtpkc.n), of_number(dtpkc.g0), dtpkc.exponent_bits, allow_insecure)


def public_half(member: Member) -> int:
    """Return h, the public half of a member's weak key. Raises ProtocolError if it has none."""
    if member.h is None:
        raise ProtocolError(f"{member.name!r} has no weak key", kind="member")
    return of_number(member.h)


def read_share(parameters: Parameters, role: str, share: bytes | None) -> StrongShare | None:
    """Return the strong share of a party with this role, None for none. Raises RejectedError, UsageError."""
    server = SHARE_HOLDERS.get(role)
    if (share is None) != (server is None):
        raise ProtocolError("strong shares are for CS and CC", kind="member")
    if share is None or server is None:
        return None
    return StrongShare(parameters, server, SecretInt(of_number(share)))


def sign_certificate(kgc: SigningKey, unsigned: EpochCertificate) -> EpochCertificate:
    """Return the epoch certificate, signed by KGC."""
    return sign(kgc, _CERTIFICATE, unsigned)


def verify_certificate(kgc: VerifyKey, certificate: EpochCertificate) -> None:
    """Return only if KGC has signed it, with DT-PKC exactly if its protocol is the paper's.

    Raises SignatureError and ProtocolError.
    """
    verify(kgc, _CERTIFICATE, certificate)
    parts = (certificate.dtpkc, *(member.h for member in certificate.members))
    if any((part is not None) != (certificate.forest_protocol == "paper") for part in parts):
        raise ProtocolError(
            "an epoch has DT-PKC keys if its protocol is the paper's, else none", kind="epoch"
        )


def certificate_digest(certificate: EpochCertificate) -> bytes:
    """Return the digest by which the next epoch refers to this one."""
    return digest(_CERTIFICATE, *signed_fields(certificate))


def check_succession(before: EpochCertificate | None, after: EpochCertificate) -> None:
    """Raise ProtocolError unless `after` is a first epoch, or follows `before`.

    The federation keeps its protocol, KGC its key for notes, and members keep their names, roles and signing
    keys; either all have new keys under new parameters, or nobody has. Those who
    have left have signed requests to leave.
    """
    if before is None:
        if after.epoch != 1 or after.revoked or after.requests or after.previous or after.erases:
            raise ProtocolError("a first epoch has no predecessor, and nobody has left", kind="epoch")
        return
    if after.federation != before.federation or after.epoch != before.epoch + 1:
        raise ProtocolError("an epoch that does not follow the one before", kind="epoch")
    if (after.forest_protocol, after.notes_key) != (before.forest_protocol, before.notes_key):
        raise ProtocolError("a federation keeps its protocol, and its key for notes", kind="epoch")
    if after.previous != certificate_digest(before):
        raise ProtocolError("an epoch that follows another one", kind="epoch")
    left = after.revoked[len(before.revoked) :]
    if not left or after.revoked != (*before.revoked, *left) or len(set(after.revoked)) != len(after.revoked):
        raise ProtocolError(
            "a new epoch begins when somebody leaves, and leavers cannot return", kind="member"
        )
    staying = [member for member in before.members if member.name not in left]
    all_known = len(staying) == len(before.members) - len(left)
    if not all_known or list(map(_standing, after.members)) != list(map(_standing, staying)):
        raise ProtocolError(
            "the members are not those of the epoch before, without the leavers", kind="member"
        )
    if [member.role for member in staying if member.role in SHARE_HOLDERS] not in ([CS, CC], [CC, CS]):
        raise ProtocolError("an epoch has one CS and one CC", kind="member")
    _check_requests(before, after, left)
    _check_keys(before, after, staying)


def _check_requests(before: EpochCertificate, after: EpochCertificate, left: Sequence[str]) -> None:
    """Those who have left have asked to, and all erase what they had if one of them wants it."""
    for request in after.requests:
        check_revocation(before, request)
    if [request.party for request in after.requests] != list(left):
        raise ProtocolError("those who left are not those who asked to", kind="leaver")
    if after.erases != any(request.level == 2 for request in after.requests):
        raise ProtocolError("at level 2, and only there, everybody erases what it had", kind="leaver")


def check_revocation(certificate: EpochCertificate, request: RevocationRequest) -> None:
    """Raise RejectedError unless a participant of this epoch has signed that it leaves."""
    if (request.federation, request.epoch) != (certificate.federation, certificate.epoch):
        raise ProtocolError("a request to leave another federation, or in another epoch", kind="epoch")
    if request.party not in certificate.participants:
        raise ProtocolError(f"{request.party!r} is not a participant", kind="member")
    verify(VerifyKey(certificate.by_name[request.party].verify_key), REVOCATION, request)


def _check_keys(before: EpochCertificate, after: EpochCertificate, staying: Sequence[Member]) -> None:
    """Nobody has new keys, or all have, under a modulus that has nothing to do with the old one."""
    old, new = before.dtpkc, after.dtpkc
    if old is not None and after.erases != (new != old):
        raise ProtocolError("old keys are erased exactly if there are new ones", kind="member")
    if old is None or new is None or new == old:
        if new != old or after.members != tuple(staying):
            raise ProtocolError("without a new modulus nobody has new keys", kind="member")
        return
    old_n, new_n = of_number(old.n), of_number(new.n)
    smaller = new_n.bit_length() != old_n.bit_length() or new.exponent_bits < old.exponent_bits
    if smaller or gcd(new_n, old_n) != 1:
        raise ProtocolError("a new modulus is of the same size, and not made from the old one", kind="member")
    keys = [public_half(member) for member in after.members]
    if len(set(keys)) != len(keys) or set(keys) & set(map(public_half, before.members)):
        raise ProtocolError("with a new modulus all have new keys", kind="member")


def _standing(member: Member) -> tuple[str, str, bytes]:
    """Return what stays the same about a member for the federation's life."""
    return member.name, member.role, member.verify_key
