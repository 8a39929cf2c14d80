"""Moduli: searched for once per process and size, since a search takes seconds."""

from threading import RLock
from time import perf_counter

from revfrf.crypto.dtpkc.keys import Parameters, check_sizes
from revfrf.crypto.dtpkc.strong import SetUp, set_up

_made: dict[tuple[int, bool], SetUp] = {}
_seconds: dict[int, float] = {}
_one_search_at_a_time = RLock()


def cached_setup(key_bits: int, allow_insecure: bool, n_jobs: int) -> SetUp:
    """Return a modulus and its shares, made once per process and size."""
    check_sizes(key_bits, None, allow_insecure)
    with _one_search_at_a_time:
        kind = (key_bits, allow_insecure)
        if kind not in _made:
            _made[kind] = fresh_setup(*kind, n_jobs)
        return _made[kind]


def fresh_setup(key_bits: int, allow_insecure: bool, n_jobs: int, exponent_bits: int | None = None) -> SetUp:
    """Search a modulus that no other forest uses, and that is not cached."""
    with _one_search_at_a_time:
        started = perf_counter()
        made = set_up(key_bits, exponent_bits=exponent_bits, allow_insecure=allow_insecure, n_jobs=n_jobs)
        _seconds[key_bits] = perf_counter() - started
        return made


def fresh_setup_like(p: Parameters, n_jobs: int) -> SetUp:
    """Search a modulus of the same size that no other forest uses."""
    return fresh_setup(p.key_bits, p.allow_insecure, n_jobs, p.exponent_bits)


def drop_cached_setup(parameters: Parameters) -> None:
    """Do not use this modulus for later forests."""
    with _one_search_at_a_time:
        for kind in [kind for kind, made in _made.items() if made.parameters == parameters]:
            del _made[kind]


def search_seconds(key_bits: int) -> float:
    """Return how long the last search for a modulus of this size took, 0 if there was none."""
    return _seconds.get(key_bits, 0.0)
