import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from revfrf.crypto.dtpkc.dtpkc import Zeros, ho_enc, par_h_dec2, zero_encryptions
from revfrf.crypto.dtpkc.keys import PublicKey
from revfrf.crypto.dtpkc.pool import ZeroPool
from revfrf.errors import SecretError, UsageError
from tests.conftest import World


def test_what_a_pool_encrypts_decrypts(toy: World) -> None:
    with ZeroPool(toy.alice.public, size=40) as pool:
        assert pool.wait_until_full(30)
        encrypted = ho_enc(toy.alice.public, [1, -2, 3], zeros=pool.take(3))
    assert par_h_dec2(toy.alice, encrypted) == [1, -2, 3]


def test_a_pool_fills_without_being_asked(toy: World) -> None:
    pool = ZeroPool(toy.alice.public, size=4)
    deadline = time.monotonic() + 30
    while len(pool._stock) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(pool._stock) == 4
    pool.close()


def take_at_once(pool: ZeroPool, threads: int, times: int, count: int) -> list[int]:
    """The G parts of what many threads take, all at the same moment."""
    taken: list[int] = []
    start = threading.Barrier(threads)

    def consume() -> None:
        start.wait()
        for _ in range(times):
            taken.extend(zero.g for zero in pool.take(count, n_jobs=1).spend(count))

    consumers = [threading.Thread(target=consume) for _ in range(threads)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    return taken


@pytest.fixture
def hectic() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hectic")
def test_no_zero_leaves_the_pool_twice_even_to_many_threads(toy: World) -> None:
    with ZeroPool(toy.alice.public, size=400) as pool:
        assert pool.wait_until_full(60)
        taken = take_at_once(pool, threads=8, times=20, count=2)
    assert len(taken) == len(set(taken)) == 320


def test_a_pool_gives_more_than_it_holds_and_fills_up_again(toy: World) -> None:
    with ZeroPool(toy.alice.public, size=8) as pool:
        assert pool.wait_until_full(30)
        zeros = pool.take(50).spend(50)
        assert len({zero.g for zero in zeros}) == 50
        assert par_h_dec2(toy.alice, zeros) == [0] * 50
        assert pool.wait_until_full(30)


def _child(pool: ZeroPool, pipe: Connection) -> None:
    """Many threads that take at once, as the first thing after the fork."""
    sys.setswitchinterval(1e-6)
    pipe.send(take_at_once(pool, threads=8, times=1, count=8))
    pipe.close()
    os._exit(0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_never_uses_its_parents_randomness(toy: World) -> None:
    """Two encryptions with one r open each other: c1/c2 = 1 + (m1 - m2)N."""
    context = get_context("fork")
    with ZeroPool(toy.alice.public, size=64) as pool:
        assert pool.wait_until_full(30)
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(pool, sender))
        child.start()
        assert receiver.poll(60)
        childs = set(receiver.recv())
        child.join(60)
        parents = {zero.g for zero in pool.take(64).spend(64)}
    assert len(childs) == 64
    assert len(parents) == 64
    assert not childs & parents


def test_a_closed_pool_is_empty_stopped_and_says_so(toy: World) -> None:
    pool = ZeroPool(toy.alice.public, size=8)
    assert pool.wait_until_full(30)
    pool.close()
    pool.close()
    assert not pool._thread.is_alive()
    assert not pool._stock
    with pytest.raises(UsageError, match="closed"):
        pool.take(1)
    with pytest.raises(UsageError, match="closed"):
        pool.wait_until_full(1)


def test_zeros_of_another_key_are_refused(toy: World) -> None:
    with ZeroPool(toy.alice.public, size=2) as pool, pytest.raises(UsageError, match="another key"):
        ho_enc(toy.bob.public, [1], zeros=pool.take(1))


def test_closing_while_it_fills_leaves_nothing_behind(toy: World) -> None:
    pool = ZeroPool(toy.alice.public, size=100_000)
    pool.take(1)
    assert pool._thread.is_alive()
    pool.close()
    assert not pool._thread.is_alive()
    assert not pool._stock


def test_a_pool_closed_between_two_chunks_drops_the_last_one_too(
    toy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    making, may_finish = threading.Event(), threading.Event()

    def slow(key: PublicKey, count: int, *, n_jobs: int) -> Zeros:
        making.set()
        assert may_finish.wait(30)
        return zero_encryptions(key, count, n_jobs=n_jobs)

    monkeypatch.setattr("revfrf.crypto.dtpkc.pool.zero_encryptions", slow)
    pool = ZeroPool(toy.alice.public, size=8)
    assert making.wait(30)
    closer = threading.Thread(target=pool.close)
    closer.start()
    may_finish.set()
    closer.join(30)
    assert not pool._stock


@pytest.mark.parametrize("size", [0, -1])
def test_an_empty_pool_is_refused(toy: World, size: int) -> None:
    with pytest.raises(UsageError, match="at least one"):
        ZeroPool(toy.alice.public, size)


def test_a_pool_does_not_pickle_or_print_its_stock(toy: World) -> None:
    with ZeroPool(toy.alice.public, size=2) as pool:
        with pytest.raises(SecretError):
            pickle.dumps(pool)
        assert repr(pool) == "<ZeroPool: secret>"
