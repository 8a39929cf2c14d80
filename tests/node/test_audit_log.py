"""Audit logs: nothing in them changes unseen, and neither a crash nor a full disk makes them useless."""

import errno
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from revfrf.crypto.canonical import digest
from revfrf.crypto.secret import SecretInt
from revfrf.errors import AuditLogError, StorageError, UsageError
from revfrf.node import audit_log
from revfrf.node.audit_log import MAX_LINE, AuditLog, verify_log

WHO = ("five hospitals", "CS", "CS")
GENESIS = digest("revfrf audit log owner v1", *WHO).hex()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def made(path: Path, count: int = 5) -> Path:
    """A closed log of some lines."""
    with closing(AuditLog(path, WHO)) as log:
        for n in range(count):
            log.append("level grown", level=n, parties=["clinic", "archive"], whole=n % 2 == 0)
    return path


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def refusal(path: Path, *arguments: Any, **named: Any) -> AuditLogError:
    """Why a log does not hold; opening it refuses it, too, unless the end alone is concerned."""
    with pytest.raises(AuditLogError) as caught:
        verify_log(path, *arguments, **named)
    assert str(path) in str(caught.value)
    if caught.value.kind not in ("torn", "head", "missing"):
        before = path.read_bytes()
        with pytest.raises(AuditLogError):
            AuditLog(path, WHO)
        assert path.read_bytes() == before
    return caught.value


def stored(call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """The kind of a StorageError."""
    with pytest.raises(StorageError) as caught:
        call(*arguments, **named)
    assert caught.value.__cause__ is None
    return caught.value.kind


# -- what is written --------------------------------------------------------------------------------


def test_lines_are_json_objects_chained_from_their_owner_on(path: Path) -> None:
    made(path, 3)
    previous = GENESIS
    for n, line in enumerate(lines(path)):
        entry = json.loads(line)
        assert list(entry) == ["n", "time", "event", "facts", "previous", "hash"]
        assert (entry["n"], entry["event"], entry["previous"]) == (n, "level grown", previous)
        assert entry["facts"] == {"level": n, "parties": ["clinic", "archive"], "whole": n % 2 == 0}
        previous = entry["hash"]
    summary = verify_log(path, previous, who=WHO)
    assert (summary.lines, summary.head) == (3, previous)
    assert summary.first == json.loads(lines(path)[0])["time"]
    assert summary.last == entry["time"]


def test_the_hash_can_be_computed_by_others_from_the_documented_encoding(path: Path) -> None:
    with closing(AuditLog(path, WHO)) as log:
        log.append("tried", b=[1, "x", True], a="ü")
    entry = json.loads(path.read_bytes())
    facts = (("a", "ü"), ("b", (1, "x", True)))
    fields = (entry["n"], entry["time"], entry["event"], facts, entry["previous"])
    assert entry["hash"] == digest("revfrf audit log v1", *fields).hex()


SINGLE = st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans()
FACTS = st.dictionaries(st.text(), SINGLE | st.lists(SINGLE, max_size=3), max_size=4)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(event=st.text(min_size=1), facts=FACTS)
@example("tried", {"event": "x", "self": 1, "n": 2, "hash": "y", "": 3})
def test_whatever_is_appended_is_one_line_and_read_back_as_it_was(
    path: Path, event: str, facts: dict[str, Any]
) -> None:
    path.unlink(missing_ok=True)
    with closing(AuditLog(path, WHO)) as log:
        log.append(event, **facts)
        log.append("next")
    [line, _] = path.read_text("ascii").splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["facts"]) == (event, facts)
    assert verify_log(path, who=WHO).lines == 2


def test_a_log_goes_on_where_it_ended(path: Path) -> None:
    made(path, 2)
    head = verify_log(path).head
    with closing(AuditLog(path, WHO)) as log:
        assert log.head == head
        log.append("again")
        assert log.head != head
        assert verify_log(path, head).head == log.head  # while it is open
    assert verify_log(path, head).lines == 3


def test_a_new_log_has_a_head_which_is_its_owner(path: Path) -> None:
    with closing(AuditLog(path, WHO)) as log:
        assert log.head == GENESIS
    assert verify_log(path, GENESIS, who=WHO) == audit_log.LogSummary(0, None, None, GENESIS)
    for unknown in (GENESIS, ""):
        assert refusal(path, unknown).kind == "head"
    made(path, 1)
    assert verify_log(path, GENESIS).lines == 1
    assert refusal(path, "").kind == "head"


def test_many_threads_write_whole_lines(path: Path) -> None:
    with closing(AuditLog(path, WHO)) as log, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: log.append("tried", number=number), range(80)))
    assert verify_log(path).lines == 80
    assert {json.loads(line)["facts"]["number"] for line in lines(path)} == {*range(80)}


@pytest.mark.parametrize(
    "fact",
    [1.5, None, b"x", SecretInt(5), {"a": 1}, [[1]], [None], Path, 2**63, -(2**63) - 1, "\ud800"],
    ids=repr,
)
def test_facts_of_other_types_are_refused_and_leave_no_line(path: Path, fact: Any) -> None:
    with closing(AuditLog(path, WHO)) as log:
        with pytest.raises(UsageError):
            log.append("tried", x=fact)
        log.append("tried", x="fine")
    assert verify_log(path).lines == 1


def test_a_line_has_a_longest_length(path: Path) -> None:
    with closing(AuditLog(path, WHO)) as log:
        log.append("tried", x="")
        room = MAX_LINE - len(lines(path)[0])
        log.append("tried", x="x" * room)
        with pytest.raises(UsageError, match=str(MAX_LINE)):
            log.append("tried", x="x" * (room + 1))
    assert [len(line) for line in lines(path)] == [MAX_LINE - room, MAX_LINE]
    assert verify_log(path).lines == 2


# -- what is found ----------------------------------------------------------------------------------


def test_every_byte_of_a_line_counts(path: Path) -> None:
    good = made(path, 3).read_bytes()
    for at in range(len(good)):
        for changed in (good[at] ^ 1, 10):
            if changed == good[at]:
                continue
            path.write_bytes(good[:at] + bytes([changed]) + good[at + 1 :])
            with pytest.raises(AuditLogError) as caught:
                verify_log(path)
            assert f"line {good.count(10, 0, at) + 1}:" in str(caught.value)


Change = Callable[[list[bytes]], list[bytes]]
CHANGES: dict[str, tuple[Change, str, int]] = {
    "the first removed": (lambda x: x[1:], "order", 1),
    "one removed": (lambda x: x[:2] + x[3:], "order", 3),
    "one repeated": (lambda x: [*x[:3], *x[2:]], "order", 4),
    "two exchanged": (lambda x: [x[0], x[2], x[1], *x[3:]], "order", 2),
    "an old one at the end": (lambda x: [*x, x[0]], "order", 6),
    "an empty one": (lambda x: [*x[:1], b"\n", *x[1:]], "malformed", 2),
    "no JSON": (lambda x: [*x, b"hello\n"], "malformed", 6),
    "another object": (lambda x: [*x, b'{"n":5}\n'], "malformed", 6),
    "a list": (lambda x: [*x, b"[" * 5000 + b"]" * 5000 + b"\n"], "malformed", 6),
    "a carriage return": (lambda x: [x[0][:-1] + b"\r\n", *x[1:]], "malformed", 1),
    "a space": (lambda x: [x[0].replace(b":", b": ", 1), *x[1:]], "malformed", 1),
    "a key twice": (lambda x: [b'{"n":9,' + x[0][1:], *x[1:]], "malformed", 1),
    "a key more": (lambda x: [b'{"m":9,' + x[0][1:], *x[1:]], "malformed", 1),
    "an escape for a letter": (lambda x: [x[0].replace(b"clinic", b"\\u0063linic"), *x[1:]], "malformed", 1),
    "another fact": (lambda x: [*x[:2], x[2].replace(b"clinic", b"bank"), *x[3:]], "chain", 3),
    "another number": (lambda x: [*x[:2], x[2].replace(b'"n":2', b'"n":3'), *x[3:]], "chain", 3),
    "a longer one": (lambda x: [*x, b"x" * (MAX_LINE + 1) + b"\n"], "malformed", 6),
    "an endless one": (lambda x: [*x, b"x" * (MAX_LINE + 1)], "malformed", 6),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_log_is_refused_with_the_line(path: Path, change: str) -> None:
    altered, kind, number = CHANGES[change]
    before = lines(made(path))
    path.write_bytes(b"".join(altered(before)))
    assert path.read_bytes() != b"".join(before)
    error = refusal(path)
    assert error.kind == kind
    assert f"line {number}: " in str(error)
    assert ("not an audit log" in str(error)) == (kind == "malformed" and number == 1)


def forged(line: bytes, **changes: Any) -> bytes:
    """A line with other content, and the hash that fits to it."""
    entry = json.loads(line) | changes
    made = audit_log._entry(*(entry[name] for name in ("n", "time", "event", "facts", "previous")))
    return audit_log._line(made)


def test_a_line_with_a_hash_of_its_own_breaks_the_chain_behind_it(path: Path) -> None:
    before = lines(made(path))
    path.write_bytes(b"".join([*before[:2], forged(before[2], event="nothing"), *before[3:]]))
    error = refusal(path)
    assert (error.kind, "line 4: " in str(error)) == ("chain", True)


@pytest.mark.parametrize("time", ["", "yesterday", "2026-01-02T03:04:05.0Z", "2026-13-02T03:04:05.000000Z"])
def test_a_time_that_is_none_is_refused(path: Path, time: str) -> None:
    path.write_bytes(forged(made(path, 1).read_bytes(), time=time))
    assert refusal(path).kind == "malformed"


def test_the_log_of_another_party_is_refused(path: Path) -> None:
    made(path)
    other = (*WHO[:2], "bank")
    with pytest.raises(AuditLogError, match=r"line 1: begins another party's log"):
        AuditLog(path, other)
    with pytest.raises(AuditLogError) as caught:
        verify_log(path, who=other)
    assert caught.value.kind == "chain"
    assert verify_log(path, who=WHO).lines == 5
    AuditLog(path, WHO).close()  # a refused log is not held


@pytest.mark.parametrize("left", range(5))
def test_an_end_cut_off_is_found_by_the_head_alone(path: Path, left: int) -> None:
    head = verify_log(made(path)).head
    path.write_bytes(b"".join(lines(path)[:left]))
    assert verify_log(path).lines == left
    assert refusal(path, head).kind == "head"
    path.unlink()
    made(path)  # nor is a log that was written again as a whole
    assert verify_log(path, who=WHO).lines == 5
    assert refusal(path, head).kind == "head"


def test_a_head_noted_long_ago_is_still_found(path: Path) -> None:
    noted = verify_log(made(path)).head
    made(path)
    assert verify_log(path, f" {noted.upper()}\n").lines == 10


def test_what_is_no_file_is_refused(path: Path) -> None:
    assert refusal(path).kind == "missing"
    os.mkfifo(path)
    for wrong, kind in ((path, "not-regular"), (path.parent, "not-regular"), (Path("\0"), "io")):
        with pytest.raises(AuditLogError) as caught:
            verify_log(wrong)
        assert caught.value.kind == kind


# -- crashes, disks, other processes ----------------------------------------------------------------


def test_a_crash_at_any_byte_of_a_line_is_repaired_and_told(path: Path) -> None:
    *first, last = lines(made(path, 3))
    zeros = bytes(300)  # some file systems leave these
    for end in (last[:1], last[:2], last[: len(last) // 2], last[:-1], zeros):
        path.write_bytes(b"".join([*first, end]))
        torn = refusal(path)
        assert (torn.kind, "line 3: " in str(torn)) == ("torn", True)
        with closing(AuditLog(path, WHO)) as log:
            log.append("again")
        assert verify_log(path).lines == 4
        repair = json.loads(lines(path)[2])
        assert (repair["event"], repair["facts"]) == ("log repaired", {"bytes": len(end)})


def test_a_torn_end_does_not_excuse_damage_before_it(path: Path) -> None:
    before = lines(made(path))
    path.write_bytes(b"".join([before[0], *before[2:], b'{"n":']))
    assert refusal(path).kind == "order"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_fills_up_in_the_middle_of_a_line_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write, calls = os.write, 0

    def half(descriptor: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            raise OSError(number, os.strerror(number))
        return write(descriptor, bytes(data)[: len(data) // 2])

    made(path)
    before = path.read_bytes()
    with closing(AuditLog(path, WHO)) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            for _ in range(2):
                assert stored(log.append, "tried") == "full"
                assert path.read_bytes() == before
        log.append("room again")
    assert calls == 4
    assert verify_log(path).lines == 6


@pytest.mark.parametrize("broken", ["write", "fsync"])
def test_a_line_that_could_not_be_undone_is_undone_before_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    with closing(AuditLog(path, WHO)) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", fail)
            patch.setattr(os, broken, fail)
            assert stored(log.append, "tried") == "io"
        log.append("again")
    assert verify_log(path).lines == 1


def test_a_line_is_one_write_and_on_disk_before_append_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def calls(*given: Any) -> Any:
            done.append(name)
            return call(*given)

        return calls

    with closing(AuditLog(path, WHO)) as log:
        for name in ("write", "fsync"):
            monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
        log.append("tried", x="x" * 30_000)
    assert done == ["write", "fsync"]


def test_one_process_writes_at_a_time(path: Path) -> None:
    with closing(AuditLog(path, WHO)) as log:
        for _ in range(2):  # a refusal does not end the lock
            with pytest.raises(StorageError, match="in use by another process") as caught:
                AuditLog(path, WHO)
            assert caught.value.kind == "in-use"
        log.append("still there")
    AuditLog(path, WHO).close()


def test_a_closed_log_takes_no_lines(path: Path) -> None:
    log = AuditLog(path, WHO)
    log.close()
    log.close()
    assert stored(log.append, "tried") == "closed"
    assert not path.read_bytes()


def test_a_log_that_another_program_changes_or_replaces_is_not_written(path: Path) -> None:
    with closing(AuditLog(path, WHO)) as log:
        log.append("tried")
        with path.open("ab") as file:
            file.write(b"x")
        assert stored(log.append, "tried") == "malformed"
        path.rename(path.with_name("old"))
        assert stored(log.append, "tried") == "missing"
        path.write_bytes(b"")
        assert stored(log.append, "tried") == "missing"
    assert path.read_bytes() == b""


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_a_log_is_its_owners_alone_whatever_the_umask(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        made(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_log_open_to_others_is_refused_with_the_remedy(path: Path, mode: int) -> None:
    made(path).chmod(mode)
    with pytest.raises(StorageError, match="run: chmod 600") as caught:
        AuditLog(path, WHO)
    assert caught.value.kind == "mode"
    path.chmod(0o600)
    AuditLog(path, WHO).close()


def test_a_log_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert stored(AuditLog, path, WHO) == "owner"


def test_links_pipes_and_directories_are_refused(path: Path, tmp_path: Path) -> None:
    path.symlink_to(made(tmp_path / "real"))
    assert stored(AuditLog, path, WHO) == "malformed"
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert stored(AuditLog, path, WHO) == "malformed"
    assert not (tmp_path / "nowhere").exists()
    path.unlink()
    os.mkfifo(path, 0o600)
    assert stored(AuditLog, path, WHO) == "malformed"
    assert stored(AuditLog, tmp_path, WHO) == "io"
    assert stored(AuditLog, tmp_path / "no" / "log", WHO) == "missing"
