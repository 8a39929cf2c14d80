"""The process of KGC, the key centre."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.embedded.moduli import fresh_setup, fresh_setup_like
from revfrf.errors import (
    AbsentError,
    NoForestError,
    PassportError,
    ProtocolError,
    RefusedError,
    RejectedError,
    UsageError,
)
from revfrf.lifecycle import Step, run
from revfrf.messages.base import Done, Message
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.messages.key_setup import AdmissionRequest, SetUpReply, SetUpRequest
from revfrf.names import CC, CS, REQUESTER
from revfrf.node import api
from revfrf.node.api import OnProgress
from revfrf.node.config import Config
from revfrf.node.home import Home
from revfrf.node.invitations import Invited, invite, uninvite
from revfrf.node.logs import step
from revfrf.node.service import Service
from revfrf.parallel import workers
from revfrf.protocols.common.epoch import read_parameters
from revfrf.roles.kgc import KeyCentre, KeyCentreKeys
from revfrf.transport.codec import decode
from revfrf.transport.passport import Passport

log = logging.getLogger("revfrf.serve")

RETRY_SECONDS = 5.0  # before a member that was away is told of an epoch again


class KeyCentreService(Service):
    """KGC: sets up the federation when CS asks for it, admits requesters, and lets participants leave."""

    role: KeyCentre

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        self.role = KeyCentre(self.endpoint, KeyCentreKeys.read(home.store), home.store)
        self.role.recall()
        self._n_jobs = workers(config.work.workers)
        self._beginning = Lock()  # one epoch at a time
        self._admitting: dict[str, Lock] = {}
        self._setup: SetUp | None = None
        self._told_in_vain: dict[str, float] = {}

    def answer(self, sender: str, message: Message) -> Message:
        """See `Service.answer`. Also answers what needs calls to others."""
        if isinstance(message, AdmissionRequest):
            return self._admit_once(sender)
        if not isinstance(message, SetUpRequest):
            return super().answer(sender, message)
        missing = refused = None
        try:
            self.work(setup_requested=True)
        except AbsentError as error:
            missing = error.party
        except RefusedError as error:
            refused = error.party
        self.audit.append(type(message).__name__, sender=sender)
        return SetUpReply(missing, refused)

    def admit(self, passport: Passport) -> None:
        """See `Service.admit`. Also refuses parties that are not invited."""
        who = passport.who
        known = self.home.store.expect("invited", dict[str, Invited]).get(who.name)
        if known is None or known.role != who.role or passport.serial < known.first:
            raise PassportError(f"{who} is not invited", kind="name")
        super().admit(passport)

    def work(self, setup_requested: bool = False) -> None:
        """See `Service.work`: perform all of KGC's steps that can be performed now.

        If CS asks for the set-up, that brings everybody into the current epoch, the first if there is none.
        """
        with self._beginning:
            run(
                lambda: self.role.lifecycle_state(setup_requested, self._reachable),
                {
                    Step.BEGIN_FIRST_EPOCH: self._begin_first_epoch,
                    Step.ANNOUNCE: lambda: self._announce(setup_requested),
                    Step.BEGIN_EPOCH: lambda: self._begin_epoch(new_keys=False),
                    Step.BEGIN_EPOCH_WITH_NEW_KEYS: lambda: self._begin_epoch(new_keys=True),
                },
            )

    @property
    def _reachable(self) -> set[str]:
        """Members that lack the current epoch, except those who were told in vain a moment ago."""
        now = time.monotonic()
        return {name for name in self.role.behind if self._told_in_vain.get(name, 0.0) < now - RETRY_SECONDS}

    def _announce(self, setup_requested: bool) -> None:
        try:
            self.role.announce(setup_requested)
        finally:
            self._told_in_vain = dict.fromkeys(self.role.behind, time.monotonic())

    def _begin_first_epoch(self) -> None:
        invited = self.home.store.expect("invited", dict[str, Invited])
        roles = {name: known.role for name, known in invited.items() if known.role != REQUESTER}
        if roles.get(CC) != CC or roles.get(CS) != CS or len(roles) < 3:
            raise ProtocolError("KGC has to invite CS, CC and at least one participant first", kind="order")
        self.endpoint.reach(roles)
        keys, insecure = self.config.keys, self.home.allow_insecure

        def known() -> dict[str, bytes]:
            if self.home.store.expect("invited", dict[str, Invited]) != invited:
                raise ProtocolError("others have been invited since; begin again", kind="order")
            return self._pins.verify_keys

        searching: AbstractContextManager[SetUp | None] = nullcontext()
        if keys.protocol == "paper":
            searching = self._set_up(lambda: fresh_setup(keys.modulus_bits, insecure, self._n_jobs))
        with searching as setup:
            self.role.begin_first_epoch(self.config.party.federation, setup, roles, known)
        step(log, "epoch began", epoch=1, members=len(roles))

    def _begin_epoch(self, new_keys: bool) -> None:
        current, leaving = self.role.current, sorted(self.role.state.leaving)
        step(log, "leaving", parties=leaving, revocation_level=self.role.leaving_level)
        if new_keys:
            self.endpoint.reach(member.name for member in current.members if member.name not in leaving)
            parameters = read_parameters(current.dtpkc, self.home.allow_insecure)
            with self._set_up(lambda: fresh_setup_like(parameters, self._n_jobs)) as setup:
                certificate = self.role.begin_epoch(setup)
        else:
            certificate = self.role.begin_epoch(None)
        self.audit.append("epoch began", epoch=certificate.epoch, left=[*leaving])

    @contextmanager
    def _set_up(self, search: Callable[[], SetUp]) -> Iterator[SetUp]:
        """The modulus and shares of the next epoch: the same until it has begun, and then forgotten."""
        if self._setup is None:
            step(log, "searching for a modulus")
            self._setup = search()
        before = self.role.state.certificates
        try:
            yield self._setup
        finally:
            if self.role.state.certificates != before:
                self._setup = None

    def _admit_once(self, sender: str) -> Done:
        """Admit a requester once at a time: it is called back, and could keep many threads waiting."""
        if not self.role.state.certificates:
            raise NoForestError("the federation is not set up yet", kind="order")
        admitting = self._admitting.setdefault(sender, Lock())
        if not admitting.acquire(blocking=False):
            raise ProtocolError(f"{sender!r} is being admitted already", kind="order")
        try:
            known = self.role.state.admitted.get(sender)
            if known is not None:
                try:
                    return self.endpoint.call(sender, known, Done)
                except RefusedError:  # it has other keys by now
                    self.role.forget_admission(sender)
            self.role.admit(sender)
            self.audit.append("admitted", party=sender, epoch=self.role.current.epoch)
            return Done()
        finally:
            admitting.release()

    def accept(self, asked: api.Accept, _: OnProgress) -> api.Departure:
        try:
            found = decode(bytes.fromhex(asked.request), RevocationRequest)
            with self._answering:
                self.role.handle(found.party, found)
        except (ValueError, RejectedError) as error:
            raise UsageError(f"not a request to leave this federation now: {error}") from None
        party, level, epoch = found.party, found.level, found.epoch
        self.audit.append("accepted a request to leave", party=party, level=level, epoch=epoch)
        self.loop.wake()
        return api.Departure(party, level, epoch)

    def invite(self, request: api.Invite, _: OnProgress) -> str:
        return invite(self.home, request.role, request.name, request.days).text()

    def uninvite(self, request: api.Uninvite, _: OnProgress) -> None:
        uninvite(self.home, request.name)
