"""KGC and five parties, what KGC deals to them and certifies, and how it could lie."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import msgspec

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.signing import SigningKey
from revfrf.messages.base import Done, Message, number
from revfrf.messages.frf_revoc import RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import (
    DtpkcParameters,
    EpochAccepted,
    EpochCertificate,
    KeyDeal,
    Member,
)
from revfrf.names import CC, CS, KGC, PARTICIPANT, Protocol
from revfrf.protocols.certificate import sign_revocation
from revfrf.protocols.common.epoch import sign_certificate, write_parameters
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import inform
from revfrf.roles.kgc import KeyCentre
from revfrf.testing.federations import toy_keys
from revfrf.testing.peers import LyingChannel
from revfrf.transport.memory import MemoryNetwork
from tests.conftest import world_of

DEALS = count(1000)
"""Numbers of deals, higher than those that KGC makes by itself."""

ROLES = {CS: CS, CC: CC, "bank": PARTICIPANT, "shop": PARTICIPANT, "telco": PARTICIPANT}


@dataclass
class Parties:
    """KGC and five parties, before anything is dealt."""

    network: MemoryNetwork
    kgc: KeyCentre
    signing: SigningKey
    identities: dict[str, Identity]

    def enrol(self, protocol: Protocol = "paper") -> EpochCertificate:
        setup = toy_keys() if protocol == "paper" else None
        certificate = self.kgc.begin_first_epoch("federation", setup, ROLES)
        self.kgc.announce(setup_requested=True)
        return certificate

    def send(self, party: str, message: Message, sender: str = KGC) -> Done:
        return self.network.channel(sender).call(party, message, Done)

    def requests(self, *leavers: str, level: RevocationLevel) -> list[RevocationRequest]:
        """What these have signed, to leave in the epoch that they are in."""
        return [sign_revocation(self.identities[name], bytes(16), level) for name in leavers]

    def leave(
        self, *leavers: str, setup: SetUp | None = None, level: RevocationLevel | None = None
    ) -> EpochCertificate:
        """The epoch without these, at level 2 and with new keys if there is a new set-up. All enter it."""
        current = self.identities[CS].certificate
        assert current is not None
        channel, level = self.network.channel(KGC), level or level_of(setup)
        unsigned = next_epoch(channel, current, self.requests(*leavers, level=level), setup, next(DEALS))
        after = sign_certificate(self.signing, unsigned)
        for member in after.members:
            inform(channel, [after], member.name)
        return after


def following(parties: Parties, before: EpochCertificate, leaver: str) -> EpochCertificate:
    """The epoch without this participant, at level 1, which nobody has entered yet."""
    identity = replace(parties.identities[leaver], certificate=before)
    request = sign_revocation(identity, bytes(16), 1)
    unsigned = next_epoch(parties.network.channel(KGC), before, [request], None, next(DEALS))
    return sign_certificate(parties.signing, unsigned)


def level_of(setup: SetUp | None) -> RevocationLevel:
    """The level of an epoch of the paper protocol that begins with this set-up."""
    return 1 if setup is None else 2


def fresh_setup() -> SetUp:
    """Another modulus than the first epoch's."""
    return world_of(256)


def shares_of(parties: Parties) -> dict[str, int]:
    """Who has a strong share, and which."""
    held = {name: identity.keys for name, identity in parties.identities.items()}
    return {name: k.share.value.reveal() for name, k in held.items() if k is not None and k.share is not None}


def untouched(identity: Identity) -> bool:
    return (identity.keys, identity.pending_keys, identity.certificate) == (None, None, None)


# -- what KGC sends ---------------------------------------------------------------------------------


def dtpkc_of(message: EpochCertificate | KeyDeal) -> DtpkcParameters:
    assert message.dtpkc is not None
    return message.dtpkc


def other_dtpkc(message: EpochCertificate | KeyDeal, **changes: Any) -> dict[str, Any]:
    """What is changed about a message with these changes of its parameters."""
    return {"dtpkc": msgspec.structs.replace(dtpkc_of(message), **changes)}


def dealt_to(role: str, **changes: Any) -> KeyDeal:
    shares = {CS: toy_keys().cs_share, CC: toy_keys().cc_share}
    share = number(shares[role].value.reveal()) if role in shares else None
    message = KeyDeal(
        federation="federation",
        epoch=1,
        number=next(DEALS),
        dtpkc=write_parameters(toy_keys().parameters),
        share=share,
    )
    return msgspec.structs.replace(message, **changes)


def accepted(parties: Parties, party: str, certificate: EpochCertificate) -> EpochAccepted:
    return parties.network.channel(KGC).call(party, certificate, EpochAccepted)


def signed_again(kgc: SigningKey, certificate: EpochCertificate, **changes: Any) -> EpochCertificate:
    """Changed, and signed by KGC itself."""
    return sign_certificate(kgc, msgspec.structs.replace(certificate, **changes))


def with_bank(certificate: EpochCertificate, **changes: Any) -> tuple[Member, ...]:
    return tuple(
        msgspec.structs.replace(member, **changes) if member.name == "bank" else member
        for member in certificate.members
    )


def forging(network: MemoryNetwork, forge: Callable[[EpochCertificate], EpochCertificate]) -> LyingChannel:
    """KGC's channel, on which certificates for "bank" are not what KGC made."""

    def lie(recipient: str, request: Message) -> Message:
        return forge(request) if recipient == "bank" and isinstance(request, EpochCertificate) else request

    return LyingChannel(network.channel(KGC), on_request=lie)
