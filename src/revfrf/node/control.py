"""How an operator talks to a running party: a socket in the party's directory, for its owner alone, and root.

One JSON object a line. A question is {"verb": …, "arguments": {…}}; before the answer there may be any number
of {"progress": {…}}; the answer is {"result": …} or {"error": {"kind": …, "reason": …}}. An error of kind
`verb` is that this party has no such verb.
"""

import json
import logging
import os
import socket
import socketserver
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from revfrf.errors import RevFRFError, StorageError, UsageError
from revfrf.io.files import check_writable_by_owner_alone

log = logging.getLogger("revfrf.control")

Tell = Callable[[dict[str, Any]], None]
"""Whom to tell how far a command is."""

Command = Callable[[str, dict[str, Any], Tell], Any]
CONTROL = "control"
"""The socket's name."""

_MAX_LINE = 2**26
_ALIVE, _DEAD = 5.0, 30.0
"""Seconds: between two signs of life of a process that works, and until it is given up."""


_CREDENTIALS = struct.Struct("3i")
"""Of the other end of a socket: process, user, group."""


class _Handler(socketserver.StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        try:
            line = self.rfile.readline(_MAX_LINE)
            if line:  # else somebody wanted to know whether anybody listens
                self._writing, self._answered = Lock(), Event()
                Thread(target=self._keep_alive, name="alive", daemon=True).start()
                try:
                    answer = self._answer(line)
                finally:
                    self._answered.set()
                self._tell(answer)
        except OSError:
            log.info("the operator has gone")

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            verb, arguments = _question(line)
            return {"result": self.server.command(verb, arguments, self._progress)}
        except RevFRFError as error:
            return {"error": {"kind": error.kind, "reason": str(error)}}
        except Exception:
            log.exception("a command has failed")
            return {"error": {"kind": "error", "reason": "the command has failed; the log says why"}}

    def _progress(self, facts: dict[str, Any]) -> None:
        try:
            self._tell({"progress": facts})
        except OSError:  # nobody listens any more: the work goes on
            log.debug("the operator has gone")

    def _tell(self, line: dict[str, Any]) -> None:
        with self._writing:
            self.wfile.write(json.dumps(line).encode() + b"\n")

    def _keep_alive(self) -> None:
        """Say again and again that the process is there, until the answer is."""
        while not self._answered.wait(_ALIVE):
            self._progress({})


def _question(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        question = json.loads(line)
        return str(question["verb"]), dict(question["arguments"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"not a command: {error}") from None


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    command: Command

    def server_bind(self) -> None:
        os.fchmod(self.fileno(), 0o600)  # the file, which `bind` makes, begins with this mode
        super().server_bind()

    def verify_request(self, request: Any, *_: Any) -> bool:
        """Hear this party's own user, and root, and nobody else."""
        user = _peer(request)[1]
        if user not in (0, os.geteuid()):
            log.warning("refused a command of user %d", user)
            return False
        return True


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The address of a socket, which must be short: by its directory, opened."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


class Control:
    """The listening end."""

    def __init__(self, path: Path, command: Command) -> None:
        self._path = path
        path.unlink(missing_ok=True)  # the database is ours: no other process listens there
        try:
            with _short(path) as address:
                self._server = _Server(address, _Handler)
        except OSError as error:
            raise StorageError(f"{path}: cannot listen: {error.strerror or error}", kind="io") from None
        self._server.command = command
        Thread(target=self._server.serve_forever, name="control", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


def _connect(path: Path) -> socket.socket | None:
    """A connection to the process that listens there, if one does. Raises StorageError if it is another
    user's.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _short(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        return None
    if _peer(connection)[1] != os.geteuid():
        connection.close()
        raise StorageError(f"{path}: the process that listens there is another user's", kind="mode")
    return connection


def _peer(connection: socket.socket) -> tuple[int, int]:
    """The numbers of the process at the other end, and of its user."""
    known = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(known)
    return process, user


def process_of(path: Path) -> int | None:
    """The number of the process that listens there, if one does; 0 if it cannot be seen from here."""
    connection = _connect(path)
    if connection is None:
        return None
    with connection:
        return _peer(connection)[0]


def runs(path: Path) -> bool:
    """Whether a process listens there."""
    return process_of(path) is not None


def not_running(directory: Path, fix: str) -> UsageError:
    """That no process runs there, and what to do."""
    return UsageError(f"no `revfrf serve` runs in {directory}; {fix}")


def ask(
    path: Path,
    verb: str,
    arguments: dict[str, Any],
    tell: Tell = lambda _: None,
    otherwise: Callable[[], Any] | None = None,
) -> Any:
    """Ask the process that listens there; if none does, do this otherwise.

    Raises what it answers with, StorageError if somebody else could listen there, and UsageError if nobody
    does and there is nothing else to do.
    """
    with suppress(OSError):  # what is not there is not asked
        if path.is_socket():
            check_writable_by_owner_alone(path.parent)
    connection = _connect(path)
    if connection is None:
        if otherwise is None:
            raise not_running(path.parent, "start it, and ask again")
        return otherwise()
    with connection:
        connection.settimeout(_DEAD)
        for answer in _answers(path, connection, {"verb": verb, "arguments": arguments}):
            if "progress" in answer:
                if answer["progress"]:
                    tell(answer["progress"])
            elif "error" in answer:
                raise RevFRFError(answer["error"]["reason"], kind=answer["error"]["kind"])
            else:
                return answer["result"]
    raise RevFRFError(
        f"the process in {path.parent} has ended before it has answered; its log says why. Start it again: "
        "what was under way goes on by itself, and requests can be asked again",
        kind="absent",
    )


def _answers(path: Path, connection: socket.socket, question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the process says, line by line, until it has no more to say, or has ended."""
    with suppress(ConnectionError, TimeoutError), connection.makefile("rb") as lines:
        connection.sendall(json.dumps(question).encode() + b"\n")
        for line in lines:
            if line.endswith(b"\n"):
                yield _answer(path, line)


def _answer(path: Path, line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or len(answer.keys() & {"progress", "error", "result"}) != 1:
        raise StorageError(f"{path}: what listens there is no party's process", kind="wrong-kind")
    return answer
