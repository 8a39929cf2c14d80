"""KGC, the key centre: deals the keys, certifies epochs, and keeps nothing that opens a ciphertext."""

from collections.abc import Mapping

from revfrf.certificate import RevocationCertificate
from revfrf.crypto.keys import Parameters
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.crypto.strong import SetUp
from revfrf.errors import ProtocolError, UsageError
from revfrf.messages.base import Done, Message
from revfrf.messages.enrolment import Admission, EpochCertificate, Receipt
from revfrf.messages.revocation import Certified, RevocationReport, RevocationRequest
from revfrf.messages.training import OpenForest
from revfrf.protocols.frf_revoc import check_revocation, next_epoch, verify_report
from revfrf.protocols.key_setup import CS, admit, key_setup
from revfrf.transport.base import Channel


class KeyCentre:
    """KGC. Its verify key is given to every party beforehand."""

    def __init__(self, channel: Channel, signing: SigningKey | None, n_jobs: int = 1) -> None:
        self.channel = channel
        self.signing = signing
        self.n_jobs = n_jobs
        self.certificates: list[EpochCertificate] = []
        self.admitted: dict[str, Admission] = {}
        self.forest: OpenForest | None = None
        self.leaving: dict[str, RevocationRequest] = {}
        self.nonces: set[bytes] = set()
        self._left: tuple[RevocationRequest, ...] = ()
        self._receipts: tuple[Receipt, ...] = ()

    @property
    def current(self) -> EpochCertificate:
        """The epoch that everybody is in."""
        return self.certificates[-1]

    def handle(self, sender: str, message: Message) -> Message:
        """Answer CS, and whoever leaves."""
        match message:
            case OpenForest():
                self._expect(sender, CS)
                self.open(message)
                return Done()
            case RevocationRequest():
                self._expect(sender, message.party)
                self._take(message)
                return Done()
            case RevocationReport():
                self._expect(sender, CS)
                return Certified(certificate=self._certify(message).to_json())
        raise ProtocolError(f"KGC has no answer to a {type(message).__name__}")

    def _expect(self, sender: str, allowed: str) -> None:
        if sender != allowed:
            raise ProtocolError(f"only {allowed!r} may send this, not {sender!r}", kind="sender")

    def enrol(self, federation: str, dealt: SetUp, roles: Mapping[str, str]) -> EpochCertificate:
        """Set up the first epoch of a federation with these parties (name to role)."""
        certificate = key_setup(self.channel, self._signing, federation, dealt, roles, self.n_jobs)
        self.certificates.append(certificate)
        return certificate

    def open(self, forest: OpenForest) -> None:
        """Take note of the forest that its members can leave."""
        if self.forest is not None or forest.federation != self.current.federation:
            raise ProtocolError("a second forest, or one of another federation", kind="forest")
        self.forest = forest

    def admit(self, parameters: Parameters, party: str) -> None:
        """Let a party ask for predictions in the current epoch. A name is admitted once an epoch."""
        if party in self.admitted:
            raise UsageError(f"{party!r} is a requester already")
        self.admitted[party] = admit(self.channel, self._signing, self.current, parameters, party)

    # -- leaving ------------------------------------------------------------------------------------

    def _take(self, request: RevocationRequest) -> None:
        """Keep a request to leave, if it is new and the leaver's own."""
        if self.forest is None:
            raise ProtocolError("there is no forest", kind="forest")
        if request.nonce in self.nonces:
            raise ProtocolError("a request to leave that was used before", kind="replay")
        check_revocation(self.current, self.forest.forest, request)
        self.nonces.add(request.nonce)
        self.leaving[request.party] = request

    def revoke(self, dealt: SetUp | None) -> EpochCertificate:
        """Begin the epoch without those who have asked to leave; with new keys, if there is a new set-up."""
        leaving = tuple(self.leaving[party] for party in sorted(self.leaving))
        if not leaving:
            raise UsageError("nobody has asked to leave")
        if (max(request.level for request in leaving) == 2) != (dealt is not None):
            raise UsageError("level 2 needs a new set-up, and level 1 none")
        names = [request.party for request in leaving]
        certificate, receipts = next_epoch(
            self.channel, self._signing, self.current, names, dealt, self.n_jobs
        )
        self.certificates.append(certificate)
        self.leaving, self.admitted = {}, {}
        self._left, self._receipts = leaving, receipts
        return certificate

    def _certify(self, message: RevocationReport) -> RevocationCertificate:
        """The certificate of the revocation that began this epoch, after CS's report."""
        report, current = message.report, self.current
        if not self._left or self.forest is None or report.forest != self.forest.forest:
            raise ProtocolError("a report of a revocation that has not begun", kind="order")
        if report.epoch != current.epoch:
            raise ProtocolError("a report of another epoch", kind="epoch")
        [cs] = [VerifyKey(member.verify_key) for member in current.members if member.role == CS]
        verify_report(cs, current.federation, report)
        before, left = self.certificates[-2], self._left
        certificate = RevocationCertificate.issue(
            self._signing, left, before, current, report, self._receipts
        )
        self._left, self._receipts = (), ()
        return certificate

    @property
    def _signing(self) -> SigningKey:
        if self.signing is None:
            raise UsageError(
                "this forest was saved without private keys: it answers no encrypted requests, and nobody "
                "can leave it; save it with private_keys=True"
            )
        return self.signing
