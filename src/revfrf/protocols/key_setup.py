"""Key set-up: KGC deals, every party makes its own keys, KGC certifies who belongs to the federation::

    KGC  N, g0, E, and to CS and CC its strong share      ->  i    draws sk_i, h_i = g0^sk_i    `deal`
    i    h_i, a proof that it knows sk_i, its verify key  ->  KGC  checks name, role and proof
    KGC  N, g0, E and all members' keys, signed           ->  i    checks that it is named        `inform`

Under the shares protocol there are no N, g0, E, h and strong shares: a party enrols its verify key alone.

KGC never sees a secret but the strong shares, which it deals and forgets. Every party was given KGC's verify
key beforehand. A requester is dealt to in the same way, and gets a signed admission instead (`admit`).
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from revfrf.crypto.dtpkc.keys import PublicKey, WeakKey
from revfrf.crypto.dtpkc.possession import PossessionProof, prove_possession, verify_possession
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import InsecureKeyError, ProtocolError, UsageError
from revfrf.messages.base import Done, number, of_number
from revfrf.messages.key_setup import (
    Admission,
    DtpkcParameters,
    Enrolment,
    EpochAccepted,
    EpochCertificate,
    KeyDeal,
    Member,
    ProvenKey,
)
from revfrf.names import CC, CS, KGC, REQUESTER
from revfrf.parallel import side_by_side
from revfrf.protocols.common.epoch import (
    check_succession,
    read_parameters,
    read_share,
    verify_certificate,
)
from revfrf.protocols.common.identity import Identity, Keys
from revfrf.protocols.common.signed import sign, verify
from revfrf.transport.base import Channel

_ADMISSION = "revfrf admission v1"

KnownKeys = Callable[[], Mapping[str, bytes]]
"""Returns the verify keys that parties must enrol with, as far as they are known by then."""


# -- KGC --------------------------------------------------------------------------------------------


def deal(
    channel: Channel, message: KeyDeal, setup: SetUp | None, roles: Mapping[str, str], known: KnownKeys
) -> tuple[Member, ...]:
    """Have every party of `roles` enrol for a future epoch, with keys under the set-up if there is one.

    Verify keys that are `known` by the time all have enrolled must not change.
    """
    shares = {} if setup is None else {CS: setup.cs_share, CC: setup.cc_share}

    def enrol(party: str) -> Member:
        role, own = roles[party], message
        if role in shares:
            own = msgspec.structs.replace(message, share=number(shares[role].value.reveal()))
        return _enrol(channel, own, party, role)

    members, expected = tuple(side_by_side(enrol, sorted(roles))), known()
    for member in members:
        if expected.get(member.name, member.verify_key) != member.verify_key:
            raise ProtocolError(f"{member.name!r} enrols with another verify key", kind="member")
    return members


def inform(channel: Channel, missed: Sequence[EpochCertificate], member: str) -> int:
    """Send a member the certificates of the epochs that it has missed, and return the epoch that it is in."""
    reached = 0
    for certificate in missed:
        if certificate.epoch > reached:
            reached = channel.call(member, certificate, EpochAccepted).epoch
    if reached != missed[-1].epoch:
        raise ProtocolError(f"{member!r} is in epoch {reached}, not {missed[-1].epoch}", kind="epoch")
    return reached


def admit(
    channel: Channel,
    kgc: SigningKey,
    certificate: EpochCertificate,
    deal_number: int,
    party: str,
    known: bytes | None,
) -> Admission:
    """Let a party send requests in this epoch: a participant with its keys, others with new ones.

    Raises UsageError for a name that is taken or revoked, ProtocolError if the verify key is not the one by
    which the name is `known`.
    """
    if party in certificate.revoked or party in (KGC, CS, CC):
        raise UsageError(f"{party!r} cannot be a requester: the name is revoked, or a server's")
    member = certificate.by_name.get(party)
    if member is None:
        message = key_deal(certificate.federation, certificate.epoch, deal_number, certificate.dtpkc)
        member = _enrol(channel, message, party, REQUESTER)
    if known not in (None, member.verify_key):
        raise ProtocolError(f"{party!r} is the name of another requester", kind="member")
    federation, epoch = certificate.federation, certificate.epoch
    unsigned = Admission(federation=federation, epoch=epoch, member=member, signature=bytes(64))
    admission = sign(kgc, _ADMISSION, unsigned)
    channel.call(party, admission, Done)
    return admission


def key_deal(federation: str, epoch: int, deal_number: int, dtpkc: DtpkcParameters | None) -> KeyDeal:
    """What KGC sends to everybody to whom it deals; a server's strong share is still to be added."""
    return KeyDeal(federation=federation, epoch=epoch, number=deal_number, dtpkc=dtpkc, share=None)


def _enrol(channel: Channel, deal: KeyDeal, party: str, role: str) -> Member:
    """Deal to a party and take its keys. Refuses another name or role, and a key that it does not hold."""
    enrolment = channel.call(party, deal, Enrolment)
    if (enrolment.name, enrolment.role) != (party, role):
        raise ProtocolError(f"{party!r} enrols as {enrolment.role} {enrolment.name!r}", kind="member")
    weak = enrolment.weak
    if (weak is None) != (deal.dtpkc is None):
        wrong = "without the weak key" if weak is None else "with a weak key that has no place"
        raise ProtocolError(f"{party!r} enrols {wrong} in this protocol", kind="member")
    if weak is not None:
        public = PublicKey(read_parameters(deal.dtpkc, allow_insecure=True), of_number(weak.h))
        proof = PossessionProof(of_number(weak.challenge), of_number(weak.response))
        verify_possession(public, party, proof)
    VerifyKey(enrolment.verify_key)
    return Member(party, role, None if weak is None else weak.h, enrolment.verify_key)


# -- every party ------------------------------------------------------------------------------------


def answer_deal(identity: Identity, message: KeyDeal) -> Enrolment:
    """Enrol. Under the parameters of a deal, if there are any, make a weak key and prove possession of it.

    An earlier deal is void, even if it arrives later.
    """
    before = identity.certificate
    if message.epoch != identity.epoch + 1 and not (before is None and identity.role == REQUESTER):
        raise ProtocolError("keys are dealt for the next epoch", kind="order")
    if before is not None and message.federation != identity.federation:
        raise ProtocolError("keys of another federation", kind="order")
    if before is not None and (message.dtpkc is None) != (before.dtpkc is None):
        raise ProtocolError("keys of another protocol", kind="order")
    if message.number <= identity.deal:
        raise ProtocolError(f"deal {message.number} after deal {identity.deal}", kind="order")
    keys = _new_keys(identity, message)
    identity.federation, identity.deal = message.federation, message.number
    identity.dealt_epoch, identity.pending_keys = message.epoch, keys
    return Enrolment(
        name=identity.name,
        role=identity.role,
        weak=None if keys is None else _proven(keys.weak, identity.name),
        verify_key=identity.signing_key.verify_key.raw,
    )


def _new_keys(identity: Identity, message: KeyDeal) -> Keys | None:
    """Return new keys under the parameters of a deal, None if it has none."""
    if message.dtpkc is None:
        if message.share is not None:
            raise ProtocolError("a strong share of no modulus", kind="member")
        return None
    try:
        parameters = read_parameters(message.dtpkc, identity.allow_insecure)
        share = read_share(parameters, identity.role, message.share)
    except InsecureKeyError:
        raise ProtocolError(
            "the keys are too short for a party that has not joined with --allow-insecure; join again, with "
            "a new token",
            kind="member",
        ) from None
    except UsageError as error:
        raise ProtocolError(f"unacceptable parameters: {error}", kind="member") from None
    return Keys(WeakKey.generate(parameters), share)


def _proven(weak: WeakKey, name: str) -> ProvenKey:
    proof = prove_possession(weak, name)
    return ProvenKey(number(weak.public.h), number(proof.challenge), number(proof.response))


def answer_certificate(identity: Identity, certificate: EpochCertificate) -> EpochAccepted:
    """Enter the epoch if KGC has signed it, it follows the current one, and names this party with its keys.

    Keys of the epoch before are erased if this one has new ones. An epoch of the past changes nothing.
    """
    before = identity.certificate
    if before is not None and certificate.epoch <= before.epoch:
        verify_certificate(identity.kgc, certificate)
        if certificate.epoch == before.epoch and certificate != before:
            raise ProtocolError("another epoch of the same number", kind="epoch")
        return EpochAccepted(epoch=before.epoch)
    fitting = [keys for keys in _held(identity) if _parameters(keys) == certificate.dtpkc]
    if not fitting or certificate.epoch != identity.epoch + 1:
        raise ProtocolError("an epoch certificate out of turn", kind="order")
    check_certificate(identity, fitting[0], certificate)
    check_succession(before, certificate)
    identity.keys, identity.certificate, identity.pending_keys = fitting[0], certificate, None
    return EpochAccepted(epoch=certificate.epoch)


def check_certificate(identity: Identity, keys: Keys | None, certificate: EpochCertificate) -> None:
    """Raise RejectedError unless KGC has signed it, and it names this party with these keys."""
    verify_certificate(identity.kgc, certificate)
    if (certificate.federation, certificate.dtpkc) != (identity.federation, _parameters(keys)):
        raise ProtocolError("an epoch certificate for other parameters", kind="epoch")
    members = certificate.by_name
    if members.get(identity.name) != identity.member(keys) or len(members) != len(certificate.members):
        raise ProtocolError(
            f"the epoch certificate does not name {identity.name!r} with its keys", kind="member"
        )


def _held(identity: Identity, *, pending: bool = True) -> list[Keys | None]:
    """Return the keys that a party has, the newest first. A party without keys is named without them."""
    held = [identity.pending_keys if pending else None, identity.keys]
    return [keys for keys in held if keys is not None] or [None]


def _parameters(keys: Keys | None) -> DtpkcParameters | None:
    return None if keys is None else keys.dtpkc


def answer_admission(identity: Identity, admission: Admission) -> Done:
    """Keep the admission if KGC has signed it, and it names this party with its own keys."""
    verify_admission(identity.kgc, admission)
    outsider = identity.role == REQUESTER
    epoch = identity.dealt_epoch if outsider else identity.epoch
    if (admission.federation, admission.epoch) != (identity.federation, epoch):
        raise ProtocolError("an admission out of turn, or of another federation", kind="order")
    held = _held(identity, pending=outsider)
    fitting = [keys for keys in held if admission.member == identity.member(keys)]
    if not fitting:
        raise ProtocolError(f"the admission does not name {identity.name!r} with its keys", kind="member")
    identity.keys, identity.admission = fitting[0], admission
    if outsider:
        identity.pending_keys = None
    return Done()


def verify_admission(kgc: VerifyKey, admission: Admission) -> None:
    """Return only if KGC has signed it; else raise SignatureError."""
    verify(kgc, _ADMISSION, admission)
