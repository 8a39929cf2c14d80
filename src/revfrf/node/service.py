"""A party's process: its role behind its link, its own work, and its operator's requests."""

import logging
import re
import signal
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from threading import Lock, Thread
from typing import Any, TypeVar

from revfrf.errors import NoForestError, PassportError, RefusedError, RevFRFError, StorageError
from revfrf.messages.alignment import MatchRequest, SchemaRequest
from revfrf.messages.base import Message
from revfrf.messages.frf_predict import ForestQuery, MaskedComparisons, PredictRequest, ShareRequest
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.messages.frf_test import TestRequest
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import REQUESTER
from revfrf.node import api
from revfrf.node.api import OnProgress
from revfrf.node.config import Config
from revfrf.node.control import CONTROL, Control
from revfrf.node.home import Home, Pins, days_left
from revfrf.node.logs import step
from revfrf.node.work import Patience, WorkLoop
from revfrf.roles.kgc import KeyCentre
from revfrf.roles.party import Party
from revfrf.transport.calls import Endpoint
from revfrf.transport.connections import Timeouts
from revfrf.transport.grpc import Dialler, Server
from revfrf.transport.passport import Passport

log = logging.getLogger("revfrf.serve")

Result = TypeVar("Result")
RENEWAL_DAYS = 30  # so long before its TLS certificate expires a party is warned
_READ_ONLY = (
    ForestQuery,
    MaskedComparisons,
    MatchRequest,
    PredictRequest,
    SchemaRequest,
    ShareRequest,
    TestRequest,
)
"""Messages that are answered side by side. All others change something, and are answered one at a time."""


class Service:
    """What every party's process does. Subclasses add a role, methods for requests, and perhaps work."""

    role: Party | KeyCentre

    def __init__(self, home: Home, config: Config) -> None:
        self.home, self.config = home, config
        self.audit = home.audit
        self._pins = Pins(home.store)
        self.loop = WorkLoop(lambda: self.work(), self.fail)
        network, wake = config.network, self.loop.wake
        limits = Timeouts(network.heartbeat, network.call)
        self.endpoint = Endpoint(home.who, self.answer, home.sealing(), limits, self.admit, self.fail, wake)
        self.patience = Patience(self.endpoint, self.loop, network.patience, lambda: self.certificate)
        self.failure: RevFRFError | None = None
        self._link: Server | Dialler | None = None
        self._answering = Lock()
        self._known: set[tuple[str, str, int, int]] = set()

    # -- the process --------------------------------------------------------------------------------

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until stopped. Raises errors of the party's own disk or data."""
        network, tls = self.config.network, self.home.tls()
        days = days_left(tls.passport)
        if days < RENEWAL_DAYS:
            remedy = "ask KGC for a new token, and `revfrf join` it"
            log.warning("the TLS certificate expires in %d days; %s", days, remedy)
        with ExitStack() as closing:
            closing.callback(self.audit.close)
            closing.callback(self._log_end)
            self.audit.append("started")
            if network.listen is not None:
                self._link = server = Server(self.endpoint, tls, network.listen)
                step(log, "listening", port=server.port)
            else:
                self._link = Dialler(self.endpoint, tls, network.coordinator or "")
            worker = Thread(target=self.loop.run, name="work", daemon=True)
            worker.start()
            closing.callback(worker.join, network.heartbeat)
            closing.callback(self._link.close)
            closing.callback(self.stop)
            closing.callback(Control(self.home.path / CONTROL, self.command).close)
            ready()
            self._watch_link()
        if self.failure is not None:
            raise self.failure

    def _log_end(self) -> None:
        if self.failure is None:
            self.audit.append("stopped")

    def _watch_link(self) -> None:
        """Until stopped, log each new problem with the link once."""
        logged = ""
        while self.loop.pause():
            if self.link_problem != logged:
                logged = self.link_problem
                if logged:
                    log.warning("not connected: %s", logged)
                if isinstance(self._link, Dialler) and self._link.left:
                    self.on_expelled()

    @property
    def link_problem(self) -> str:
        """What keeps this party from being connected to CS."""
        return self._link.problem if isinstance(self._link, Dialler) else ""

    def on_expelled(self) -> None:
        """Called when CS no longer accepts this party, because it has left."""

    def work(self) -> None:
        """Do what is to be done now, if anything."""

    def stop_on_signals(self) -> None:
        """End the process in order on SIGTERM and Ctrl-C."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def stop(self) -> None:
        self.loop.stop()

    def fail(self, error: RevFRFError) -> None:
        """End the process because it cannot continue correctly; a restart continues from what is stored."""
        log.error("%s", error)
        self.failure = self.failure or error
        self.stop()

    # -- messages -----------------------------------------------------------------------------------

    def admit(self, passport: Passport) -> None:
        """Refuse who has left, or is not the member, or not the first party, of its name. See `Endpoint`."""
        who, certificate = passport.who, self.certificate
        if certificate is not None and who.name in certificate.revoked:
            raise PassportError(f"{who.name!r} has left", kind="revoked")
        if who.role == REQUESTER and who.name in self.config.policy.refuses:
            raise PassportError(f"{who.name!r} is refused by our policy", kind="name")
        identity = (who.role, passport.verify_key)
        for member in () if certificate is None else certificate.members:
            if member.name == who.name and (member.role, member.verify_key) != identity:
                raise PassportError(f"{who} is not the member of that name", kind="name")
        self._pins.admit(passport)

    @property
    def certificate(self) -> EpochCertificate | None:
        """The epoch that this party is in."""
        if isinstance(self.role, Party):
            return self.role.identity.certificate
        return self.role.current if self.role.state.certificates else None

    def answer(self, sender: str, message: Message) -> Message:
        with nullcontext() if isinstance(message, _READ_ONLY) else self._answering:
            reply = self.role.handle(sender, message)
        self._log_answer(sender, message)
        self.loop.wake()
        return reply

    def _log_answer(self, sender: str, message: Message) -> None:
        """Log a message; one that may be repeated without effect, once per sender and epoch."""
        if isinstance(message, ForestQuery | RevocationRequest):
            epoch = 0 if self.certificate is None else self.certificate.epoch
            level = message.level if isinstance(message, RevocationRequest) else 0
            known = (sender, type(message).__name__, epoch, level)
            if known in self._known:
                return
            self._known.add(known)
        facts = {name.replace(" ", "_"): count for name, count in message.discloses().items()}
        self.audit.append(type(message).__name__, sender=sender, **facts)

    # -- commands -----------------------------------------------------------------------------------

    def command(self, request: api.Request[Result], on_progress: OnProgress = api.no_progress) -> Result:
        """Answer an operator's request. Raises RevFRFError; of kind `wrong-role` if others answer it."""
        handler = self.handler(type(request))
        if handler is None:
            role, tag = self.home.who.role, request.__struct_config__.tag
            raise RevFRFError(f"{role} does not answer `{tag}`", kind="wrong-role")
        try:
            result: Result = handler(self, request, on_progress)
        except StorageError as error:
            self.fail(error)
            raise
        except RefusedError as error:
            hint = "" if error.reason.endswith(NoForestError.peer_message) else "; its log says why"
            raise RefusedError(error.party, error.reason + hint) from error
        return result

    @classmethod
    def handler(cls, request: type[api.Request[Any]]) -> Callable[..., Any] | None:
        """Return the method that answers a request, if there is one: `predict_rows` for `PredictRows`."""
        return getattr(cls, re.sub("(?<!^)(?=[A-Z])", "_", request.__name__).lower(), None)

    def status(self, _: api.Status, __: OnProgress = api.no_progress) -> api.PartyStatus:
        certificate = self.certificate
        return api.PartyStatus(
            federation=self.config.party.federation,
            role=self.home.who.role,
            name=self.home.who.name,
            connected=tuple(sorted(self.endpoint.present())),
            epoch=0 if certificate is None else certificate.epoch,
            members=() if certificate is None else tuple(member.name for member in certificate.members),
            left=() if certificate is None else certificate.revoked,
            tls_certificate_days=days_left(self.home.tls().passport),
            audit_head=self.audit.head,
            problem=self.link_problem or self.loop.problem,
        )
