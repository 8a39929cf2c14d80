"""Encryptions of zero made ahead of time, so that encrypting later costs one multiplication."""

import os
from collections import deque
from threading import Condition, Thread
from types import TracebackType
from weakref import WeakSet

from revfrf.crypto.dtpkc.dtpkc import Zeros, zero_encryptions
from revfrf.crypto.dtpkc.keys import Ciphertext, PublicKey
from revfrf.crypto.secret import Secret
from revfrf.errors import UsageError

_CHUNK = 16
"""Zeros made between two looks at whether to go on: some tens of milliseconds of work."""


class ZeroPool(Secret):
    """A stock of encryptions of zero under one key, kept full by a thread.

    ::

        with ZeroPool(key, size=1000) as pool:
            ciphertexts = ho_enc(key, messages, zeros=pool.take(len(messages)))

    Each zero leaves the pool once. A forked child begins with an empty pool of its own: randomness used by
    two processes would open what both encrypt.
    """

    def __init__(self, key: PublicKey, size: int) -> None:
        if size < 1:
            raise UsageError(f"size={size}: a pool holds at least one encryption of zero")
        self._key, self._size = key, size
        self._closed = False
        self._begin()
        self._thread.start()
        _POOLS.add(self)

    def _begin(self) -> None:
        """An empty stock, and a thread to fill it that does not run yet."""
        self._changed = Condition()
        self._stock: deque[Ciphertext] = deque()
        self._thread = Thread(target=self._refill, name="zero-pool", daemon=True)

    def _refill(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._stock) < self._size)
                if self._closed:
                    return
                missing = self._size - len(self._stock)
            made = zero_encryptions(self._key, min(_CHUNK, missing), n_jobs=1)
            with self._changed:
                self._stock.extend(made.spend(len(made)))
                self._changed.notify_all()

    def _running(self) -> Condition:
        """The lock, once the thread runs: in a forked child it starts with the first use."""
        with self._changed:
            if self._closed:
                raise UsageError("the pool is closed; make a new one")
            if self._thread.ident is None:
                self._thread.start()
        return self._changed

    def take(self, count: int, *, n_jobs: int = -1) -> Zeros:
        """`count` zeros: from the stock as far as it goes, the rest made on the spot."""
        with self._running():
            taken = [self._stock.popleft() for _ in range(min(count, len(self._stock)))]
            self._changed.notify_all()
        fresh = zero_encryptions(self._key, count - len(taken), n_jobs=n_jobs)
        return Zeros(self._key, taken + fresh.spend(len(fresh)))

    def wait_until_full(self, timeout: float) -> bool:
        """Whether the stock was full within `timeout` seconds."""
        with self._running():
            return self._changed.wait_for(lambda: len(self._stock) >= self._size, timeout)

    def close(self) -> None:
        """Stop the thread and drop the stock."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        self._stock.clear()

    def __enter__(self) -> "ZeroPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_POOLS: WeakSet[ZeroPool] = WeakSet()


def _begin_anew_in_child() -> None:
    """Before any other code of the child runs: the parent's stock and perhaps held lock came along."""
    for pool in _POOLS:
        pool._begin()


os.register_at_fork(after_in_child=_begin_anew_in_child)
