import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from pickle import PicklingError
from tempfile import mkdtemp
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace

import pytest
from joblib import parallel_config
from joblib.parallel import get_active_backend
from loky import BrokenProcessPool

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.strong import set_up
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.errors import RevFRFError, SecretError, UsageError
from revfrf.parallel import _abroad, _pool, elsewhere, in_processes, in_threads, using_backend, workers


def slow_square(x: int) -> int:
    sleep(0.002)
    return x * x


def slow_process_ids(count: int) -> list[int]:
    sleep(0.02 * count)
    return [os.getpid()] * count


def ids_of_two(meeting: Path, count: int) -> list[int]:
    """Work that ends when a second process has begun with its part, however late that starts."""
    (meeting / f"{os.getpid()}").touch()
    end = monotonic() + 60
    while len(list(meeting.iterdir())) < 2 and monotonic() < end:
        sleep(0.005)
    return [os.getpid()] * count


def both_workers(place: Path) -> set[int]:
    """The ids of both worker processes."""
    found = set(in_processes(partial(ids_of_two, Path(mkdtemp(dir=place))), 12, 2, 0.05))
    assert len(found) == 2
    return found


def with_a_secret(_: Secret, count: int) -> list[int]:
    return slow_process_ids(count)


def die(_: int) -> list[int]:
    os._exit(1)


def explode(x: int) -> int:
    if x == 7:
        raise RevFRFError("seven")
    return slow_square(x)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 40])
def test_threads_keep_the_order(count: int, n_jobs: int) -> None:
    assert in_threads(slow_square, range(count), n_jobs) == [x * x for x in range(count)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_thread_reaches_the_caller(n_jobs: int) -> None:
    with pytest.raises(RevFRFError, match="seven"):
        in_threads(explode, range(20), n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 4, 5, 23])
def test_processes_give_as_many_results_as_asked(count: int, n_jobs: int) -> None:
    assert len(in_processes(slow_process_ids, count, n_jobs, 0.05)) == count


def test_large_work_goes_to_other_processes_and_small_work_starts_none(tmp_path: Path) -> None:
    _pool.cache_clear()
    assert set(in_processes(slow_process_ids, 2, 2, 0.001)) == {os.getpid()}
    assert os.getpid() not in both_workers(tmp_path)
    assert set(in_processes(slow_process_ids, 12, 1, 0.05)) == {os.getpid()}


def test_small_work_goes_to_processes_that_run_and_have_their_tables(tmp_path: Path) -> None:
    workers = both_workers(tmp_path)
    assert set(in_processes(slow_process_ids, 1, 2, 0.001)) <= workers
    assert os.getpid() not in workers


def test_a_worker_that_was_killed_is_replaced() -> None:
    before = set(in_processes(slow_process_ids, 12, 2, 0.05))
    os.kill(min(before), signal.SIGKILL)
    after = set(in_processes(slow_process_ids, 12, 2, 0.05))
    assert os.getpid() not in after
    assert not before & after


def test_workers_outlive_ctrl_c(tmp_path: Path) -> None:
    before = both_workers(tmp_path)
    for worker in before:
        os.kill(worker, signal.SIGINT)
    assert both_workers(tmp_path) == before


def test_work_that_kills_every_worker_is_given_up() -> None:
    with pytest.raises(BrokenProcessPool):
        in_processes(die, 12, 2, 0.05)
    assert len(in_processes(slow_process_ids, 12, 2, 0.05)) == 12


def test_the_user_chooses_where_the_processes_are() -> None:
    with parallel_config(backend="threading"):
        assert set(in_processes(slow_process_ids, 12, 2, 0.05)) == {os.getpid()}


@pytest.mark.parametrize("how", [get_context("spawn"), get_context("fork")])
def test_a_child_process_with_workers_of_its_own_ends_at_once(how: SpawnContext | ForkContext) -> None:
    in_processes(slow_process_ids, 12, 2, 0.05)
    child = how.Process(target=in_processes, args=(slow_process_ids, 12, 2, 0.05))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_a_secret_never_reaches_a_worker_process() -> None:
    with pytest.raises(PicklingError):
        in_processes(partial(with_a_secret, SecretInt(7)), 12, 2, 0.05)


# -- other backends ----------------------------------------------------------------------------------


def backend_here(_: object = None) -> str:
    return type(get_active_backend()[0]).__name__


def test_threads_go_on_with_the_backend_of_the_caller() -> None:
    with parallel_config("multiprocessing", n_jobs=3):
        assert in_threads(backend_here, range(4), 2) == ["MultiprocessingBackend"] * 4
        assert in_threads(workers, [None, None], 2) == [3, 3]
        nested = in_threads(lambda _: in_threads(backend_here, range(2), 2), range(2), 2)
        assert nested == [["MultiprocessingBackend"] * 2] * 2
    assert in_threads(backend_here, range(4), 2) == ["LokyBackend"] * 4


def in_a_thread_of_its_own(count: int) -> set[int]:
    """Where work is done for a thread that nobody has told of any backend."""
    found: list[int] = []
    thread = Thread(target=lambda: found.extend(in_processes(slow_process_ids, count, -1, 0.05)))
    thread.start()
    thread.join()
    return set(found)


def test_a_backend_for_the_process_is_seen_by_every_thread_until_it_ends() -> None:
    with using_backend("threading", n_jobs=2):
        assert workers(None) == 2
        assert in_a_thread_of_its_own(12) == {os.getpid()}
    assert os.getpid() not in in_a_thread_of_its_own(12)


def test_a_thread_may_choose_another_backend_than_the_process() -> None:
    with using_backend("threading", n_jobs=2), parallel_config("sequential"):
        assert workers(-1) == 1


def test_no_backend_is_no_change() -> None:
    with using_backend(""):
        assert os.getpid() not in in_a_thread_of_its_own(12)


def test_workers_of_a_backend_are_kept_for_the_next_call_and_closed_at_the_end(tmp_path: Path) -> None:
    with using_backend("multiprocessing", n_jobs=2):
        first = both_workers(tmp_path)
        assert set(in_processes(slow_process_ids, 12, 2, 0.05)) <= first
        assert os.getpid() not in first
    for worker in first:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_several_threads_share_the_workers_of_a_backend() -> None:
    def ask(_: int) -> list[int]:
        return in_processes(slow_process_ids, 4, 2, 0.05)

    with using_backend("multiprocessing", n_jobs=2):
        used = in_threads(ask, range(6), 6)
    assert {len(ids) for ids in used} == {4}
    assert len(set().union(*used)) <= 2


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_an_error_of_a_worker_reaches_the_caller_and_spoils_no_later_call(backend: str) -> None:
    with using_backend(backend, n_jobs=2):
        for _ in range(2):
            with pytest.raises(RevFRFError, match="seven"):
                elsewhere(explode, [6, 7, 8])
            assert elsewhere(slow_square, [6, 7, 8]) == [36, 49, 64]


def secrets_of_all_kinds() -> list[Secret]:
    dealt = set_up(256, allow_insecure=True, n_jobs=1)
    return [SecretInt(7), dealt.cs_share, dealt.cc_share, WeakKey.generate(dealt.parameters)]


def test_no_key_and_no_share_ever_reaches_a_worker_of_another_backend() -> None:
    with using_backend("multiprocessing", n_jobs=2):
        for secret in secrets_of_all_kinds():
            with pytest.raises((PicklingError, SecretError), match="secret"):
                in_processes(partial(with_a_secret, secret), 12, 2, 0.05)
        assert len(in_processes(slow_process_ids, 12, 2, 0.05)) == 12


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_backend_that_is_not_installed_is_named_with_its_remedy(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"pip install 'revfrf\[{name}\]'"), using_backend(name):
        pass


def test_a_backend_that_cannot_be_used_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"'abacus'.*Invalid backend"), using_backend("abacus"):
        pass
    with pytest.raises(UsageError, match=r"'threading'.*n_jobs == 0"), using_backend("threading", n_jobs=0):
        pass
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace())
    with pytest.raises(UsageError, match="dask://HOST:8786"), using_backend("dask"):
        pass
    assert in_a_thread_of_its_own(12) != {os.getpid()}


def test_workers_of_a_ray_that_has_ended_are_forgotten_because_closing_them_would_start_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Closing:
        closed = 0

        def __exit__(self, *_: object) -> None:
            Closing.closed += 1

    backend = type("RayBackend", (), {"__module__": "ray.util.joblib.ray_backend"})()
    for connected in (False, True):
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: connected))  # noqa: B023
        monkeypatch.setattr(_abroad, "_open", (SimpleNamespace(backend=backend), Closing()))
        _abroad.close()
        assert Closing.closed == connected
        assert _abroad._open is None


_GROWING = """
import sys
from functools import partial
from pathlib import Path
from time import sleep

import numpy as np

from revfrf.parallel import elsewhere, using_backend

def wait(bins, place):
    Path(place).touch()
    while Path(place).exists():
        sleep(0.01)
    return bins[:1]

if __name__ == "__main__":
    with using_backend(sys.argv[1], n_jobs=2):
        elsewhere(partial(wait, np.ones(4_000_000, np.uint8)), sys.argv[2:])
"""


@pytest.mark.parametrize("killed", [False, True])
def test_bins_that_workers_get_are_never_in_files_even_if_we_are_killed(tmp_path: Path, killed: bool) -> None:
    """joblib would write large arrays into a directory, where a process that is killed leaves them."""
    script, kept, places = tmp_path / "grow.py", tmp_path / "kept", [tmp_path / "a", tmp_path / "b"]
    script.write_text(_GROWING)
    kept.mkdir()
    where = {**os.environ, "JOBLIB_TEMP_FOLDER": str(kept), "TMPDIR": str(kept)}
    command: list[str | Path] = [sys.executable, script, "multiprocessing", *places]
    growing = subprocess.Popen(command, env=where, stderr=subprocess.DEVNULL)  # killed, workers complain
    try:
        end = monotonic() + 60
        while not all(place.exists() for place in places):
            assert growing.poll() is None
            assert monotonic() < end
            sleep(0.01)
        assert not files_with_data(kept)
        if killed:
            growing.kill()
    finally:
        for place in places:
            place.unlink(missing_ok=True)
        assert growing.wait(60) == (-signal.SIGKILL if killed else 0)
    assert not files_with_data(kept)


def files_with_data(directory: Path) -> list[Path]:
    return [file for file in directory.rglob("*") if file.is_file() and file.stat().st_size]
