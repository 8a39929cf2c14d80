"""Links that go silent, stall or break while a forest grows, and processes that are told to end."""

import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from revfrf.errors import RevFRFError
from revfrf.node.home import CONFIG
from tests.node.conftest import Known
from tests.node.federation import Asking, Begin, Running, all_but, by_itself, copied, move, running
from tests.node.founding import configure, port_of_own
from tests.quick import quick

pytestmark = pytest.mark.timeout(900)  # on a slow machine


class Proxy:
    """A way to a port that can be cut and stalled."""

    def __init__(self, port: int) -> None:
        self._target, self._pairs, self.stalled = port, list[tuple[socket.socket, socket.socket]](), False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.passed = 0
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                self._pairs.append((near, far))
                for a, b in ((near, far), (far, near)):
                    Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(4096):
                if not self.stalled:
                    b.sendall(data)
                    self.passed += len(data)
        if not self.stalled:  # then not even an end comes through
            self._break(a, b)

    def cut(self) -> None:
        """Break whatever passes now."""
        pairs, self._pairs = self._pairs, []
        self._break(*(end for pair in pairs for end in pair))

    def _break(self, *ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listening.close()
        self.cut()


def notice_soon(federation: Running) -> None:
    """Whoever is silent is so after three seconds."""
    for file in federation.directory.glob(f"*/{CONFIG}"):
        configure(file, heartbeat=1)


@pytest.fixture
def detour(begin: Begin, founded: Path) -> Iterator[tuple[Running, Proxy]]:
    """A federation whose h0 reaches CS by a proxy."""
    federation = begin(founded, start=False)
    port = port_of_own()
    move(federation.directory, port)
    proxy = Proxy(port)
    move(federation.directory, proxy.port, "h0")
    notice_soon(federation)
    federation.start()
    yield federation, proxy
    federation.end()
    proxy.close()


def test_a_link_that_is_cut_again_and_again_delays_a_forest(
    detour: tuple[Running, Proxy], trained: Known
) -> None:
    federation, proxy = detour
    asking = Asking(federation.train)
    for _ in range(6):
        before = proxy.passed
        federation.until(lambda: asking.done or proxy.passed > before + 3000, "something passes")  # noqa: B023
        proxy.cut()
    federation.wait_until_ready(1)
    assert federation.digest() == trained.digest
    federation.until(lambda: federation.status().problem == "", "no problem is left")


def test_a_link_that_stalls_is_given_up_and_dialled_again(
    detour: tuple[Running, Proxy], trained: Known
) -> None:
    federation, proxy = detour
    proxy.stalled = True
    asking = Asking(federation.train)
    federation.wait_for_log("CS", "h0 is silent")
    proxy.stalled = False
    proxy.cut()
    federation.until(lambda: asking.done, "the operator is answered")
    assert federation.wait_until_ready(1) == trained.digest


def test_a_party_that_sleeps_is_waited_for_and_named_when_patience_ends(
    begin: Begin, founded: Path, trained: Known
) -> None:
    federation = begin(founded, start=False)
    configure(federation.directory / "CS" / CONFIG, patience=4, heartbeat=4)
    federation.start(*all_but("h0"))
    asking = federation.killed_at("LevelRequest of CS: handled", "h0", federation.train)
    with pytest.raises(
        RevFRFError, match=r"'h0' was offline for 4 seconds.*continues when it is back"
    ) as caught:
        asking.outcome()
    assert caught.value.kind == "absent"
    federation.until(lambda: "'h0'" in federation.status().problem, "the status says who is away")
    federation.start("h0", wait=False)
    assert federation.wait_until_ready(1) == trained.digest
    federation.until(lambda: federation.status().problem == "", "no problem is left")


@pytest.mark.parametrize("party", quick(["h0", "CS", "KGC"], ["CS"]))
def test_a_process_that_is_stopped_for_a_while_delays_a_forest(
    begin: Begin, founded: Path, trained: Known, party: str
) -> None:
    federation = begin(founded, start=False)
    notice_soon(federation)
    federation.start()
    federation.kill(party, signal.SIGSTOP)
    asking = Asking(federation.train)
    other = "h1" if party == "CS" else "CS"
    federation.wait_for_log(other, "CS is silent" if party == "CS" else f"{party} is silent")
    federation.kill(party, signal.SIGCONT)
    federation.until(lambda: asking.done, "an answer")
    if federation.status().forest_state == "none":
        federation.train()
    assert federation.wait_until_ready(1) == trained.digest


def test_processes_end_soon_when_told_to_even_while_a_forest_grows(founded: Path, tmp_path: Path) -> None:
    directory = copied(founded, tmp_path / "federation")
    configure(directory / "CS" / CONFIG, n_estimators=4000, max_depth=12, min_samples_leaf=1)
    with running(directory, by_itself) as federation:
        asking = Asking(federation.train)
        federation.wait_for_log("CS", 'growing detail="depth 1')
        federation.stop()
        federation.until(lambda: asking.done, "the operator is told")
        assert asking.error is not None
        assert "Traceback" not in federation.logs()
