"""KGC, the key centre: deals the keys, certifies epochs, and keeps nothing that opens a ciphertext."""

from collections.abc import Mapping

from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import SetUp
from revfrf.errors import UsageError
from revfrf.messages import EpochCertificate
from revfrf.protocols.key_setup import key_setup
from revfrf.transport.base import Channel


class KeyCentre:
    """KGC. Its verify key is given to every party beforehand."""

    def __init__(self, channel: Channel, signing: SigningKey | None, n_jobs: int = 1) -> None:
        self.channel = channel
        self.signing = signing
        self.n_jobs = n_jobs
        self.certificates: list[EpochCertificate] = []

    def enrol(self, federation: str, dealt: SetUp, roles: Mapping[str, str]) -> EpochCertificate:
        """Set up the first epoch of a federation with these parties (name to role)."""
        if self.signing is None:
            raise UsageError("this key centre has no private key: the forest was saved without")
        certificate = key_setup(self.channel, self.signing, federation, dealt, roles, self.n_jobs)
        self.certificates.append(certificate)
        return certificate
