import os
import pickle
import sys
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from revfrf.crypto.dtpkc import ho_enc, par_h_dec2
from revfrf.crypto.pool import ZeroPool
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


def test_no_zero_leaves_the_pool_twice_even_to_many_threads(toy: World) -> None:
    taken: list[int] = []
    with ZeroPool(toy.alice.public, size=64) as pool:

        def consume() -> None:
            for _ in range(20):
                taken.extend(zero.g for zero in pool.take(5, n_jobs=1).reveal())

        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(taken) == len(set(taken)) == 400


def test_a_pool_gives_more_than_it_holds_and_fills_up_again(toy: World) -> None:
    with ZeroPool(toy.alice.public, size=8) as pool:
        assert pool.wait_until_full(30)
        zeros = pool.take(50).reveal()
        assert len({zero.g for zero in zeros}) == 50
        assert par_h_dec2(toy.alice, zeros) == [0] * 50
        assert pool.wait_until_full(30)


def _child(pool: ZeroPool, pipe: Connection) -> None:
    """Many threads that take at once, as the first thing after the fork."""
    sys.setswitchinterval(1e-6)
    taken: list[int] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        taken.extend(zero.g for zero in pool.take(8, n_jobs=1).reveal())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.send(taken)
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
        parents = {zero.g for zero in pool.take(64).reveal()}
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
    pool.close()
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
