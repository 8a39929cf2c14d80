"""All cores for a list of independent jobs, in the ways that big-integer work and histograms need.

Powers release the GIL and may need a secret: threads. Table look-ups are Python loops over public values:
processes. These are loky's, or the workers of whatever backend the user has chosen: with
`joblib.parallel_config`, for a thread and the threads that it starts here, or with `using_backend`, for the
whole process. What runs in threads never leaves this process.
"""

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache, partial
from importlib import import_module
from multiprocessing.util import Finalize
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.parallel import BACKENDS, get_active_backend
from loky import BrokenProcessPool, ProcessPoolExecutor

from revfrf import metering
from revfrf.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Seconds of work for which it pays to start processes, and for which to send a message to one that runs
# already, or to a worker of another backend, which may be on another machine.
_WORTH_STARTING, _WORTH_SENDING, _WORTH_A_JOURNEY = 0.01, 0.002, 0.02
_IDLE = 300  # seconds after which worker processes that have nothing to do end


class _Choice(NamedTuple):
    """A backend of joblib, and how many of its workers to use if nobody says."""

    backend: Any
    n_jobs: int | None

    @property
    def is_ours(self) -> bool:
        """Whether it is joblib's default, which means worker processes of this module."""
        return isinstance(self.backend, BACKENDS["loky"])


_everywhere: _Choice | None = None


def _chosen() -> _Choice:
    """What this thread has chosen, or else the whole process."""
    choice = _Choice(*get_active_backend())
    return _everywhere if _everywhere is not None and choice.is_ours else choice


def workers(n_jobs: int | None) -> int:
    """How many workers `n_jobs` asks for, counted as joblib does: -1 for all cores, None mostly for one."""
    if n_jobs == 1:
        return 1
    choice = _chosen()
    try:
        return int(choice.backend.effective_n_jobs(choice.n_jobs if n_jobs is None else n_jobs))
    except (TypeError, ValueError):
        raise UsageError(f"n_jobs={n_jobs!r}: give a number of workers, or -1 for all cores") from None


# -- where the user says -----------------------------------------------------------------------------


@contextmanager
def using_backend(name: str, address: str = "", n_jobs: int = -1) -> Iterator[None]:
    """Use `n_jobs` workers of this backend of joblib in all threads that have chosen no other; "" is none.

    For "ray" the address is ray://HOST:PORT, or nothing for a Ray of this process's own, unless it is
    connected to one already; for "dask" it is dask://HOST:PORT. Raises UsageError.
    """
    global _everywhere
    if not name:
        yield
        return
    with ExitStack() as stack:
        try:
            parameters = stack.enter_context(_CLUSTERS[name](address)) if name in _CLUSTERS else {}
            with parallel_config(name, **parameters):
                choice = _Choice(get_active_backend()[0], n_jobs)
            choice.backend.effective_n_jobs(n_jobs)
        except ImportError:
            fix = f"pip install 'revfrf[{name}]', here and where its workers are"
            raise UsageError(f"the backend {name!r} is not installed; {fix}") from None
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"the backend {name!r} {address} cannot be used: {error}") from error
        before, _everywhere = _everywhere, choice
        try:
            yield
        finally:
            _everywhere = before
            _abroad.close()


@contextmanager
def _ray(address: str) -> Iterator[dict[str, Any]]:
    ray = import_module("ray")
    import_module("ray.util.joblib").register_ray()
    if ray.is_initialized():
        yield {}
        return
    if address:
        ray.init(address, log_to_driver=False)
    else:
        ray.init("local", include_dashboard=False, log_to_driver=False)
    try:
        yield {}
    finally:
        ray.shutdown()


@contextmanager
def _dask(address: str) -> Iterator[dict[str, Any]]:
    distributed = import_module("distributed")
    if not address:
        raise ValueError("say where its scheduler is, like dask://HOST:8786")
    with distributed.Client(address.replace("dask://", "tcp://"), set_as_default=False) as client:
        yield {"client": client}


_CLUSTERS = {"ray": _ray, "dask": _dask}


# -- threads of this process -------------------------------------------------------------------------


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int) -> list[Result]:
    """Return `[function(x) for x in items]`, computed by `n_jobs` threads of this process (-1: all cores)."""
    return _threaded(function, items, min(workers(n_jobs), len(items)))


def as_done(function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int) -> Iterator[Result]:
    """Yield `function(x)` for each of the items when it is done, by `n_jobs` threads of this process."""
    threads = min(workers(n_jobs), len(items))
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        started = [pool.submit(function, item) for item in items]
        try:
            for future in as_completed(started):
                yield future.result()
        finally:
            for future in started:
                future.cancel()


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return `[function(x) for x in items]`, all at once: for calls to other parties, which mostly wait.

    If some fail, all the others still end, so that nothing is under way when the caller tries again. Then the
    error of the first in `items` is raised.
    """
    return _threaded(function, items, min(len(items), _calls_at_once.get()))


_calls_at_once = ContextVar("calls at once", default=sys.maxsize)


@contextmanager
def calls_at_once(number: int) -> Iterator[None]:
    """Make at most this number of calls side by side, for parties that share the cores of one process."""
    token = _calls_at_once.set(number)
    try:
        yield
    finally:
        _calls_at_once.reset(token)


def _threaded(function: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    if threads <= 1:
        return [function(item) for item in items]
    meter, choice = metering.current(), _chosen()

    def measured(item: Item) -> Result:
        same = nullcontext() if choice.is_ours else parallel_config(choice.backend, n_jobs=choice.n_jobs)
        with metering.continued(meter), same:
            return function(item)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(measured, items))


# -- other processes ---------------------------------------------------------------------------------


def in_processes(
    function: Callable[[int], list[Result]], count: int, n_jobs: int, seconds: float
) -> list[Result]:
    """`function(count)` as several calls with smaller counts in worker processes, their results in one list.

    `seconds` is about what each of them takes: little work stays in this process. The function and what it
    carries are pickled: secrets refuse that. Several threads may call this at once.
    """
    jobs, choice = workers(n_jobs), _chosen()
    parts = _parts(choice, count * seconds, jobs)
    if not parts:
        return function(count)
    chunks = max(1, min(count, parts))
    counts = [count * (i + 1) // chunks - count * i // chunks for i in range(chunks)]
    return [result for results in _calls(function, counts, choice, jobs) for result in results]


def parts_elsewhere(seconds: float, n_jobs: int) -> int:
    """Into how many parts to cut work of this many seconds for `elsewhere`; 0 if it is to be done here.

    That is so if it is little, if the user has chosen no backend, or one whose workers are threads.
    """
    choice = _chosen()
    if choice.is_ours or getattr(choice.backend, "supports_sharedmem", False):
        return 0
    return _parts(choice, seconds, workers(n_jobs))


def elsewhere(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`[function(x) for x in items]` by the workers of the backend that the user has chosen.

    The function and the items are pickled: secrets refuse that. Several threads may call this at once.
    """
    return _calls(function, items, _chosen(), len(items))


def _parts(choice: _Choice, seconds: float, jobs: int) -> int:
    """Into how many parts to cut work of this many seconds; 0 if it is best done here."""
    if choice.is_ours:
        least, each = 0.0 if _pool.cache_info().currsize else _WORTH_STARTING, _WORTH_SENDING
    else:
        least, each = 2 * _WORTH_A_JOURNEY, _WORTH_A_JOURNEY
    return 0 if jobs == 1 or seconds < least else max(1, min(jobs, int(seconds / each)))


def _calls(
    function: Callable[[Item], Result], items: Sequence[Item], choice: _Choice, jobs: int
) -> list[Result]:
    """`[function(x) for x in items]` by workers, whose work is on this process's account."""
    call = partial(_measured, function)
    done = _in_pool(call, items, jobs) if choice.is_ours else _abroad.calls(call, items, choice)
    for _, work in done:
        metering.add_work(work)
    return [result for result, _ in done]


def _measured(function: Callable[[Item], Result], item: Item) -> tuple[Result, metering.Work]:
    """The result, and the work that the worker process did for it."""
    ledger = metering.Ledger()
    with metering.measured(ledger, "worker", "any"):
        result = function(item)
    return result, ledger.entries["worker", "any"]


def _in_pool(function: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> list[Result]:
    """joblib's default backend would do the same, but looks for results only every 10 ms."""
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


class _Abroad:
    """The workers of a chosen backend, kept from one call to the next: to start them may take seconds.

    They do one call at a time, because a backend is no better than that, with all of their number.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without workers: those of a parent process are not those of its child."""
        self._lock = Lock()
        self._open: tuple[_Choice, Any] | None = None

    def calls(
        self, function: Callable[[Item], Result], items: Sequence[Item], choice: _Choice
    ) -> list[Result]:
        """`[function(x) for x in items]`. After an error the next call starts new workers."""
        calls = [delayed(partial(function, item))() for item in items]  # Ray would keep arguments for good
        with self._lock:
            try:
                return list(self._parallel(choice)(calls))
            except BaseException:
                self._forget()
                raise

    def _parallel(self, choice: _Choice) -> Any:
        if self._open is None or self._open[0] != choice:
            self._forget()
            n_jobs = -1 if choice.n_jobs is None else choice.n_jobs
            shape = {"pre_dispatch": "all", "batch_size": 1, "max_nbytes": None}  # and no labels in files
            try:
                parallel = Parallel(n_jobs=n_jobs, backend=choice.backend, **shape).__enter__()
            except ValueError as error:
                raise UsageError(f"n_jobs={n_jobs}: the chosen backend does not start: {error}") from error
            self._open = choice, parallel
        return self._open[1]

    def close(self) -> None:
        """Let the workers go."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._open is not None:
            (choice, parallel), self._open = self._open, None
            ray = sys.modules.get("ray")
            if ray is None or ray.is_initialized() or not type(choice.backend).__module__.startswith("ray."):
                with suppress(Exception):  # they may have gone by themselves; after its end, Ray starts again
                    parallel.__exit__(None, None, None)


_abroad = _Abroad()
atexit.register(_abroad.close)
os.register_at_fork(after_in_child=_abroad.reset)


def is_compiled(function: Callable[..., object]) -> bool:
    """Return whether a kernel's machine code is at hand, so that its next call need not wait for it."""
    compiled: Any = function
    if compiled.signatures:
        return True
    code, kept = compiled.py_func.__code__, compiled.stats.cache_path
    source = Path(code.co_filename)
    found = Path(kept).glob(f"{source.stem}.{code.co_name}-{code.co_firstlineno}.*.nbi") if kept else ()
    return any(file.stat().st_mtime >= source.stat().st_mtime for file in found)
