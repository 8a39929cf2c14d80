"""A process that has everything imported and compiled, and forks parties from itself.

A party that is forked begins within a tenth of a second; by itself it would take two. It is a process like
any other, that runs `revfrf serve`; it may also die by SIGKILL at a chosen step, or find its disk full.

Commands come as JSON, a line each, and so do answers. When there are no more, all parties are killed.
"""

import io
import json
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

import numpy as np

from revfrf import RevocableForestClassifier
from revfrf.cli.app import app
from revfrf.messages.base import Message
from revfrf.node.audit_log import AuditLog
from revfrf.node.service import Service
from revfrf.transport.calls import Endpoint
from revfrf.transport.grpc import Dialler
from tests.killing import Steps


def count_steps(steps: Steps) -> None:
    """Count commits, erasures, messages and lines of the audit log, most of them before and after."""

    def answered(_: Service, sender: str, message: Message) -> str:
        return f"{type(message).__name__} of {sender}"

    def called(_: Endpoint, recipient: str, message: Message, __: object) -> str:
        return f"{type(message).__name__} to {recipient}"

    steps.count_databases()
    steps.count(Service, "answer", answered, "not handled", "handled, not answered")
    steps.count(Endpoint, "call", called, "not sent", "answered")
    steps.count(AuditLog, "append", lambda _, event, **__: f"log {event}", after=None)


def warm_up() -> None:
    """Load what is compiled, with a forest that nobody needs, and what commands load when they begin."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 4))
    model = RevocableForestClassifier(
        n_estimators=2,
        parties={"a": range(2), "b": range(2, 4)},
        key_bits=256,
        allow_insecure_keys=True,
        n_jobs=1,
    )
    model.fit(rows, rows[:, 0] > 0)
    model.predict(rows)
    with redirect_stderr(io.StringIO()), suppress(SystemExit):
        app(["serve", "-d", os.devnull], standalone_mode=False)
    assert "revfrf.node.roles" in sys.modules
    assert threading.active_count() == 1


def begin(command: dict[str, Any]) -> Callable[[], None]:
    """In the child: what it lives for."""
    os.chdir(command["directory"])
    log = os.open(f"{command['name']}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((null, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    if command["limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command["limit"], resource.RLIM_INFINITY))
    if command["steps"]:
        name, last = command["dies"]
        count_steps(Steps(last, name, file=Path(command["steps"]).absolute()))
    return lambda: live(["serve", "-d", command["name"]])


def live(arguments: list[str]) -> None:
    """Run a command, and end as it ends; gRPC, which was loaded before the fork, is not asked to."""
    try:
        code = app(arguments, standalone_mode=False) or 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stderr.flush()
    os._exit(code)


def main() -> Callable[[], None]:
    """Fork a child for each command to start one; only children return, with what they live for."""
    children: dict[int, int | None] = {}
    warm_up()
    Dialler.LONGEST_PAUSE = 0.4  # parties whose link breaks again and again dial again soon
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        command = json.loads(line)
        if "name" in command:
            pid = os.fork()
            if not pid:
                return begin(command)
            children[pid] = None
            answer: int | None = pid
        else:
            pid = command["pid"]
            if children[pid] is None:
                done, status = os.waitpid(pid, os.WNOHANG)
                children[pid] = os.waitstatus_to_exitcode(status) if done else None
            answer = children[pid]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid, code in children.items():
        if code is None:
            os.kill(pid, signal.SIGKILL)
    return lambda: None


if __name__ == "__main__":
    main()()
