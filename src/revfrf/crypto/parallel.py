"""All cores for a list of independent jobs, in the two ways that big-integer work needs.

Powers release the GIL and may need a secret: threads. Table look-ups are Python loops over public values:
processes, through joblib, so that `joblib.parallel_config` can send them to another backend. What runs in
threads never leaves this process.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs

from revfrf import metering
from revfrf.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORTH_PROCESSES = 0.01
"""Seconds of work above which it pays to send it to other processes."""


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
    if jobs == 1 or count * seconds < _WORTH_PROCESSES:
        return function(count)
    chunks = min(count, jobs)
    counts = [count * (i + 1) // chunks - count * i // chunks for i in range(chunks)]
    answers = Parallel(n_jobs=jobs, pre_dispatch="all")(delayed(_measured)(function, c) for c in counts)
    done: list[Result] = []
    for results, work in answers:
        done += results
        metering.add_work(work)
    return done


def _measured(function: Callable[[int], list[Result]], count: int) -> tuple[list[Result], metering.Work]:
    """The results, and the work that the worker process did for them."""
    ledger = metering.Ledger()
    with metering.measured(ledger, "worker", "any"):
        results = function(count)
    return results, ledger.entries["worker", "any"]
