"""An operator talks to the party's own process, and to nobody else."""

import os
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_type_hints

import msgspec
import pytest

from revfrf.errors import RevFRFError, StorageError, UsageError
from revfrf.node import control
from revfrf.node.api import (
    Invite,
    OnProgress,
    PredictEncrypted,
    Progress,
    Request,
    Status,
    Train,
    Uninvite,
    result_type,
)
from revfrf.node.control import CONTROL, Control, ask, process_of
from revfrf.node.roles import SERVICES
from tests.node.federation import LONG

NOBODY = 65534
INVITE = Invite("participant", "eve")


class Listening:
    """What a process has heard. It answers everything."""

    def __init__(self) -> None:
        self.heard: list[Request[Any]] = []

    def __call__(self, request: Request[Any], on_progress: OnProgress) -> object:
        self.heard.append(request)
        if isinstance(request, Uninvite):
            raise UsageError("not that")
        on_progress(Progress("inviting"))
        return "a token"


def test_a_question_is_answered_and_how_far_it_is_is_told(tmp_path: Path) -> None:
    told: list[Progress] = []
    with closing(Control(tmp_path / CONTROL, Listening())):
        assert ask(tmp_path / CONTROL, INVITE, told.append) == "a token"
        with pytest.raises(RevFRFError, match="not that") as caught:
            ask(tmp_path / CONTROL, Uninvite("eve"))
        with pytest.raises(StorageError, match="not a RevFRF party"):  # a token is no status
            ask(tmp_path / CONTROL, Status())
        assert process_of(tmp_path / CONTROL) == os.getpid()
    assert told == [Progress("inviting")]
    assert caught.value.kind == "usage"
    with pytest.raises(UsageError, match="`revfrf serve` is not running"):
        ask(tmp_path / CONTROL, Train())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702], ids=oct)
def test_nothing_is_said_where_others_could_have_put_a_process(tmp_path: Path, mode: int) -> None:
    """Rows of requests go over the socket."""
    listening = Listening()
    with closing(Control(tmp_path / CONTROL, listening)):
        tmp_path.chmod(mode)
        with pytest.raises(StorageError, match="others can write to it; run: chmod 700"):
            ask(tmp_path / CONTROL, PredictEncrypted("secret.csv"))
        tmp_path.chmod(0o700)
    assert listening.heard == []


def test_nothing_is_said_to_a_process_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket's name may be a link to somebody else's."""
    listening, me = Listening(), os.geteuid()
    monkeypatch.setattr(control, "_peer", lambda _: (1, me + 1))
    with closing(Control(tmp_path / CONTROL, listening)):
        for call in (lambda: ask(tmp_path / CONTROL, Status()), lambda: process_of(tmp_path / CONTROL)):
            with pytest.raises(StorageError, match="is another user's"):
                call()
    assert listening.heard == []


@pytest.mark.parametrize("who", ["own", "root", "other"])
def test_a_process_hears_its_own_user_and_root_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    listening, users = Listening(), {"own": os.geteuid(), "root": 0, "other": os.geteuid() + 1}
    monkeypatch.setattr(control, "_peer", lambda _: (1, users[who]))
    with closing(Control(tmp_path / CONTROL, listening)):
        answered = invited_through(tmp_path / CONTROL)
    assert (answered, listening.heard) == ((False, []) if who == "other" else (True, [INVITE]))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_heard_even_where_it_can_open_the_socket() -> None:
    """KGC would invite it."""
    listening = Listening()
    with TemporaryDirectory() as directory, get_context("fork").Pool(1, os.setuid, [NOBODY]) as nobody:
        path = Path(directory) / CONTROL
        path.parent.chmod(0o755)
        with closing(Control(path, listening)):
            path.chmod(0o666)
            assert nobody.apply_async(os.access, [path, os.W_OK]).get(LONG)
            assert not nobody.apply_async(invited_through, [path]).get(LONG)
    assert listening.heard == []


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection, control._short_address(path) as address:
        connection.settimeout(LONG)
        connection.connect(address)
        yield connection


def invited_through(path: Path) -> bool:
    """Whether whoever listens there gives this user an invitation."""
    with suppress(ConnectionError), connected(path) as connection:
        connection.sendall(b'{"command": "kgc invite", "role": "participant", "name": "eve"}\n')
        return bool(connection.recv(1))
    return False


def test_the_socket_is_its_owners_alone_from_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, listen = [], socket.socket.listen

    def look(own: socket.socket, *backlog: int) -> None:
        modes.append(stat.S_IMODE((tmp_path / CONTROL).stat().st_mode))
        listen(own, *backlog)

    monkeypatch.setattr(socket.socket, "listen", look)
    before = os.umask(0)
    try:
        Control(tmp_path / CONTROL, Listening()).close()
    finally:
        os.umask(before)
    assert modes == [0o600]


@pytest.mark.parametrize(
    "answer",
    [b"hello", b"\xff", b"[]", b"{}", b'{"type": "succeeded"}', b'{"type": "alive", "result": 2}'],
    ids=repr,
)
def test_what_is_no_partys_process_is_told_from_one(tmp_path: Path, answer: bytes) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as other, ThreadPoolExecutor(1) as pool:
        with control._short_address(tmp_path / CONTROL) as address:
            other.bind(address)
        other.listen()
        asking = pool.submit(lambda: ask(tmp_path / CONTROL, Status()))
        with closing(other.accept()[0]) as connection:
            connection.sendall(answer + b"\n")
            with pytest.raises(StorageError, match="not a RevFRF party"):
                asking.result(LONG)


def test_a_result_that_is_too_large_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MAX_RESULT", len('"a token"'))
    with closing(Control(tmp_path / CONTROL, lambda request, _: f"a token{'s' * (request == INVITE)}")):
        assert ask(tmp_path / CONTROL, Invite("participant", "bob")) == "a token"
        with pytest.raises(RevFRFError, match="10 bytes, more than 9; ask about fewer rows") as caught:
            ask(tmp_path / CONTROL, INVITE)
    assert caught.value.kind == "usage"


@pytest.mark.parametrize("what", ["nothing", "file", "pipe"])
def test_where_there_is_no_directory_nobody_is_asked(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "file":
        place.touch()
    elif what == "pipe":
        os.mkfifo(place)
    with pytest.raises(UsageError, match="is not running"):
        ask(place / CONTROL, INVITE)
    assert process_of(place / CONTROL) is None


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b'{"command": "shutdown"}',
        b'{"command": "train", "trees": 3}',
        b'{"command": "train", "min_common": "0"}',
        b'{"command": "revoke", "level": 3}',
        b'{"command": "kgc uninvite"}',
    ],
    ids=repr,
)
def test_a_request_that_is_not_exactly_of_its_type_is_not_answered(tmp_path: Path, line: bytes) -> None:
    listening = Listening()
    with closing(Control(tmp_path / CONTROL, listening)), connected(tmp_path / CONTROL) as connection:
        connection.sendall(line + b"\n")
        reply = msgspec.json.decode(connection.recv(4096))
    assert (reply["type"], reply["kind"], listening.heard) == ("failed", "usage", [])


def test_every_request_has_a_handler_that_takes_it_and_returns_its_result() -> None:
    for request in Request.__subclasses__():
        handlers = [*filter(None, (service.handler(request) for service in SERVICES.values()))]
        assert handlers
        for handler in handlers:
            assert [*get_type_hints(handler).values()] == [request, OnProgress, result_type(request)]
