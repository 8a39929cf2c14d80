"""Log lines: one a step, for people and programs, whatever is in them, and nothing secret."""

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.secret import SecretInt
from revfrf.crypto.signing import SigningKey
from revfrf.errors import AbsentError, StorageError, UsageError
from revfrf.node.logs import Format, Level, set_up_logging, step

log = logging.getLogger("revfrf.test")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Other tests find the package's logger as they left it."""
    package = logging.getLogger("revfrf")
    before = package.level, package.propagate, list(package.handlers)
    yield
    package.level, package.propagate, package.handlers = before
    package.setLevel(before[0])


def listening(form: Format = "text", level: Level = "info") -> io.StringIO:
    stream = io.StringIO()
    set_up_logging(level, form, stream)
    return stream


def said(stream: io.StringIO) -> str:
    """The only line that was written, without its time."""
    text = stream.getvalue()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    time, _, rest = text[:-1].partition(" ")
    assert STAMP.fullmatch(time)
    return rest


def facts(**values: object) -> Any:
    """The facts of a step, as a program reads them."""
    stream = listening("json")
    step(log, "tried", **values)
    return json.loads(stream.getvalue())["facts"]


def test_a_step_is_one_json_object_and_a_fact_named_level_is_not_the_level() -> None:
    stream = listening("json")
    step(log, "growing", depth=3, nodes=812)
    line = json.loads(stream.getvalue())
    assert STAMP.fullmatch(line.pop("time"))
    assert line == {"level": "info", "event": "growing", "facts": {"depth": 3, "nodes": 812}}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("clinic", "clinic"),
        ("", '""'),
        ("St. Mary", '"St. Mary"'),
        ("a=b", '"a=b"'),
        ('say "x"', r'"say \"x\""'),
        ("a\\b", r'"a\\b"'),
        ("Zürich", "Zürich"),
        ([1, 2], "[1,2]"),
        (0.41, "0.41"),
        (True, "true"),
        (None, "null"),
    ],
)
def test_values_are_quoted_where_one_could_not_see_their_end(value: object, written: str) -> None:
    stream = listening()
    step(log, "tried", x=value)
    assert said(stream) == f"INFO  tried x={written}"


@given(st.text(), st.text(), st.sampled_from(["text", "json"]))
def test_no_text_breaks_a_line_or_reaches_the_terminal_as_a_command(
    event: str, fact: str, form: Format
) -> None:
    stream = listening(form)
    step(log, event, x=fact)
    log.info("%s of %r", event, fact)
    log.info(event)
    assert len(stream.getvalue().splitlines()) == 3
    for line in stream.getvalue().splitlines():
        assert line.replace("\x7f", "").isprintable()
        if form == "json":
            assert event in json.loads(line)["event"]


@given(st.text())
def test_json_gives_back_every_text(text: str) -> None:
    assert facts(x=text, y=[text], z={text: text}) == {"x": text, "y": [text], "z": {text: text}}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "secret",
    [
        b"5ec4e7",
        bytearray(b"5ec4e7"),
        memoryview(b"5ec4e7"),
        SecretInt(0x5EC4E7),
        [b"5ec4e7"],
        (1, {"key": b"5ec4e7"}),
        {b"5ec4e7"},
        {b"5ec4e7": 1},
        int.from_bytes(b"5ec4e7" * 40),
    ],
    ids=lambda secret: type(secret).__name__,
)
def test_bytes_secrets_and_numbers_of_the_size_of_keys_are_never_written(secret: Any, form: Format) -> None:
    stream = listening(form, "debug")
    step(log, "tried", x=secret)
    log.warning("%s", secret)
    log.warning("%r and %s", secret, secret)
    log.warning(secret)
    written = stream.getvalue().replace("\\u", "").lower()
    assert len(written.splitlines()) == 4
    assert "<secret>" in written or "bits>" in written
    for shown in ("5ec4e7", str(0x5EC4E7), b"5ec4e7".hex(), str(int.from_bytes(b"5ec4e7" * 40))[:12]):
        assert shown not in written


class Holder:
    def __repr__(self) -> str:
        return "5ec4e7"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Holder(), "<Holder>"),
        (SigningKey.generate(), "<secret>"),
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Path("a/b"), "a/b"),
    ],
)
def test_what_json_has_no_word_for_is_a_number_a_text_or_the_name_of_a_type(
    value: object, written: object
) -> None:
    assert facts(x=value) == {"x": written}


def test_what_is_nested_without_end_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "<list>" in json.dumps(facts(x=endless))


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_error_is_one_line_with_its_kind_and_no_traceback(form: Format) -> None:
    stream = listening(form)
    step(log, "stopped", error=StorageError("no room\nat all", kind="full"))
    log.warning("no answer: %s", AbsentError("clinic", "is not there"))
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("failed")
    first, second, third = stream.getvalue().splitlines()
    assert r"full: no room\nat all" in first
    assert "no answer: absent: 'clinic' is not there" in second
    assert "KeyError: 'x'" in third
    assert "Traceback" not in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_there_for_those_who_debug_and_breaks_no_line(form: Format) -> None:
    stream = listening(form, "debug")
    try:
        raise StorageError("no room", kind="full")
    except StorageError:
        log.exception("failed")
    [line] = stream.getvalue().splitlines()
    assert all(part in line for part in ("full: no room", "Traceback", r"\n  File "))


CALLS: list[tuple[tuple[Any, ...], str]] = [
    (("%s refused %s: %s", "CS", "clinic", UsageError("too long")), "CS refused clinic: usage: too long"),
    (("%(a)d%% of %(b)s", {"a": 5, "b": b"key"}), "5% of <secret>"),
    (("100%",), "100%"),
    (("%d of %d", b"5ec4e7"), "%d of %d (with values that do not fit)"),
]


@pytest.mark.parametrize(("call", "written"), CALLS)
def test_plain_calls_are_written_too(
    call: tuple[Any, ...], written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = listening()
    log.warning(*call)
    assert said(stream) == f"WARNING {written}"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_decides_what_is_said(level: Level, count: int) -> None:
    stream = listening(level=level)
    log.debug("a")
    step(log, "b")
    log.warning("c")
    log.error("d")
    assert len(stream.getvalue().splitlines()) == count


def test_a_second_set_up_takes_the_place_of_the_first() -> None:
    first, second = listening(), listening()
    step(log, "tried")
    assert not first.getvalue()
    assert said(second) == "INFO  tried"


def test_standard_error_is_the_default_and_other_loggers_hear_nothing(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    set_up_logging()
    step(log, "tried", x=1, y="a b")
    out, err = capsys.readouterr()
    assert not out
    assert err.endswith('INFO  tried x=1 y="a b"\n')
    assert not caplog.records


def test_times_are_utc() -> None:
    stream = listening("json")
    log.handle(logging.makeLogRecord({"name": log.name, "levelno": 20, "levelname": "INFO", "created": 0.9}))
    time = json.loads(stream.getvalue())["time"]
    assert time == "1970-01-01T00:00:00Z"
    assert datetime.fromisoformat(time).utcoffset() is not None
