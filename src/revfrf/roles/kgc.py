"""KGC, the key centre: deals the keys, certifies epochs, and keeps nothing that opens a ciphertext."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, Self

import msgspec

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.secret import Secret
from revfrf.crypto.signing import SigningKey
from revfrf.errors import CertificateError, ProtocolError, UsageError
from revfrf.lifecycle import KgcState, check_somebody_stays
from revfrf.messages.base import Done, Message
from revfrf.messages.frf_revoc import Certified, RevocationLevel, RevocationReport, RevocationRequest
from revfrf.messages.key_setup import Admission, EpochCertificate, Receipt
from revfrf.protocols.certificate import RevocationCertificate, check_revocation
from revfrf.protocols.common.epoch import sign_certificate, write_parameters
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import KnownKeys, admit, announce, deal, key_deal
from revfrf.record import Record
from revfrf.roles.party import Party
from revfrf.storage.memory import Store
from revfrf.transport.base import Channel


class KeyCentreRecord(Record, frozen=True):
    """What KGC remembers. `left` are the requests that began the current epoch, until KGC has certified the
    revocation. `receipts` are the members' signatures for what they erased. `deals` counts all deals.
    """

    certificates: tuple[EpochCertificate, ...] = ()
    deals: int = 0
    admitted: dict[str, Admission] = msgspec.field(default_factory=dict)
    requesters: dict[str, bytes] = msgspec.field(default_factory=dict)
    leaving: dict[str, RevocationRequest] = msgspec.field(default_factory=dict)
    nonces: frozenset[bytes] = frozenset()
    left: tuple[RevocationRequest, ...] = ()
    receipts: tuple[Receipt, ...] | None = None
    certified: RevocationCertificate | None = None


@dataclass(frozen=True)
class KeyCentreKeys(Secret):
    """KGC's own keys. With `signing` it certifies, with `notes` it signs notes about requests."""

    signing: SigningKey
    notes: SigningKey

    @classmethod
    def generate(cls) -> Self:
        """Fresh keys for a new federation."""
        return cls(SigningKey.generate(), SigningKey.generate())

    @classmethod
    def read(cls, store: Store) -> Self:
        """The keys of which `export` gave the facts in KGC's store."""
        return cls(*(SigningKey.from_bytes(store.expect(name, bytes)) for name in ("signing", "notes")))

    def export(self) -> dict[str, bytes]:
        """Return the secret bytes themselves, as facts for KGC's store and nothing else."""
        return {"signing": self.signing.export(), "notes": self.notes.export()}


class KeyCentre:
    """KGC. The verify key of its signing key is given to every party beforehand.

    It has no keys in a forest that was saved without private keys.
    """

    def __init__(self, channel: Channel, keys: KeyCentreKeys | None, store: Store | None = None) -> None:
        self.channel = channel
        self.keys = keys
        self.store = store or Store()
        self.state = KeyCentreRecord()
        self._changes = RLock()  # held for each change, and never while somebody is called

    def remember(self) -> None:
        """Write down the keys and the state. Everything else is written down when it happens."""
        self.store.write(**self._keys.export(), state=self.state)

    def recall(self) -> None:
        """Read what was written down, except the keys, with which KGC is made."""
        self.state = self.store.expect("state", KeyCentreRecord)

    def _update(self, **changes: Any) -> None:
        """Change the state and write it down, in one step."""
        with self._changes:
            state = msgspec.structs.replace(self.state, **changes)
            self.store.write(state=state)
            self.state = state

    def _next_deal(self) -> int:
        """Return the number of the next deal: higher than any before, even if a process was killed."""
        with self._changes:
            self._update(deals=self.state.deals + 1)
            return self.state.deals

    def lifecycle_state(self, setup_requested: bool = False) -> KgcState:
        """Return what is recorded of epochs and leavers."""
        state, level = self.state, self.leaving_level
        return KgcState(
            epoch=len(state.certificates),
            setup_requested=setup_requested,
            announced=state.receipts is not None,
            revocation_in_progress=bool(state.left),
            leaving=level is not None,
            new_keys=level == 2 and self.current.dtpkc is not None,
        )

    @property
    def leaving_level(self) -> RevocationLevel | None:
        """The highest level at which somebody asks to leave; None if nobody does."""
        return max((request.level for request in self.state.leaving.values()), default=None)

    @property
    def current(self) -> EpochCertificate:
        """The last epoch that has begun. Raises ProtocolError before the first."""
        if not self.state.certificates:
            raise ProtocolError("the federation is not set up yet", kind="epoch")
        return self.state.certificates[-1]

    def handle(self, sender: str, message: Message) -> Message:
        """Answer CS, and participants who leave."""
        match message:
            case RevocationRequest():
                Party.check_sender(sender, message.party)
                self._accept(message)
                return Done()
            case RevocationReport():
                return Certified(certificate=self._certify(message).to_json())
        raise ProtocolError(f"KGC has no answer to a {type(message).__name__}")

    def begin_first_epoch(
        self, federation: str, setup: SetUp | None, roles: Mapping[str, str], known: KnownKeys = dict
    ) -> EpochCertificate:
        """Begin the first epoch of a federation with these parties (name to role).

        Its protocol is the paper's if there is a set-up, else "shares". Nobody is in the epoch before it is
        announced.
        """
        dtpkc = None if setup is None else write_parameters(setup.parameters)
        message = key_deal(federation, 1, self._next_deal(), dtpkc)
        unsigned = EpochCertificate(
            federation=federation,
            epoch=1,
            forest_protocol="shares" if setup is None else "paper",
            notes_key=self._keys.notes.verify_key.raw,
            dtpkc=dtpkc,
            members=deal(self.channel, message, setup, roles, known),
            revoked=(),
            erases=False,
            previous=b"",
            signature=bytes(64),
        )
        certificate = sign_certificate(self._keys.signing, unsigned)
        self._update(certificates=(certificate,))
        return certificate

    def admit(self, party: str) -> None:
        """Let a party send requests in the current epoch. A name belongs to the first key that used it."""
        if party in self.state.admitted:
            raise UsageError(f"{party!r} is a requester already")
        self._expect_no_revocation()
        epoch, known = self.current, self.state.requesters.get(party)
        admission = admit(self.channel, self._keys.signing, epoch, self._next_deal(), party, known)
        with self._changes:
            if self.current != epoch:
                raise ProtocolError("a new epoch has begun", kind="epoch")
            requesters = self.state.requesters | {party: admission.member.verify_key}
            self._update(requesters=requesters, admitted=self.state.admitted | {party: admission})

    def forget_admission(self, party: str) -> None:
        """Forget an admission, because the requester has other keys than those it was admitted with."""
        self._update(admitted={name: a for name, a in self.state.admitted.items() if name != party})

    # -- leaving ------------------------------------------------------------------------------------

    def _expect_no_revocation(self) -> None:
        if self.state.left:
            raise ProtocolError("a revocation is in progress", kind="order")

    def _accept(self, request: RevocationRequest) -> None:
        """Record a request to leave, if it is new, the leaver's own, and leaves a participant in the forest.

        That needs neither CS nor the end of a revocation that is in progress.
        """
        with self._changes:
            if request.nonce in self.state.nonces:
                raise ProtocolError("a request to leave that was used before", kind="replay")
            check_revocation(self.current, request)
            try:
                check_somebody_stays(self.current.participants, {*self.state.leaving, request.party})
            except UsageError as error:
                raise ProtocolError(str(error), kind="member") from None
            known = self.state.leaving.get(request.party)
            if known is None or known.level < request.level:  # else it has asked before
                leaving = self.state.leaving | {request.party: request}
                self._update(nonces=self.state.nonces | {request.nonce}, leaving=leaving)

    def cancel_revocations(self, parties: Collection[str]) -> None:
        """Drop requests to leave that were not carried out."""
        with self._changes:
            leaving = {name: request for name, request in self.state.leaving.items() if name not in parties}
            self._update(leaving=leaving)

    def begin_epoch(self, setup: SetUp | None) -> EpochCertificate:
        """Begin the epoch without those who have asked to leave, with new keys if there is a new set-up."""
        self._expect_no_revocation()
        leaving = tuple(request for _, request in sorted(self.state.leaving.items()))
        level = self.leaving_level
        if level is None:
            raise UsageError("nobody has asked to leave")
        if self.lifecycle_state().new_keys != (setup is not None):
            what = "a revocation at level 2 needs a new set-up, and one at level 1 none"
            raise UsageError(f"{what}; under the shares protocol neither does")
        names = [request.party for request in leaving]
        signing, number = self._keys.signing, self._next_deal()
        after = next_epoch(self.channel, self.current, names, level, setup, number)
        certificate = sign_certificate(signing, after)
        certificates = (*self.state.certificates, certificate)
        with self._changes:
            if set(self.state.leaving.values()) != set(leaving):
                raise ProtocolError("somebody else has asked to leave; begin again", kind="order")
            self._update(certificates=certificates, leaving={}, admitted={}, left=leaving, receipts=None)
        return certificate

    def announce(self) -> None:
        """Send the epoch certificate to all members, and record their receipts. May be repeated."""
        before = self.state.certificates[-2] if len(self.state.certificates) > 1 else None
        self._update(receipts=announce(self.channel, before, self.current))

    def _certify(self, message: RevocationReport) -> RevocationCertificate:
        """Certify the revocation that began this epoch. The same report gets the same certificate."""
        report, state = message.report, self.state
        if state.certified is not None and state.certified.report == report:
            return state.certified
        if not state.left or state.receipts is None:
            raise ProtocolError("a report, but no revocation is in progress", kind="order")
        if state.certified is not None and state.certified.report.digest_after != report.digest_before:
            raise ProtocolError("the forest has changed since the last report", kind="forest")
        before = state.certificates[-2]
        certificate = RevocationCertificate.issue(
            self._keys.signing, state.left, before, self.current, report, state.receipts
        )
        try:
            certificate.verify(self._keys.signing.verify_key)
        except CertificateError as error:
            raise ProtocolError(f"an invalid report: {error}", kind="order") from None
        self._update(left=(), certified=certificate)
        return certificate

    @property
    def _keys(self) -> KeyCentreKeys:
        if self.keys is None:
            raise UsageError(
                "this forest was saved without private keys: it cannot answer encrypted requests, and nobody "
                "can leave it; save it with private_keys=True"
            )
        return self.keys
