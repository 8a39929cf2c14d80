"""KGC and five parties, what KGC deals to them and certifies, and how it could lie."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.signing import SigningKey
from revfrf.messages.base import Done, Message, number
from revfrf.messages.key_setup import EpochAccepted, EpochCertificate, KeyDeal, Member, Receipt
from revfrf.names import CC, CS, KGC, PARTICIPANT
from revfrf.protocols.common.epoch import sign_certificate
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import announce
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

    def enrol(self) -> EpochCertificate:
        certificate = self.kgc.begin_first_epoch("federation", toy_keys(), ROLES)
        self.kgc.announce()
        return certificate

    def send(self, party: str, message: Message, sender: str = KGC) -> Done:
        return self.network.channel(sender).call(party, message, Done)

    def leave(
        self, *leavers: str, setup: SetUp | None = None
    ) -> tuple[EpochCertificate, tuple[Receipt, ...]]:
        """The epoch without these, with new keys if there is a new set-up."""
        current = self.identities[CS].certificate
        assert current is not None
        channel = self.network.channel(KGC)
        unsigned = next_epoch(channel, current, leavers, setup, next(DEALS))
        after = sign_certificate(self.signing, unsigned)
        return after, announce(channel, current, after)


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


def dealt_to(role: str, **changes: Any) -> KeyDeal:
    p = toy_keys().parameters
    shares = {CS: toy_keys().cs_share, CC: toy_keys().cc_share}
    share = number(shares[role].value.reveal()) if role in shares else None
    message = KeyDeal(
        federation="federation",
        epoch=1,
        number=next(DEALS),
        n=number(p.n),
        g0=number(p.g0),
        exponent_bits=p.exponent_bits,
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
