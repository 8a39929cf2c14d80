import os
import signal
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkContext, SpawnContext
from pickle import PicklingError
from time import sleep

import pytest
from joblib import parallel_config
from loky import BrokenProcessPool

from revfrf.crypto.parallel import _pool, in_processes, in_threads
from revfrf.crypto.secret import SecretInt
from revfrf.errors import RevFRFError


def slow_square(x: int) -> int:
    sleep(0.002)
    return x * x


def slow_process_ids(count: int) -> list[int]:
    sleep(0.02 * count)
    return [os.getpid()] * count


def with_a_secret(_: SecretInt, count: int) -> list[int]:
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


def test_large_work_goes_to_other_processes_and_small_work_starts_none() -> None:
    _pool.cache_clear()
    assert set(in_processes(slow_process_ids, 2, 2, 0.001)) == {os.getpid()}
    assert len(set(in_processes(slow_process_ids, 12, 2, 0.05))) > 1
    assert set(in_processes(slow_process_ids, 12, 1, 0.05)) == {os.getpid()}


def test_small_work_goes_to_processes_that_run_and_have_their_tables() -> None:
    workers = set(in_processes(slow_process_ids, 12, 2, 0.05))
    assert set(in_processes(slow_process_ids, 1, 2, 0.001)) <= workers
    assert os.getpid() not in workers


def test_a_worker_that_was_killed_is_replaced() -> None:
    before = set(in_processes(slow_process_ids, 12, 2, 0.05))
    os.kill(min(before), signal.SIGKILL)
    after = set(in_processes(slow_process_ids, 12, 2, 0.05))
    assert os.getpid() not in after
    assert not before & after


def test_workers_outlive_ctrl_c() -> None:
    before = set(in_processes(slow_process_ids, 12, 2, 0.05))
    for worker in before:
        os.kill(worker, signal.SIGINT)
    assert set(in_processes(slow_process_ids, 12, 2, 0.05)) == before


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
