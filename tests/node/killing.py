"""Work of a federation during which parties die by SIGKILL, are started again, and die again."""

import os
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from revfrf.errors import RevFRFError
from revfrf.io.public_key import load_verify_key
from revfrf.node import api
from revfrf.protocols.certificate import EventCertificate
from tests.node.conftest import Known
from tests.node.federation import LONG, Asking, Running
from tests.node.founding import SERVING

Lives = Mapping[str, Sequence[int]]
"""For some parties, at which step each of their lives ends, counted from 1; the last one does not."""

NAMED = (*SERVING, "clinic")


def later_and_later(seed: int, lives: int, most: int) -> list[int]:
    """Ends of lives, ever later, so that the work ends, too."""
    rng = random.Random(seed)
    return list(accumulate(rng.randint(1, max(1, most // lives)) for _ in range(lives)))


class Killing:
    """A federation some of whose parties have lives that end."""

    def __init__(self, federation: Running, lives: Lives) -> None:
        self.federation = federation
        self._left = {name: list(ends) for name, ends in lives.items()}
        self._mortal: set[str] = set()
        self.gone: set[str] = set()

    def begin(self) -> None:
        """Start everybody."""
        for name in SERVING:
            self._start(name)

    def _start(self, name: str) -> None:
        ends = self._left.get(name, [])
        last = ends.pop(0) if ends else 0
        self._mortal = self._mortal | {name} if last else self._mortal - {name}
        self.federation.start(name, dies=("", last), counted=True, wait=False)

    def go_on(self) -> None:
        """Start again whoever has died; nobody may end otherwise, but for one who has left."""
        for name, process in list(self.federation.processes.items()):
            code = process.poll()
            if code == -signal.SIGKILL:
                self.federation.kills += 1
                self._start(name)
            elif code is not None:
                assert (name, code) == ("h2", 0), (name, code, self.federation.logs())
                self.federation.processes.pop(name)
                self._mortal.discard(name)
                self.gone.add(name)

    def end(self) -> None:
        """Whoever would still die dies now, for the last time."""
        self.go_on()
        self._left.clear()
        for name in self._mortal:
            os.kill(self.federation.processes[name].pid, signal.SIGKILL)  # it may just be ending otherwise

        def over() -> bool:
            self.go_on()
            return self.over

        self.federation.until(over, "nobody is about to die")

    def h2_has_gone(self) -> bool:
        """Whether its process has ended, as that of one who has left."""
        self.go_on()
        return "h2" in self.gone

    @property
    def over(self) -> bool:
        """Whether nobody is about to die any more."""
        return not self._mortal

    def insist(self, ask: Callable[[], Any], goal: Callable[[], bool], said: str = "") -> None:
        """Ask, as an operator would who sees that nothing has come of it, until the goal is reached.

        Whatever keeps it from being reached is somebody's absence, or what may be said.
        """
        asking = Asking(ask)
        patience = 0

        def reached() -> bool:
            nonlocal asking, patience
            self.go_on()
            if goal():
                return True
            patience = patience + 1 if asking.done else 0
            if asking.error is not None and not (said and said in str(asking.error)):
                assert asking.error.kind in ("absent", "usage"), (asking.error, self.federation.logs())
            if patience > 10:
                asking, patience = Asking(ask), 0
            return False

        self.federation.until(reached, "the goal is reached", 2 * LONG)


# -- work -------------------------------------------------------------------------------------------


def train(killing: Killing) -> None:
    """From founded directories to a whole forest."""
    federation = killing.federation
    killing.begin()
    killing.insist(federation.train, lambda: federation.is_ready())


def leave(killing: Killing, level: api.RevocationLevel) -> None:
    """h2 leaves a whole forest."""
    federation = killing.federation
    killing.begin()
    revoke = api.Revoke(level)
    killing.insist(lambda: federation.ask("h2", revoke), lambda: federation.is_ready(2), "has already left")


def request(killing: Killing, known: Known) -> None:
    """Encrypted requests, one after the other, until nobody dies any more, and some are answered."""
    federation = killing.federation
    killing.begin()
    federation.start("clinic", wait=False)
    answered: list[api.Predictions] = []
    failed: list[RevFRFError] = []

    def ask() -> None:
        try:
            answered.append(federation.predict())
        except RevFRFError as error:
            failed.append(error)

    killing.insist(ask, lambda: len(answered) > (0 if killing.over else 3))  # KGC is needed for the first
    assert all(answer == known.answers for answer in answered)
    assert {error.kind for error in failed} <= {"absent", "refused", "usage"}
    assert all(any(name in str(error) for name in NAMED) for error in failed), failed


# -- what must be so afterwards ---------------------------------------------------------------------


def check_whole(killing: Killing, known: Known, epoch: int) -> None:
    """All run again, in this epoch, with this forest, and answer as it does; and all end in order."""
    federation = killing.federation

    def settled() -> bool:
        killing.go_on()
        here = set(federation.processes)
        found = {name: federation.quiet_status(name) for name in here - {"clinic"}}
        if any(s is None or (s.epoch, s.problem) != (epoch, "") for s in found.values()):
            return False
        return federation.all_connected()

    killing.end()
    if known.answers is not None and "clinic" not in federation.processes:
        federation.start("clinic", wait=False)
    federation.until(settled, "all are well")
    assert federation.digest() == known.digest
    if known.answers is not None:
        assert federation.predict() == known.answers
    else:
        assert federation.ask("CS", api.AuditForest()).holds
    if epoch > 1:
        federation.until(federation.all_signed, "all have signed")
        creation, leaving = federation.ask("CS", api.History())
        assert (creation["event"], leaving["leavers"]) == ("creation", ["h2"])
        federation.until(killing.h2_has_gone, "h2 has gone")
    certificate = EventCertificate.from_json(federation.ask("CS", api.Export()).encode())
    certificate.verify(load_verify_key(federation.directory / "h0" / "kgc.pub"))
    federation.stop()
    assert certificate.digest_after == federation.salted(known.digest)
