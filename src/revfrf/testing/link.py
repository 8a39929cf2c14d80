"""A link with delay, limited bandwidth, loss and cuts: a small TCP proxy on loopback.

Let a party connect to the proxy instead of the coordinator's own address.

>>> import socket
>>> server = socket.create_server(("127.0.0.1", 0))
>>> with FaultyLink(f"127.0.0.1:{server.getsockname()[1]}", round_trip=0.02) as link:
...     client = socket.create_connection(link.host_and_port)
...     accepted, _ = server.accept()
...     client.sendall(b"hello")
...     accepted.recv(5)
b'hello'
>>> for each in (client, accepted, server):
...     each.close()
"""

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from threading import Thread
from typing import Any

_CHUNK = 16 * 1024
_PACKET = 1460
_RETRANSMISSION = 0.2
"""Seconds after which TCP sends a lost packet again, at least."""


class FaultyLink:
    """A TCP proxy to `target` ("host:port") whose link can be slow, lossy, or down. A context manager.

    `round_trip` is the delay in seconds of a question and its answer together. `bytes_per_second` limits each
    connection and direction. `loss` is the share of lost packets, chosen by `seed`; TCP sends them again, so
    a loss shows as a pause of at least 0.2 s. All three may be changed at any time. The proxy listens at
    `address`; `connections` and `bytes` count what it has accepted and passed on.
    """

    def __init__(
        self,
        target: str,
        *,
        round_trip: float = 0.0,
        bytes_per_second: float | None = None,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.round_trip, self.bytes_per_second, self.loss = round_trip, bytes_per_second, loss
        self.connections = self.bytes = 0
        self._rng = random.Random(seed)  # noqa: S311 (it decides which packets are late)
        self._open: set[asyncio.Task[None]] = set()
        self._up = True
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="faulty link", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.host_and_port: tuple[str, int] = self._server.sockets[0].getsockname()
        self.address = f"{self.host_and_port[0]}:{self.host_and_port[1]}"

    def __enter__(self) -> "FaultyLink":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- faults ---------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Break all connections now. New ones are accepted."""
        self._do(self._break())

    def cut(self, seconds: float | None = None) -> None:
        """Break all connections and refuse new ones, for some seconds or until `mend`."""
        self._up = False
        self.drop()
        if seconds is not None:
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self.mend)

    def mend(self) -> None:
        """Accept connections again."""
        self._up = True

    def close(self) -> None:
        """Break all connections and stop listening."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._server.close)
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- the proxy, in its own thread -----------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _break(self) -> None:
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, writers = asyncio.current_task(), [writer]
        if not self._up or task is None:
            writer.transport.abort()
            return
        self._open.add(task)
        self.connections += 1
        try:
            there, back = await asyncio.open_connection(*self._target)
            writers.append(back)
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        except (OSError, asyncio.CancelledError):
            pass  # the target is gone, one side has hung up, or the link is cut
        finally:
            self._open.discard(task)
            for each in writers:
                each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read at the pace of the bandwidth, and deliver everything later, in order."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.ensure_future(self._deliver(under_way, writer))
        try:
            due, data = 0.0, b"something"
            while data:
                data = await reader.read(_CHUNK)
                if self.bytes_per_second:
                    await asyncio.sleep(len(data) / self.bytes_per_second)
                due = max(due, self._loop.time() + self.round_trip / 2 + self._pause(len(data)))
                under_way.put_nowait((due, data))
            await delivering
        finally:
            delivering.cancel()

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(due - self._loop.time())
            if not data:  # the end of what this side sends
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return
            self.bytes += len(data)
            writer.write(data)
            await writer.drain()

    def _pause(self, size: int) -> float:
        """Return for how long a chunk waits until its lost packets have been sent again."""
        packets = -(-size // _PACKET)
        lost = self._rng.random() < 1 - (1 - self.loss) ** packets
        return max(_RETRANSMISSION, self.round_trip) if lost else 0.0
