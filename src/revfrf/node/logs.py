"""A party's log: one line per step, for people or for programs.

::

    2026-01-02T03:04:05Z INFO  growing depth=3 trees=20 nodes=812
    {"time":"2026-01-02T03:04:05Z","level":"info","event":"growing","facts":{"depth":3,"nodes":812}}

Nothing breaks a line, and no line contains secrets: bytes and secrets are written as `<secret>`, and facts of
other types as the name of their type.
"""

import json
import logging
import math
import re
import traceback
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Literal, TextIO

from revfrf.crypto.secret import Secret
from revfrf.errors import RevFRFError

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]

_OWN = "revfrf.node"  # the name of our handler: others' stay
_FACTS = "revfrf_facts"
_HIDDEN = "<secret>"
_DEEPEST = 8
_BARE = re.compile(r"[^\s\"=\\]+")


def set_up_logging(level: Level = "info", form: Format = "text", stream: TextIO | None = None) -> None:
    """Write the package's log to `stream` (default: standard error) alone. Replaces an earlier call."""
    log, handler = logging.getLogger("revfrf"), logging.StreamHandler(stream)
    handler.setFormatter(_Formatter(as_json=form == "json", traces=level == "debug"))
    handler.name = _OWN
    log.handlers = [*(other for other in log.handlers if other.name != _OWN), handler]
    log.setLevel(level.upper())
    log.propagate = False


def step(log: logging.Logger, event: str, /, **facts: object) -> None:
    """Log that something has happened: `step(log, "growing", depth=3, nodes=812)`."""
    log.info("%s", event, extra={_FACTS: facts}, stacklevel=2)


class _Formatter(logging.Formatter):
    def __init__(self, *, as_json: bool, traces: bool) -> None:
        super().__init__()
        self._as_json, self._traces = as_json, traces

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        facts = {name: _plain(fact) for name, fact in getattr(record, _FACTS, {}).items()}
        if record.exc_info and (error := record.exc_info[1]):
            trace = {"traceback": "".join(traceback.format_exception(error))} if self._traces else {}
            facts |= {"error": _plain(error), **trace}
        if self._as_json:
            line = {"time": time, "level": record.levelname.lower(), "event": _message(record)}
            return json.dumps({**line, "facts": facts}, separators=(",", ":"))
        shown = [f"{_one_line(name)}={_quoted(fact)}" for name, fact in facts.items()]
        return " ".join([time, f"{record.levelname:<5}", _one_line(_message(record)), *shown])


def _message(record: logging.LogRecord) -> str:
    """Return the text of a record, without secrets."""
    text, values = str(_plain(record.msg)), _plain(record.args)
    try:
        return text % (tuple(values) if isinstance(values, list) else values) if values else text
    except Exception:  # logging must never stop the work
        return f"{text} (with values that do not fit)"


def _plain(value: object, depth: int = 0) -> Any:
    """Return a value as JSON has it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview | Secret):
        return _HIDDEN
    if isinstance(value, BaseException):
        kind = value.kind if isinstance(value, RevFRFError) else type(value).__name__
        return f"{kind}: {value}"
    if isinstance(value, Integral):
        whole = int(value)
        return whole if -(2**64) < whole < 2**64 else f"<a number of {whole.bit_length()} bits>"
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {str(_plain(name)): _plain(value[name], depth + 1) for name in value}
    if isinstance(value, list | tuple | Set) and depth < _DEEPEST:
        return [_plain(part, depth + 1) for part in value]
    return f"<{type(value).__name__}>"


def _quoted(value: object) -> str:
    """Return a fact as text, in quotes if its end would not be visible."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if text.isprintable() and _BARE.fullmatch(text):
        return text
    return _one_line(json.dumps(text, ensure_ascii=False))


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
