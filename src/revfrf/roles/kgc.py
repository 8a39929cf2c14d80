"""KGC, the key centre: deals keys, certifies epochs and events, and keeps nothing that opens a ciphertext."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, Self

import msgspec

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.secret import Secret
from revfrf.crypto.signing import SigningKey
from revfrf.errors import AbsentError, CertificateError, ProtocolError, RefusedError, UsageError
from revfrf.lifecycle import KgcState, check_somebody_stays
from revfrf.messages.base import Done, Message
from revfrf.messages.events import Certified, Event, EventReport, Report
from revfrf.messages.frf_revoc import RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import Admission, EpochCertificate
from revfrf.names import CS
from revfrf.parallel import side_by_side
from revfrf.protocols.certificate import certify
from revfrf.protocols.common.epoch import check_revocation, sign_certificate, write_parameters
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import KnownKeys, admit, deal, inform, key_deal
from revfrf.record import Record
from revfrf.roles.party import Party
from revfrf.storage.memory import Store
from revfrf.transport.base import Channel, blaming


class KeyCentreRecord(Record, frozen=True):
    """What KGC remembers. `uncertified`: the leaving that began the current epoch has no event certificate
    yet. `asked_at` is when the last request for it came. `informed` has the last epoch that each member is
    known to be in, `certified` the last event. `deals` counts all deals.
    """

    certificates: tuple[EpochCertificate, ...] = ()
    deals: int = 0
    admitted: dict[str, Admission] = msgspec.field(default_factory=dict)
    requesters: dict[str, bytes] = msgspec.field(default_factory=dict)
    leaving: dict[str, RevocationRequest] = msgspec.field(default_factory=dict)
    nonces: frozenset[bytes] = frozenset()
    arrived: dict[str, int] = msgspec.field(default_factory=dict)
    uncertified: bool = False
    asked_at: int = 0
    informed: dict[str, int] = msgspec.field(default_factory=dict)
    certified: Event | None = None


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

    def lifecycle_state(
        self, setup_requested: bool = False, present: Collection[str] | None = None
    ) -> KgcState:
        """Return what is recorded of epochs and leavers. `present` are those who can be told; None is all."""
        state, level, behind = self.state, self.leaving_level, self.behind
        return KgcState(
            epoch=len(state.certificates),
            setup_requested=setup_requested,
            announced=not behind & self._needed(setup_requested),
            revocation_in_progress=state.uncertified,
            leaving=level is not None,
            new_keys=level == 2 and self.current.dtpkc is not None,
            lagging=bool(behind if present is None else behind & set(present)),
        )

    @property
    def behind(self) -> set[str]:
        """The members that are not known to be in the current epoch."""
        if not self.state.certificates:
            return set()
        informed, current = self.state.informed, self.current
        return {member.name for member in current.members if informed.get(member.name, 0) < current.epoch}

    def _needed(self, setup_requested: bool) -> set[str]:
        """Return who must be in the current epoch before anything else happens.

        These are all members, if CS asks for them, or if all take part in rebuilding, as the paper protocol
        has it. Else CS alone: it rebuilds the forest, and the others hear of it when they are back.
        """
        if not self.state.certificates:
            return set()
        everybody = setup_requested or self.current.dtpkc is not None
        return {member.name for member in self.current.members} if everybody else {CS}

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
            case EventReport():
                return Certified(event=self._certify(message.report))
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
            requests=(),
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
        if self.state.uncertified:
            raise ProtocolError("a revocation is in progress", kind="order")

    def _accept(self, request: RevocationRequest) -> None:
        """Record a request to leave, if it is new, the leaver's own, and leaves a participant in the forest.

        That needs neither CS nor the end of a revocation that is in progress.
        """
        with self._changes:
            if request.nonce in self.state.nonces:
                raise ProtocolError("a request to leave that was used before", kind="replay")
            check_revocation(self.current, request)
            certified = self.state.certified
            if certified is not None and request.forest != certified.report.forest:
                raise ProtocolError("a request to leave another forest", kind="forest")
            try:
                check_somebody_stays(self.current.participants, {*self.state.leaving, request.party})
            except UsageError as error:
                raise ProtocolError(str(error), kind="member") from None
            known = self.state.leaving.get(request.party)
            if known is None or known.level < request.level:  # else it has asked before
                leaving = self.state.leaving | {request.party: request}
                arrived = self.state.arrived | {request.party: int(time.time())}
                self._update(nonces=self.state.nonces | {request.nonce}, leaving=leaving, arrived=arrived)

    def cancel_revocations(self, parties: Collection[str]) -> None:
        """Drop requests to leave that were not carried out."""
        with self._changes:
            leaving = {name: request for name, request in self.state.leaving.items() if name not in parties}
            arrived = {name: time for name, time in self.state.arrived.items() if name not in parties}
            self._update(leaving=leaving, arrived=arrived)

    def begin_epoch(self, setup: SetUp | None) -> EpochCertificate:
        """Begin the epoch without those who have asked to leave, with new keys if there is a new set-up."""
        self._expect_no_revocation()
        leaving = tuple(request for _, request in sorted(self.state.leaving.items()))
        if not leaving:
            raise UsageError("nobody has asked to leave")
        if self.lifecycle_state().new_keys != (setup is not None):
            what = "a revocation at level 2 needs a new set-up, and one at level 1 none"
            raise UsageError(f"{what}; under the shares protocol neither does")
        signing, number = self._keys.signing, self._next_deal()
        after = next_epoch(self.channel, self.current, leaving, setup, number)
        certificate = sign_certificate(signing, after)
        certificates = (*self.state.certificates, certificate)
        with self._changes:
            if set(self.state.leaving.values()) != set(leaving):
                raise ProtocolError("somebody else has asked to leave; begin again", kind="order")
            asked_at = max(self.state.arrived[request.party] for request in leaving)
            changes = {"leaving": {}, "arrived": {}, "admitted": {}, "asked_at": asked_at}
            self._update(certificates=certificates, uncertified=True, **changes)
        return certificate

    def announce(self, setup_requested: bool = False) -> None:
        """Send the epoch certificates to all members that lack them, CS first. May be repeated.

        Raises AbsentError or RefusedError for a member that is needed now. Others hear of it later.
        """
        needed = self._needed(setup_requested)

        def tell(member: str) -> int | AbsentError | RefusedError:
            reached = self.state.informed.get(member, 0)
            missed = [epoch for epoch in self.state.certificates if epoch.epoch > reached]
            try:
                with blaming(member):
                    return inform(self.channel, missed, member)
            except (AbsentError, RefusedError) as error:
                return error

        behind = sorted(self.behind, key=lambda member: (member != CS, member))
        first = 1 if CS in behind else 0  # CS stops answering before anybody else knows
        told = [*map(tell, behind[:first]), *side_by_side(tell, behind[first:])]
        found = dict(zip(behind, told, strict=True))
        with self._changes:
            reached = {member: epoch for member, epoch in found.items() if isinstance(epoch, int)}
            self._update(informed=self.state.informed | reached)
        for member, outcome in found.items():
            if member in needed and isinstance(outcome, AbsentError | RefusedError):
                raise outcome

    def _certify(self, report: Report) -> Event:
        """Certify the creation of the forest, or that those who left have gone. The same report gets the same
        event.
        """
        state, last = self.state, self.state.certified
        if last is not None and last.report == report:
            return last
        if last is not None and not state.uncertified:
            raise ProtocolError("a report, but nothing has happened since the last one", kind="order")
        known = None if last is None else last.report.inputs_after
        if report.inputs_before != known or (last is not None and report.forest != last.report.forest):
            raise ProtocolError("the report begins with other inputs than were certified", kind="forest")
        if (
            last is not None
            and not last.report.waits_for
            and report.digest_before != last.report.digest_after
        ):
            raise ProtocolError("the forest has changed since the last report", kind="forest")
        before, asked_at = (state.certificates[-2], state.asked_at) if state.uncertified else (None, None)
        signing = self._keys.signing
        try:
            event = certify(signing, before, self.current, report, asked_at)
        except CertificateError as error:
            raise ProtocolError(f"an invalid report: {error}", kind="order") from None
        self._update(uncertified=False, certified=event)
        return event

    @property
    def _keys(self) -> KeyCentreKeys:
        if self.keys is None:
            raise UsageError(
                "this forest was saved without private keys: it cannot answer encrypted requests, and nobody "
                "can leave it; save it with private_keys=True"
            )
        return self.keys
