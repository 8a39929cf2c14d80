"""All cores for a list of independent jobs, in the two ways that big-integer work needs.

Powers release the GIL and may need a secret: threads. Table look-ups are Python loops over public values:
processes, through joblib, so that `joblib.parallel_config` can send them to another backend. What runs in
threads never leaves this process.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import perf_counter
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs

from revfrf import metering
from revfrf.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

_PROBE = 4
"""Items done at once, by the clock, to see whether the others are worth other processes."""
_WORTH_PROCESSES = 0.05
"""Seconds of remaining work above which they pay off."""
_CHUNKS_PER_WORKER = 4
"""So that a worker on a busy core does not keep the others waiting."""


_one_at_a_time = Lock()


def workers(n_jobs: int) -> int:
    """How many workers `n_jobs` asks for, counted as joblib does: -1 for all cores."""
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


def in_processes(function: Callable[[int], list[Result]], count: int, n_jobs: int) -> list[Result]:
    """`function(count)` as several calls with smaller counts in worker processes, their results in one list.

    The function and what it carries are pickled: secrets refuse that. Threads that call this take turns.
    """
    started = perf_counter()
    done = function(min(count, _PROBE))
    rest = count - len(done)
    jobs = min(workers(n_jobs), rest)
    if jobs <= 1 or (perf_counter() - started) / len(done) * rest < _WORTH_PROCESSES:
        return done + (function(rest) if rest else [])
    chunks = min(rest, _CHUNKS_PER_WORKER * jobs)
    counts = [rest * (i + 1) // chunks - rest * i // chunks for i in range(chunks)]
    with _one_at_a_time:
        answers = Parallel(n_jobs=jobs)(delayed(_measured)(function, c) for c in counts)
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
