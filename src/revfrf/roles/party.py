"""What every party but KGC has: an identity, and its part in the key set-up."""

from threading import Lock

from revfrf.errors import ProtocolError
from revfrf.messages.base import Message
from revfrf.messages.events import Countersigned, Event, EventNotice
from revfrf.messages.fle_expan import OpenForest
from revfrf.messages.key_setup import Admission, EpochCertificate, KeyDeal
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.opening import forest_id
from revfrf.protocols.common.request import RequestPolicy
from revfrf.protocols.events import answer_notice
from revfrf.protocols.key_setup import answer_admission, answer_certificate, answer_deal
from revfrf.storage.memory import RequestBook, Store


class Party:
    """A party that KGC can enrol."""

    def __init__(self, identity: Identity, n_jobs: int = 1, store: Store | None = None) -> None:
        self.identity = identity
        self.n_jobs = n_jobs
        self.store = store or Store()
        self._began = identity.epoch
        self._changes = Lock()  # calls are answered side by side, and the identity changes step by step

    def remember(self) -> None:
        """Write down the identity. Everything else is written down when it happens."""
        self.store.write(identity=self.identity)

    def recall(self) -> None:
        """Read what was written down, except the identity, with which a party is made."""

    def handle(self, sender: str, message: Message) -> Message:  # noqa: ARG002
        """Answer a message of the key set-up; subclasses answer more."""
        with self._changes:
            match message:
                case KeyDeal():
                    enrolment = answer_deal(self.identity, message)
                    self.store.write(identity=self.identity)
                    return enrolment
                case EpochCertificate():
                    accepted = answer_certificate(self.identity, message)
                    with self.store.transaction():
                        self.store.write(identity=self.identity)
                        if self._began != accepted.epoch:  # else it was told again, or late
                            self.epoch_began()
                    self._began = accepted.epoch
                    self.store.scrub()  # of the old keys, before a receipt is given
                    return accepted
                case EventNotice():
                    return self._countersign(message)
                case Admission():
                    done = answer_admission(self.identity, message)
                    self.store.write(identity=self.identity)
                    self.store.scrub()
                    return done
        raise ProtocolError(f"{self.identity.role} has no answer to a {type(message).__name__}")

    def _countersign(self, message: EventNotice) -> Countersigned:
        """Sign what an event requires of this member, and keep the event if it is the newest."""
        receipts, known = answer_notice(self.identity, message), self.store.read("event", Event)
        if known is None or known.epoch_after.epoch <= message.event.epoch_after.epoch:
            self.store.write(event=message.event)
        return Countersigned(receipts=receipts, salt=None)

    def epoch_began(self) -> None:
        """Do what a new epoch requires, besides new keys."""

    @staticmethod
    def check_sender(sender: str, named: str) -> None:
        """Refuse a message that names another party as its sender."""
        if sender != named:
            raise ProtocolError(f"{sender!r} sent a message in the name of {named!r}", kind="sender")

    @property
    def certificate(self) -> EpochCertificate:
        """The current epoch. Raises ProtocolError before there is one."""
        if self.identity.certificate is None:
            raise ProtocolError(f"{self.identity.name!r} is not in an epoch yet", kind="epoch")
        return self.identity.certificate

    def check_forest(self, opening: OpenForest) -> None:
        """Refuse a forest of another federation or epoch, or under a name that is not its own."""
        self.check_epoch(opening.epoch)
        if opening.federation != self.certificate.federation:
            raise ProtocolError("a forest of another federation", kind="forest")
        if opening.forest != forest_id(opening):
            raise ProtocolError("a forest under the name of another", kind="forest")

    def check_epoch(self, epoch: int) -> None:
        """Refuse messages of any epoch but the current one."""
        current = self.certificate.epoch
        if epoch != current:
            whose = "this party's" if epoch > current else "the sender's"
            raise ProtocolError(
                f"epoch {epoch} is not the current one, {current}; if this persists, {whose} directory is an "
                "old copy: restore the latest one",
                kind="epoch",
            )


class PolicyParty(Party):
    """A party that has a say in requests: its policy, and its book of those it has seen in this epoch."""

    _policy = RequestPolicy()

    def recall(self) -> None:
        """See `Party.recall`. Reads the policy."""
        self._policy = self.store.read("policy", RequestPolicy) or RequestPolicy()

    @property
    def policy(self) -> RequestPolicy:
        """Whose requests this party answers."""
        return self._policy

    @policy.setter
    def policy(self, policy: RequestPolicy) -> None:
        self.store.write(policy=policy)
        self._policy = policy

    @property
    def book(self) -> RequestBook:
        """The requests that this party has seen in this epoch."""
        return self.store.book

    def epoch_began(self) -> None:
        """Forget the requests of the last epoch: new ones carry the new epoch, and quotas start again."""
        self.book.clear()
