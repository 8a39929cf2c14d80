"""Letters, and CS between their writer and their reader, who passes on what it likes."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from revfrf.errors import RejectedError
from revfrf.messages.key_setup import EpochAccepted
from revfrf.testing.recorders import Recorder
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import encode
from revfrf.transport.connections import Timeouts
from revfrf.transport.frames import Frame, frames
from revfrf.transport.letters import Sealing
from revfrf.transport.passport import PartyId
from tests.transport.asking import CERTIFICATE, digests
from tests.transport.links import LIMITS, SOON, RawLink, endpoint_of, known, nothing, place

CS, BANK, KGC = PartyId("CS", "CS"), PartyId("participant", "bank"), PartyId("KGC", "KGC")
ACCEPTED = encode(EpochAccepted(epoch=CERTIFICATE.epoch))


@dataclass
class Reading:
    """Somebody who is asked by letters, and what it is asked."""

    endpoint: Endpoint
    asked: Recorder
    cs: RawLink


@contextmanager
def reading(name: str = "bank", sealing: Sealing | None = None) -> Iterator[Reading]:
    asked = Recorder(digests)
    endpoint = endpoint_of(name, asked, sealing=sealing)
    yield Reading(endpoint, asked, RawLink(endpoint, "CS"))


@dataclass
class Writing:
    """KGC, who calls bank, and CS, who passes on what it likes."""

    endpoint: Endpoint
    cs: RawLink
    waiting: Future[EpochAccepted]
    hello: Frame

    def offers(self, data: bytes) -> None:
        """CS says that this is bank's offer."""
        self.cs.say(*frames("reply", "bank", "KGC", self.hello.call, data))

    def letter(self) -> Frame:
        """What KGC writes to bank, who has offered a key."""
        self.offers(known("bank").sealing.offer(place(self.hello)))
        [written] = self.cs.heard(kind="call")
        return written

    def refuses(self) -> RejectedError:
        """Whatever it was offered: KGC says nothing more."""
        with pytest.raises(RejectedError) as caught:
            self.waiting.result(timeout=SOON)
        assert [frame.kind for frame in self.cs.heard()] == ["hello"]
        assert self.endpoint._waiting == {}
        return caught.value


@contextmanager
def writing(limits: Timeouts = LIMITS, **more: Any) -> Iterator[Writing]:
    kgc = endpoint_of("KGC", nothing, limits, **more)
    cs = RawLink(kgc, "CS")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(kgc.call, "bank", CERTIFICATE, EpochAccepted)
        [hello] = cs.heard()
        assert (hello.kind, hello.size, hello.piece) == ("hello", 0, b"")
        yield Writing(kgc, cs, waiting, hello)
