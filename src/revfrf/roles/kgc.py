"""KGC, the key centre: deals the keys, certifies epochs, and keeps nothing that opens a ciphertext."""

from collections.abc import Mapping

from revfrf.certificate import RevocationCertificate
from revfrf.crypto.keys import Parameters
from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import SetUp
from revfrf.errors import CertificateError, ProtocolError, UsageError
from revfrf.messages.base import Done, Message
from revfrf.messages.enrolment import Admission, EpochCertificate, Receipt
from revfrf.messages.revocation import Certified, RevocationReport, RevocationRequest
from revfrf.protocols.epoch import CS
from revfrf.protocols.frf_revoc import check_revocation, next_epoch
from revfrf.protocols.key_setup import admit, announce, key_setup
from revfrf.roles.party import Party
from revfrf.transport.base import Channel


class KeyCentre:
    """KGC. Its verify key is given to every party beforehand."""

    def __init__(self, channel: Channel, signing: SigningKey | None, n_jobs: int = 1) -> None:
        self.channel = channel
        self.signing = signing
        self.n_jobs = n_jobs
        self.certificates: list[EpochCertificate] = []
        self.admitted: dict[str, Admission] = {}
        self.requesters: dict[str, bytes] = {}
        self.leaving: dict[str, RevocationRequest] = {}
        self.nonces: set[bytes] = set()
        self.last_digest: str | None = None
        self._left: tuple[RevocationRequest, ...] = ()
        self._receipts: tuple[Receipt, ...] | None = None

    @property
    def current(self) -> EpochCertificate:
        """The epoch that everybody is in."""
        return self.certificates[-1]

    def handle(self, sender: str, message: Message) -> Message:
        """Answer CS, and whoever leaves."""
        match message:
            case RevocationRequest():
                Party.expect(sender, message.party)
                self._take(message)
                return Done()
            case RevocationReport():
                Party.expect(sender, CS)
                return Certified(certificate=self._certify(message).to_json())
        raise ProtocolError(f"KGC has no answer to a {type(message).__name__}")

    def enrol(self, federation: str, dealt: SetUp, roles: Mapping[str, str]) -> EpochCertificate:
        """Set up the first epoch of a federation with these parties (name to role)."""
        certificate = key_setup(self.channel, self._signing, federation, dealt, roles, self.n_jobs)
        self.certificates.append(certificate)
        return certificate

    def admit(self, parameters: Parameters, party: str) -> None:
        """Let a party ask for predictions in the current epoch. A name stays with who had it first."""
        if party in self.admitted:
            raise UsageError(f"{party!r} is a requester already")
        self._expect_no_change()
        admission = admit(self.channel, self._signing, self.current, parameters, party)
        key = admission.member.verify_key
        if self.requesters.setdefault(party, key) != key:
            raise ProtocolError(f"{party!r} is the name of another requester", kind="member")
        self.admitted[party] = admission

    # -- leaving ------------------------------------------------------------------------------------

    def _expect_no_change(self) -> None:
        if self.changing:
            raise ProtocolError("an epoch has begun, and its revocation has not ended", kind="order")

    @property
    def changing(self) -> bool:
        """Whether an epoch has begun whose revocation has no certificate yet."""
        return bool(self._left)

    def _take(self, request: RevocationRequest) -> None:
        """Keep a request to leave, if it is new and the leaver's own. No word of CS is needed for that."""
        self._expect_no_change()
        if request.nonce in self.nonces:
            raise ProtocolError("a request to leave that was used before", kind="replay")
        check_revocation(self.current, request)
        self.nonces.add(request.nonce)
        self.leaving[request.party] = request

    def revoke(self, dealt: SetUp | None) -> EpochCertificate:
        """Begin the epoch without those who have asked to leave; with new keys, if there is a new set-up.

        If not everybody could be told, telling them again (`announce`) is all that is left to do.
        """
        self._expect_no_change()
        leaving = tuple(self.leaving[party] for party in sorted(self.leaving))
        if not leaving:
            raise UsageError("nobody has asked to leave")
        if (max(request.level for request in leaving) == 2) != (dealt is not None):
            raise UsageError("level 2 needs a new set-up, and level 1 none")
        names = [request.party for request in leaving]
        certificate = next_epoch(self.channel, self._signing, self.current, names, dealt, self.n_jobs)
        self.certificates.append(certificate)
        self.leaving, self.admitted = {}, {}
        self._left, self._receipts = leaving, None
        self.announce()
        return certificate

    def announce(self) -> None:
        """Tell everybody of the epoch that has begun."""
        self._receipts = announce(self.channel, self.certificates[-2], self.current, self.n_jobs)

    def _certify(self, message: RevocationReport) -> RevocationCertificate:
        """The certificate of the revocation that began this epoch, after CS's report."""
        report = message.report
        if not self._left or self._receipts is None:
            raise ProtocolError("a report of a revocation that has not begun", kind="order")
        if self.last_digest not in (None, report.digest_before):
            raise ProtocolError("the forest was another when it was reported last", kind="forest")
        certificate = RevocationCertificate.issue(
            self._signing, self._left, self.certificates[-2], self.current, report, self._receipts
        )
        try:
            certificate.verify(self._signing.verify_key)
        except CertificateError as error:
            raise ProtocolError(f"a report that does not hold: {error}", kind="order") from None
        self._left, self._receipts, self.last_digest = (), None, report.digest_after
        return certificate

    @property
    def _signing(self) -> SigningKey:
        if self.signing is None:
            raise UsageError(
                "this forest was saved without private keys: it answers no encrypted requests, and nobody "
                "can leave it; save it with private_keys=True"
            )
        return self.signing
