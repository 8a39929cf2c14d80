"""The control socket: how an operator talks to a running party.

It is in the party's directory, for the party's own user and root. Each line is a JSON object. A request of
`node.api` is answered by any number of `Progress` and `Alive`, and then by `Failed` or `Succeeded`.
"""

import logging
import os
import socket
import socketserver
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, TypeVar, Union

import msgspec

from revfrf.errors import RevFRFError, StorageError, UsageError
from revfrf.io.files import check_writable_by_owner_alone
from revfrf.node.api import OnProgress, Progress, Request, no_progress, result_type

log = logging.getLogger("revfrf.control")

Result = TypeVar("Result")
Answer = Callable[[Request[Any], OnProgress], Any]  # raises RevFRFError
CONTROL = "control"  # the socket's name
MAX_REQUEST, MAX_RESULT = 2**22, 2**28  # bytes: of a request with the end of its line, and of a result
ALIVE_SECONDS, DEAD_SECONDS = 5.0, 30.0  # until a process at work shows that it lives, and is given up


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=str.lower):
    """What a process writes."""


class Alive(_Line, frozen=True):
    """The process is at work."""


class Failed(_Line, frozen=True):
    """The request has failed."""

    kind: str
    reason: str


class Succeeded(_Line, frozen=True):
    """The request's result, which is of the type that the request names."""

    result: msgspec.Raw


_Reply = Progress | Alive | Failed | Succeeded
_REQUEST: msgspec.json.Decoder[Request[Any]] = msgspec.json.Decoder(Union[tuple(Request.__subclasses__())])  # noqa: UP007 (known at run time)
_REPLY = msgspec.json.Decoder(_Reply)


def _decode_request(line: bytes) -> Request[Any]:
    try:
        return _REQUEST.decode(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not a request: {error}") from None


# -- the party's process ----------------------------------------------------------------------------


class _Handler(socketserver.StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        try:
            line = self.rfile.readline(MAX_REQUEST)
            if line:  # an empty line only asks whether a process listens
                self._writing, self._answered = Lock(), Event()
                Thread(target=self._keep_alive, name="alive", daemon=True).start()
                try:
                    reply = self._reply(line)
                finally:
                    self._answered.set()
                self._write(reply)
        except OSError:
            log.info("the operator has disconnected")

    def _reply(self, line: bytes) -> _Line:
        try:
            result = msgspec.json.encode(self.server.answer(_decode_request(line), self._on_progress))
            if len(result) > MAX_RESULT:
                size = f"{len(result):,} bytes, more than {MAX_RESULT:,}"
                raise UsageError(f"the result has {size}; ask about fewer rows at once")
            return Succeeded(msgspec.Raw(result))
        except RevFRFError as error:
            reason = str(error).encode(errors="backslashreplace").decode()  # file names may not be UTF-8
            return Failed(error.kind, reason)
        except Exception:
            log.exception("a request has failed")
            return Failed("error", "the command failed; see the party's log")

    def _on_progress(self, progress: Progress | Alive) -> None:
        try:
            self._write(progress)
        except OSError:  # the work goes on without the operator
            log.debug("the operator has disconnected")

    def _write(self, line: _Line | Progress) -> None:
        with self._writing:
            self.wfile.write(msgspec.json.encode(line) + b"\n")

    def _keep_alive(self) -> None:
        while not self._answered.wait(ALIVE_SECONDS):
            self._on_progress(Alive())


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answer: Answer

    def server_bind(self) -> None:
        os.fchmod(self.fileno(), 0o600)  # `bind` creates the file with this mode
        super().server_bind()

    def verify_request(self, request: Any, *_: Any) -> bool:
        """Accept only the party's own user, and root."""
        user = _peer(request)[1]
        if user not in (0, os.geteuid()):
            log.warning("refused a command of user %d", user)
            return False
        return True


class Control:
    """The listening end."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path = path
        path.unlink(missing_ok=True)  # we hold the database, so no other process listens there
        try:
            with _short_address(path) as address:
                self._server = _Server(address, _Handler)
        except OSError as error:
            raise StorageError(f"{path}: cannot listen: {error.strerror or error}", kind="io") from None
        self._server.answer = answer
        Thread(target=self._server.serve_forever, name="control", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


# -- the operator's process -------------------------------------------------------------------------


@contextmanager
def _short_address(path: Path) -> Iterator[str]:
    """Yield an address that is short enough for a socket, through its open directory."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _connect(path: Path) -> socket.socket | None:
    """Connect to the process that listens there, if one does. Raises StorageError if it is another user's."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _short_address(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        return None
    if _peer(connection)[1] != os.geteuid():
        connection.close()
        raise StorageError(f"{path}: the process that listens there is another user's", kind="mode")
    return connection


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the other end's process and user numbers."""
    known = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    process, user, _group = struct.unpack("3i", known)
    return process, user


def process_of(path: Path) -> int | None:
    """Return the number of the process that listens there, if one does; 0 if it is not visible from here."""
    with _connect(path) or nullcontext() as connection:
        return _peer(connection)[0] if connection else None


def is_running(path: Path) -> bool:
    """Return whether a process listens there."""
    return process_of(path) is not None


def not_running(directory: Path, remedy: str) -> UsageError:
    """Return the error that no process runs there."""
    return UsageError(f"`revfrf serve` is not running in {directory}; {remedy}")


def ask(path: Path, request: Request[Result], on_progress: OnProgress = no_progress) -> Result:
    """Send a request to the process that listens there.

    Raises the error that the process answers with, StorageError if another user could listen there, and
    UsageError if no process listens.
    """
    with suppress(OSError):  # what does not exist is not asked
        if path.is_socket():
            check_writable_by_owner_alone(path.parent)
    connection = _connect(path)
    if connection is None:
        raise not_running(path.parent, "start it, and retry")
    with connection:
        connection.settimeout(DEAD_SECONDS)
        try:
            sent = msgspec.json.encode(request) + b"\n"
        except UnicodeEncodeError:
            raise UsageError("a file name is not valid UTF-8; rename the file") from None
        for line in _exchange(connection, sent):
            match _decode(path, _REPLY, line):
                case Progress() as progress:
                    on_progress(progress)
                case Failed(kind, reason):
                    raise RevFRFError(reason, kind=kind)
                case Succeeded(result):
                    return _decode(path, msgspec.json.Decoder(result_type(type(request))), bytes(result))
    what = f"the process in {path.parent} ended before it answered; see its log"
    remedy = "Start it again: it continues its work, and requests can be sent again"
    raise RevFRFError(f"{what}. {remedy}", kind="absent")


def _exchange(connection: socket.socket, line: bytes) -> Iterator[bytes]:
    """Send a line, and yield the lines that come back until the process closes the connection or ends."""
    with suppress(ConnectionError, TimeoutError), connection.makefile("rb") as lines:
        connection.sendall(line)
        while (found := lines.readline(MAX_RESULT + MAX_REQUEST)).endswith(b"\n"):
            yield found


def _decode(path: Path, decoder: msgspec.json.Decoder[Result], data: bytes) -> Result:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError):
        raise StorageError(f"{path}: the process there is not a RevFRF party", kind="wrong-kind") from None
