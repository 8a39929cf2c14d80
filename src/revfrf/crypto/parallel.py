"""All cores for a list of independent jobs, in the two ways that big-integer work needs.

Powers release the GIL and may need a secret: threads. Table look-ups are Python loops over public values:
processes, those of loky, or of the backend that `joblib.parallel_config` names. What runs in threads never
leaves this process.
"""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from multiprocessing.util import Finalize
from threading import Lock
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import BACKENDS, get_active_backend
from loky import BrokenProcessPool, ProcessPoolExecutor

from revfrf import metering
from revfrf.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORTH_STARTING = 0.01
"""Seconds of work for which it pays to start processes."""

_WORTH_SENDING = 0.002
"""Seconds of work in one message to a process that runs already."""

_IDLE = 300
"""Seconds after which worker processes that have nothing to do end."""


def workers(n_jobs: int | None) -> int:
    """How many workers `n_jobs` asks for, counted as joblib does: -1 for all cores, None mostly for one."""
    try:
        return int(effective_n_jobs(n_jobs))
    except (TypeError, ValueError):
        raise UsageError(f"n_jobs={n_jobs!r}: give a number of workers, or -1 for all cores") from None


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int) -> list[Result]:
    """`[function(x) for x in items]` on threads of this process; `n_jobs` as in joblib, -1 for all cores."""
    jobs = min(workers(n_jobs), len(items))
    if jobs <= 1:
        return [function(item) for item in items]
    meter = metering.current()

    def measured(item: Item) -> Result:
        with metering.continued(meter):
            return function(item)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(measured, items))


def in_processes(
    function: Callable[[int], list[Result]], count: int, n_jobs: int, seconds: float
) -> list[Result]:
    """`function(count)` as several calls with smaller counts in worker processes, their results in one list.

    `seconds` is about what each of them takes: little work stays in this process. The function and what it
    carries are pickled: secrets refuse that. Several threads may call this at once.
    """
    jobs = workers(n_jobs)
    if jobs == 1 or (count * seconds < _WORTH_STARTING and not _pool.cache_info().currsize):
        return function(count)
    chunks = max(1, min(count, jobs, int(count * seconds / _WORTH_SENDING)))
    counts = [count * (i + 1) // chunks - count * i // chunks for i in range(chunks)]
    done: list[Result] = []
    for results, work in _calls(partial(_measured, function), counts, jobs):
        done += results
        metering.add_work(work)
    return done


def _calls(function: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> list[Result]:
    """joblib's default backend would do the same, but looks for results only every 10 ms."""
    if not isinstance(get_active_backend()[0], BACKENDS["loky"]):
        return list(Parallel(n_jobs=jobs, pre_dispatch="all")(delayed(function)(item) for item in items))
    try:
        return list(_running(jobs).map(function, items))
    except BrokenProcessPool:  # a worker was killed, perhaps long ago
        _pool.cache_clear()
        return list(_running(jobs).map(function, items))


def _running(jobs: int) -> ProcessPoolExecutor:
    with _starting:
        return _pool(jobs)


@cache
def _pool(jobs: int) -> ProcessPoolExecutor:
    """Worker processes, which keep their tables from one call to the next."""
    deaf = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}  # Ctrl-C is for us
    pool = ProcessPoolExecutor(max_workers=jobs, timeout=_IDLE, **deaf)
    Finalize(pool, pool.shutdown, kwargs={"kill_workers": True}, exitpriority=0)  # or the end waits for them
    return pool


_starting = Lock()
os.register_at_fork(after_in_child=_pool.cache_clear)


def _measured(function: Callable[[int], list[Result]], count: int) -> tuple[list[Result], metering.Work]:
    """The results, and the work that the worker process did for them."""
    ledger = metering.Ledger()
    with metering.measured(ledger, "worker", "any"):
        results = function(count)
    return results, ledger.entries["worker", "any"]
