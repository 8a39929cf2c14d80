"""KGC, the key centre: deals the keys, certifies epochs, and keeps nothing that opens a ciphertext."""

from collections.abc import Mapping

from revfrf.crypto.keys import Parameters
from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import SetUp
from revfrf.errors import UsageError
from revfrf.messages.enrolment import Admission, EpochCertificate
from revfrf.protocols.key_setup import admit, key_setup
from revfrf.transport.base import Channel


class KeyCentre:
    """KGC. Its verify key is given to every party beforehand."""

    def __init__(self, channel: Channel, signing: SigningKey | None, n_jobs: int = 1) -> None:
        self.channel = channel
        self.signing = signing
        self.n_jobs = n_jobs
        self.certificates: list[EpochCertificate] = []
        self.admitted: dict[str, Admission] = {}

    def enrol(self, federation: str, dealt: SetUp, roles: Mapping[str, str]) -> EpochCertificate:
        """Set up the first epoch of a federation with these parties (name to role)."""
        certificate = key_setup(self.channel, self._signing, federation, dealt, roles, self.n_jobs)
        self.certificates.append(certificate)
        return certificate

    def admit(self, parameters: Parameters, party: str) -> None:
        """Let a party ask for predictions in the current epoch. A name is admitted once."""
        if party in self.admitted:
            raise UsageError(f"{party!r} is a requester already")
        current = self.certificates[-1]
        self.admitted[party] = admit(self.channel, self._signing, current, parameters, party)

    @property
    def _signing(self) -> SigningKey:
        if self.signing is None:
            raise UsageError(
                "this forest was saved without private keys, and answers no encrypted requests; "
                "save it with private_keys=True"
            )
        return self.signing
