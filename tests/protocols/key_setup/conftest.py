"""Parties before anything is dealt."""

import pytest

from revfrf.crypto.signing import SigningKey
from revfrf.names import KGC
from revfrf.protocols.common.identity import Identity
from revfrf.roles.compute import ComputePartner
from revfrf.roles.kgc import KeyCentre, KeyCentreKeys
from revfrf.transport.memory import MemoryNetwork
from tests.protocols.key_setup.parties import ROLES, Parties


@pytest.fixture
def parties() -> Parties:
    network, keys = MemoryNetwork(), KeyCentreKeys.generate()
    kgc = KeyCentre(network.channel(KGC), keys)
    identities = {
        name: Identity(name, role, keys.signing.verify_key, SigningKey.generate(), allow_insecure=True)
        for name, role in ROLES.items()
    }
    for name, identity in identities.items():
        network.connect(name, identity.role, ComputePartner(identity))
    return Parties(network, kgc, keys.signing, identities)
