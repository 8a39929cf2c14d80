import os
from functools import partial
from pickle import PicklingError
from time import sleep

import pytest

from revfrf.crypto.parallel import in_processes, in_threads
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


def test_large_work_goes_to_other_processes_and_small_work_stays() -> None:
    assert set(in_processes(slow_process_ids, 2, 2, 0.001)) == {os.getpid()}
    assert len(set(in_processes(slow_process_ids, 12, 2, 0.05))) > 1
    assert set(in_processes(slow_process_ids, 12, 1, 0.05)) == {os.getpid()}


def test_a_secret_never_reaches_a_worker_process() -> None:
    with pytest.raises(PicklingError):
        in_processes(partial(with_a_secret, SecretInt(7)), 12, 2, 0.05)
