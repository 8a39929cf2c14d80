"""A party's process: its role behind its link, and the work that it goes on with by itself.

What is to be done follows from what is written down, so that a process that was killed goes on where it was:
`work` is called again and again, looks, and does the next thing. Whoever is away is waited for.
"""

import logging
import signal
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, nullcontext
from threading import Event, Lock, Thread
from typing import ClassVar, TypeVar

from revfrf.errors import AbsentError, PassportError, RefusedError, RevFRFError, StorageError
from revfrf.messages.alignment import MatchRequest, SchemaRequest
from revfrf.messages.base import Message
from revfrf.messages.frf_predict import ForestQuery, MaskedComparisons, PredictRequest, ShareRequest
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.messages.frf_test import TestRequest
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import REQUESTER
from revfrf.node import api
from revfrf.node.api import OnProgress, Progress
from revfrf.node.config import Config
from revfrf.node.control import CONTROL, Control
from revfrf.node.home import Home, Pins, days_left
from revfrf.node.logs import step
from revfrf.transport.base import Answering
from revfrf.transport.calls import Endpoint
from revfrf.transport.connections import Timeouts
from revfrf.transport.grpc import Dialler, Server
from revfrf.transport.passport import Passport

log = logging.getLogger("revfrf.serve")

Result = TypeVar("Result")
_LOOKS, _LONGEST = 1.0, 10.0
"""Seconds between two looks at whether there is something to do: at first, and after much trouble."""

_TRIES = 20
"""How often in a row a job begins again without having come any further."""

_BESIDE_OTHERS = (
    ForestQuery,
    MaskedComparisons,
    MatchRequest,
    PredictRequest,
    SchemaRequest,
    ShareRequest,
    TestRequest,
)
"""What is answered at any time. All other messages change something, and are answered one after the other: of
one whose sender waits no longer for its answer, the work may go on still when the next one comes.
"""


class Service:
    """What every party's process does. Subclasses have a role, and perhaps work."""

    role: Answering

    def __init__(self, home: Home, config: Config) -> None:
        self.home, self.config = home, config
        self.audit = home.audit
        self._pins = Pins(home.store)
        limits = Timeouts(config.network.heartbeat, config.network.call)
        self.endpoint = Endpoint(
            home.who, self.answer, home.sealing(), limits, self.admit, self.fail, met=self.wake
        )
        self.problem = ""
        self.failure: RevFRFError | None = None
        self._link: Server | Dialler | None = None
        self._answering = Lock()
        self._known: set[tuple[str, str, int, int]] = set()
        self._awake, self._stop = Event(), Event()

    # -- a process ----------------------------------------------------------------------------------

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until told to stop. Raises what the party's own disk or data could not do."""
        network, tls = self.config.network, self.home.tls()
        days = days_left(tls.passport)
        if days < 30:
            log.warning(
                "the certificate ends in %d days; ask KGC for a new token, and `revfrf join` it", days
            )
        with ExitStack() as closing:
            closing.callback(self._close_log)
            self.audit.append("started")
            if network.listen is not None:
                self._link = server = Server(self.endpoint, tls, network.listen)
                step(log, "listening", port=server.port)
            else:
                self._link = Dialler(self.endpoint, tls, network.coordinator or "")
            worker = Thread(target=self._go_on, name="work", daemon=True)
            worker.start()
            closing.callback(worker.join, network.heartbeat)
            closing.callback(self._link.close)
            closing.callback(self.stop)
            closing.callback(Control(self.home.path / CONTROL, self.command).close)
            ready()
            self._watch()
        if self.failure is not None:
            raise self.failure

    def _watch(self) -> None:
        """Until told to stop: say once what keeps the link from coming up."""
        said = ""
        while not self._stop.wait(_LOOKS):
            problem = self.link_problem
            if problem != said:
                said = problem
                if problem:
                    log.warning("not connected: %s", problem)
                if isinstance(self._link, Dialler) and self._link.left:
                    self.on_expelled()

    def _close_log(self) -> None:
        try:
            if self.failure is None:
                self.audit.append("stopped")
        finally:
            self.audit.close()

    @property
    def link_problem(self) -> str:
        """What keeps the link from coming up, if it is dialled."""
        return self._link.problem if isinstance(self._link, Dialler) else ""

    def on_expelled(self) -> None:
        """CS no longer accepts this party: it has left."""

    def stop_on_signals(self) -> None:
        """SIGTERM and Ctrl-C end the process in order."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()
        self._awake.set()

    def pause(self) -> bool:
        """Wait for a moment; whether the process goes on after it."""
        return not self._stop.wait(_LOOKS)

    def fail(self, error: RevFRFError) -> None:
        """This process can do nothing right any more: it ends, and finds what it has written down when it is
        started again.
        """
        log.error("%s", error)
        self.failure = self.failure or error
        self.stop()

    # -- messages -----------------------------------------------------------------------------------

    def admit(self, passport: Passport) -> None:
        """Refuse whoever has left, has other keys than the member of its name, or has come after another of
        the same name. See `Endpoint`.
        """
        who = passport.who
        if who.name in self.revoked:
            raise PassportError(f"{who.name!r} has left", kind="revoked")
        if who.role == REQUESTER and self.config.policy and who.name in self.config.policy.refuses:
            raise PassportError(f"{who.name!r} is refused by our policy", kind="name")
        for member in () if self.certificate is None else self.certificate.members:
            if member.name == who.name and (member.role, member.verify_key) != (
                who.role,
                passport.verify_key,
            ):
                raise PassportError(f"{who} is not the member of that name", kind="name")
        try:
            self._pins.admit(passport)
        except StorageError as error:
            self.fail(error)
            raise

    @property
    def revoked(self) -> tuple[str, ...]:
        """Who has left the federation."""
        certificate = self.certificate
        return () if certificate is None else certificate.revoked

    @property
    def certificate(self) -> EpochCertificate | None:
        """The epoch that this party is in."""
        return None

    def answer(self, sender: str, message: Message) -> Message:
        """Answer a message, and write down that it was."""
        with nullcontext() if isinstance(message, _BESIDE_OTHERS) else self._answering:
            reply = self.role.handle(sender, message)
        self._write_down(sender, message)
        self.wake()
        return reply

    def _write_down(self, sender: str, message: Message) -> None:
        """That a message was answered. What may be sent again and again, and changes nothing then, stands
        there once for each who sends it.
        """
        if isinstance(message, ForestQuery | RevocationRequest):
            epoch = 0 if self.certificate is None else self.certificate.epoch
            known = (sender, type(message).__name__, epoch, getattr(message, "level", 0))
            if known in self._known:
                return
            self._known.add(known)
        facts = {name.replace(" ", "_"): count for name, count in message.discloses().items()}
        self.audit.append(type(message).__name__, sender=sender, **facts)

    # -- work ---------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to do."""
        self._awake.set()

    def work(self) -> None:
        """Do what is to be done now, if anything."""

    def _go_on(self) -> None:
        pause = _LOOKS
        while not self._stop.is_set():
            self._awake.wait(pause)
            self._awake.clear()
            try:
                self.work()
                self.problem, pause = "", _LOOKS
            except StorageError as error:
                self.fail(error)
            except RevFRFError as error:
                if str(error) != self.problem:
                    log.warning("waiting: %s", error)
                self.problem, pause = str(error), min(2 * pause, _LONGEST)
            except Exception:
                log.exception("work has failed")
                self.problem, pause = "work has failed; the log says why", _LONGEST
            if self.problem:
                self._stop.wait(_LOOKS)  # however often it is woken
                self._awake.clear()  # by what this very work has caused

    def patiently(
        self,
        work: Callable[[], Result],
        on_progress: OnProgress,
        progress: Callable[[], object] = lambda: None,
        waits_for: Collection[str] | None = None,
    ) -> Result:
        """Do something that may be done again, or goes on from what is written down, again whenever somebody
        was away: anybody, or one of those that are waited for. And if an epoch has begun meanwhile, in which
        others refuse what was for the one before.

        Raises AbsentError if a party is away for longer than the configured patience, and whatever else
        happens twenty times in a row without any progress.
        """
        tries, reached = 0, progress()
        while True:
            met, epoch = self.endpoint.meetings(), self.certificate
            try:
                return work()
            except (AbsentError, RefusedError) as error:
                party, now = error.party, progress()
                tries, reached = (tries + 1, reached) if now == reached else (0, now)
                came_back = self.endpoint.meetings().get(party, 0) != met.get(party, 0)
                again = came_back or self.certificate != epoch
                if tries >= _TRIES or (isinstance(error, RefusedError) and not again):
                    raise
                if waits_for is not None and party not in waits_for:
                    raise
                self._wait_for(party, on_progress)

    def _wait_for(self, party: str, on_progress: OnProgress) -> None:
        """Until it is there, or has left."""
        patience, until = self.config.network.patience, time.monotonic() + self.config.network.patience
        step(log, "waiting for a party", party=party, seconds=patience)
        self.problem = f"waiting for {party!r}, who is not connected"
        on_progress(Progress(f"waiting for {party!r}", waiting=True))
        while not self._stop.is_set() and time.monotonic() < until:
            if party in self.revoked or not self.endpoint.wait_for([party], _LOOKS):
                self.problem = ""
                return
        raise AbsentError(
            party,
            f"was away for {patience} seconds; run `revfrf serve` there, and what was under way goes on by "
            "itself when it is back",
        )

    # -- commands -----------------------------------------------------------------------------------

    def command(self, request: api.Request[Result], on_progress: OnProgress = api.no_progress) -> Result:
        """Answer an operator's request. Raises RevFRFError; of kind `wrong-role` if others answer it."""
        handler = self.handlers.get(type(request))
        if handler is None:
            raise RevFRFError(
                f"{self.home.who.role} does not answer `{request.command_name()}`", kind="wrong-role"
            )
        try:
            result: Result = handler(self, request, on_progress)
        except StorageError as error:
            self.fail(error)
            raise
        except RefusedError as error:
            raise RefusedError(error.party, f"{error.reason}; its log says why") from error
        return result

    def status(self, _: api.Status, __: OnProgress = api.no_progress) -> api.PartyStatus:
        """Return the party's status."""
        certificate = self.certificate
        return api.PartyStatus(
            federation=self.config.party.federation,
            role=self.home.who.role,
            name=self.home.who.name,
            connected=tuple(sorted(self.endpoint.present())),
            epoch=0 if certificate is None else certificate.epoch,
            members=() if certificate is None else tuple(member.name for member in certificate.members),
            left=self.revoked,
            certificate_days=days_left(self.home.tls().passport),
            audit_head=self.audit.head,
            problem=self.link_problem or self.problem,
        )

    handlers: ClassVar[api.Handlers] = {api.Status: status}
