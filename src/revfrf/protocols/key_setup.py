"""Key set-up: KGC deals, every party makes its own keys, KGC certifies who belongs to the federation.

KGC never sees a secret but the strong shares, which it deals and forgets. Every party checks the
certificate: it is signed by the KGC whose key the party was given beforehand, and names the party with the
keys it has made.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from revfrf.crypto.canonical import Field
from revfrf.crypto.keys import Parameters, PublicKey, WeakKey
from revfrf.crypto.parallel import in_threads
from revfrf.crypto.possession import PossessionProof, prove_possession, verify_possession
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.crypto.strong import Server, SetUp, StrongShare
from revfrf.errors import ProtocolError, UsageError
from revfrf.messages.base import Done, number, of_number
from revfrf.messages.enrolment import Admission, Dealt, Enrolment, EpochCertificate, Member
from revfrf.transport.base import Channel

KGC, CS, CC, PARTICIPANT, REQUESTER = "KGC", "CS", "CC", "participant", "requester"
SERVERS: dict[str, Server] = {CS: "CS", CC: "CC"}

_CERTIFICATE = "revfrf epoch certificate v1"
_ADMISSION = "revfrf admission v1"


# -- KGC --------------------------------------------------------------------------------------------


def key_setup(
    channel: Channel, kgc: SigningKey, federation: str, dealt: SetUp, roles: Mapping[str, str], n_jobs: int
) -> EpochCertificate:
    """Deal to every party of `roles` (name to role), enrol it, and certify the first epoch."""
    p = dealt.parameters
    shares = {CS: dealt.cs_share, CC: dealt.cc_share}

    def enrol(party: str) -> Member:
        return _enrol(channel, federation, p, party, roles[party], shares.get(roles[party]))

    threads = p.jobs(n_jobs)
    members = tuple(in_threads(enrol, sorted(roles), threads))
    certificate = _certify(kgc, federation, 1, p, members, b"")
    in_threads(lambda party: channel.call(party, certificate, Done), sorted(roles), threads)
    return certificate


def admit(
    channel: Channel, kgc: SigningKey, certificate: EpochCertificate, parameters: Parameters, party: str
) -> Admission:
    """Let a party ask for predictions in this epoch: a participant with its keys, anybody else with new ones.

    Raises UsageError for a name that is taken or revoked.
    """
    members = {member.name: member for member in certificate.members}
    if party in certificate.revoked or party in (KGC, CS, CC):
        raise UsageError(f"{party!r} cannot be a requester: the name is revoked, or a server's")
    member = members.get(party) or _enrol(channel, certificate.federation, parameters, party, REQUESTER, None)
    fields = (certificate.federation, certificate.epoch, _member_fields(member))
    admission = Admission(
        federation=certificate.federation,
        epoch=certificate.epoch,
        member=member,
        signature=kgc.sign(_ADMISSION, *fields),
    )
    channel.call(party, admission, Done)
    return admission


def _enrol(
    channel: Channel,
    federation: str,
    parameters: Parameters,
    party: str,
    role: str,
    share: StrongShare | None,
) -> Member:
    """Deal to a party, and take its keys. Refuses whoever is another, or does not hold the key it shows."""
    dealt = Dealt(
        federation=federation,
        n=number(parameters.n),
        g0=number(parameters.g0),
        exponent_bits=parameters.exponent_bits,
        share=None if share is None else number(share.value.reveal()),
    )
    enrolment = channel.call(party, dealt, Enrolment)
    if (enrolment.name, enrolment.role) != (party, role):
        raise ProtocolError(f"{party!r} enrols as {enrolment.role} {enrolment.name!r}", kind="member")
    public = PublicKey(parameters, of_number(enrolment.h))
    proof = PossessionProof(of_number(enrolment.challenge), of_number(enrolment.response))
    verify_possession(public, party, proof)
    VerifyKey(enrolment.verify_key)
    return Member(party, role, enrolment.h, enrolment.verify_key)


def _certify(
    kgc: SigningKey,
    federation: str,
    epoch: int,
    parameters: Parameters,
    members: tuple[Member, ...],
    previous: bytes,
) -> EpochCertificate:
    make = partial(
        EpochCertificate,
        federation=federation,
        epoch=epoch,
        n=number(parameters.n),
        g0=number(parameters.g0),
        exponent_bits=parameters.exponent_bits,
        members=members,
        revoked=(),
        previous=previous,
    )
    return make(signature=kgc.sign(_CERTIFICATE, *certificate_fields(make(signature=bytes(64)))))


# -- every party ------------------------------------------------------------------------------------


@dataclass
class Identity(Secret):
    """What a party knows of itself and of its federation. `kgc` it was given beforehand."""

    name: str
    role: str
    kgc: VerifyKey
    signing: SigningKey | None
    allow_insecure: bool = False
    federation: str = ""
    weak: WeakKey | None = None
    share: StrongShare | None = None
    certificate: EpochCertificate | None = None
    admission: Admission | None = None

    @property
    def signing_key(self) -> SigningKey:
        """The key to sign with. Raises ProtocolError if it was not saved with the forest."""
        if self.signing is None:
            raise ProtocolError(f"{self.name!r} has no private keys here", kind="member")
        return self.signing


def answer_deal(identity: Identity, message: Dealt) -> Enrolment:
    """Make a weak key under the parameters dealt, and prove that it is one's own."""
    if identity.weak is not None:
        raise ProtocolError("keys are dealt once an epoch", kind="order")
    n, g0 = of_number(message.n), of_number(message.g0)
    try:
        parameters = Parameters(n, g0, message.exponent_bits, identity.allow_insecure)
    except UsageError as error:
        raise ProtocolError(f"parameters that this party does not take: {error}", kind="member") from None
    server, share = SERVERS.get(identity.role), None
    if (message.share is None) != (server is None):
        raise ProtocolError("strong shares are for CS and CC", kind="member")
    if message.share is not None and server is not None:
        try:
            share = StrongShare(parameters, server, SecretInt(of_number(message.share)))
        except UsageError:
            raise ProtocolError("no strong share of these parameters", kind="member") from None
    weak = WeakKey.generate(parameters)
    proof = prove_possession(weak, identity.name)
    identity.federation, identity.share, identity.weak = message.federation, share, weak
    return Enrolment(
        name=identity.name,
        role=identity.role,
        h=number(weak.public.h),
        challenge=number(proof.challenge),
        response=number(proof.response),
        verify_key=identity.signing_key.verify_key.raw,
    )


def answer_certificate(identity: Identity, certificate: EpochCertificate) -> Done:
    """Accept the epoch if KGC has signed it, and it names this party with its own keys."""
    verify_certificate(identity.kgc, certificate)
    if identity.weak is None or identity.certificate is not None:
        raise ProtocolError("an epoch certificate out of turn", kind="order")
    p = identity.weak.parameters
    dealt = (identity.federation, p.n, p.g0, p.exponent_bits)
    c = certificate
    if (c.federation, of_number(c.n), of_number(c.g0), c.exponent_bits) != dealt or c.epoch != 1 or c.revoked:
        raise ProtocolError("an epoch certificate for other parameters", kind="epoch")
    mine = _own_member(identity, identity.weak)
    names = [member.name for member in certificate.members]
    if mine not in certificate.members or len(set(names)) != len(names):
        raise ProtocolError(f"the epoch certificate does not name {identity.name!r} rightly", kind="member")
    identity.certificate = certificate
    return Done()


def answer_admission(identity: Identity, admission: Admission) -> Done:
    """Keep the admission if KGC has signed it, and it names this party with its own keys."""
    verify_admission(identity.kgc, admission)
    if identity.weak is None or admission.federation != identity.federation:
        raise ProtocolError("an admission out of turn, or of another federation", kind="order")
    if admission.member != _own_member(identity, identity.weak):
        raise ProtocolError(f"the admission does not name {identity.name!r} rightly", kind="member")
    identity.admission = admission
    return Done()


def verify_admission(kgc: VerifyKey, admission: Admission) -> None:
    """Return only if KGC has signed it; else raise SignatureError."""
    fields = (admission.federation, admission.epoch, _member_fields(admission.member))
    kgc.verify(admission.signature, _ADMISSION, *fields)


def verify_certificate(kgc: VerifyKey, certificate: EpochCertificate) -> None:
    """Return only if KGC has signed it; else raise SignatureError."""
    kgc.verify(certificate.signature, _CERTIFICATE, *certificate_fields(certificate))


def certificate_fields(certificate: EpochCertificate) -> tuple[Field, ...]:
    """What KGC signs: everything but the signature."""
    c = certificate
    members = tuple(map(_member_fields, c.members))
    return (c.federation, c.epoch, c.n, c.g0, c.exponent_bits, members, c.revoked, c.previous)


def _member_fields(member: Member) -> tuple[Field, ...]:
    return (member.name, member.role, member.h, member.verify_key)


def _own_member(identity: Identity, weak: WeakKey) -> Member:
    return Member(identity.name, identity.role, number(weak.public.h), identity.signing_key.verify_key.raw)
