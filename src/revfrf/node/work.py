"""A party's own work: done again and again in a thread, patient with parties that are offline.

What to do follows from what is stored, so a process that was killed continues where it was.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from revfrf.errors import AbsentError, RefusedError, RevFRFError, StorageError
from revfrf.messages.key_setup import EpochCertificate
from revfrf.node.api import OnProgress, Progress
from revfrf.node.logs import step
from revfrf.transport.calls import Endpoint

log = logging.getLogger("revfrf.serve")

Result = TypeVar("Result")
POLL_SECONDS, MAX_POLL_SECONDS = 1.0, 10.0  # between checks for work: normally, and after repeated problems
MAX_TRIES = 20  # in a row, of a job that makes no progress


class WorkLoop:
    """Calls `work` until stopped. `problem` says what keeps it from finishing."""

    def __init__(self, work: Callable[[], None], fail: Callable[[RevFRFError], None]) -> None:
        self._work, self._fail = work, fail
        self._awake, self.stopped = Event(), Event()
        self.problem = ""

    def wake(self) -> None:
        """Check soon whether there is work."""
        self._awake.set()

    def stop(self) -> None:
        self.stopped.set()
        self._awake.set()

    def pause(self) -> bool:
        """Wait for a moment. Return whether the process continues."""
        return not self.stopped.wait(POLL_SECONDS)

    def run(self) -> None:
        pause = POLL_SECONDS
        while not self.stopped.is_set():
            self._awake.wait(pause)
            self._awake.clear()
            try:
                self._work()
                self.problem, pause = "", POLL_SECONDS
            except StorageError as error:
                self._fail(error)
            except RevFRFError as error:
                if str(error) != self.problem:
                    log.warning("waiting: %s", error)
                self.problem, pause = str(error), min(2 * pause, MAX_POLL_SECONDS)
            except Exception:
                log.exception("work has failed")
                self.problem, pause = "work has failed; see the log", MAX_POLL_SECONDS
            if self.problem:
                self.stopped.wait(POLL_SECONDS)  # however often it is woken
                self._awake.clear()  # this very work may have woken it


@dataclass(frozen=True)
class Patience:
    """Retries what failed because a party was offline, or because an epoch has begun in between."""

    _endpoint: Endpoint
    _loop: WorkLoop
    _seconds: int
    _certificate: Callable[[], EpochCertificate | None]

    def retry(
        self,
        work: Callable[[], Result],
        on_progress: OnProgress,
        progress: Callable[[], object] = lambda: None,
        waits_for: Collection[str] | None = None,
    ) -> Result:
        """Do repeatable work; if a party was offline, wait for it, or only for some of them, and retry.

        Raises AbsentError if a party is offline for longer than the configured patience, and other errors
        that occur twenty times in a row without progress.
        """
        tries, reached = 0, progress()
        while True:
            met, epoch = self._endpoint.meetings(), self._certificate()
            try:
                return work()
            except (AbsentError, RefusedError) as error:
                party, now = error.party, progress()
                tries, reached = (tries + 1, reached) if now == reached else (0, now)
                came_back = self._endpoint.meetings().get(party, 0) != met.get(party, 0)
                again = came_back or self._certificate() != epoch
                if tries >= MAX_TRIES or (isinstance(error, RefusedError) and not again):
                    raise
                if waits_for is not None and party not in waits_for:
                    raise
                self._wait_for(party, on_progress)

    def _wait_for(self, party: str, on_progress: OnProgress) -> None:
        """Wait until a party is connected, or has left."""
        until = time.monotonic() + self._seconds
        step(log, "waiting for a party", party=party, seconds=self._seconds)
        self._loop.problem = f"waiting for {party!r}, which is not connected"
        on_progress(Progress(f"waiting for {party!r}", waiting=True))
        while not self._loop.stopped.is_set() and time.monotonic() < until:
            certificate = self._certificate()
            has_left = certificate is not None and party in certificate.revoked
            if has_left or not self._endpoint.wait_for([party], POLL_SECONDS):
                self._loop.problem = ""
                return
        remedy = "run `revfrf serve` there, and the work continues when it is back"
        raise AbsentError(party, f"was offline for {self._seconds} seconds; {remedy}")
