"""A call that comes twice changes nothing more than a call that comes once.

The transport answers calls side by side, in threads, and leaves it to each role what a repeated call does.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import RevFRFError
from revfrf.messages.base import Message
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.testing.federations import ignore, prepared_keys, random_case, train
from revfrf.transport.base import Answering
from revfrf.transport.memory import MemoryNetwork
from tests.federations import in_numbers

CASE = random_case(3)


@dataclass
class Doubled:
    """A role that every call reaches twice at the same time. Its caller gets the first answer, if any."""

    role: Answering

    def handle(self, sender: str, message: Message) -> Message:
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(self.role.handle, sender, message) for _ in range(2)]
        errors = [call.exception() for call in calls]
        assert all(error is None or isinstance(error, RevFRFError) for error in errors)
        return calls[errors.index(None) if None in errors else 0].result()


def results(federation: Federation, level: RevocationLevel) -> list[object]:
    """Digests and encrypted predictions before and after a participant leaves, and the requester's quota."""
    found: list[object] = []
    for leavers in ((), ("telco",)):
        if leavers:
            federation.revoke(leavers, level, ignore)
        answer = federation.ask(CASE.without(*leavers).codes, None, "hard", False, lambda _: None)
        books = [party.book.rows for party in federation.with_policies.values()]
        found += [federation.coordinator.digest(), in_numbers(answer.votes), books]
    return found


@pytest.mark.parametrize("level", [1, 2])
def test_calls_that_come_twice_change_nothing_more(
    level: RevocationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = MemoryNetwork.connect

    def doubled(network: MemoryNetwork, name: str, role: str, answering: Answering) -> None:
        connect(network, name, role, Doubled(answering))

    with prepared_keys():
        expected = results(train(CASE), level)
        monkeypatch.setattr(MemoryNetwork, "connect", doubled)
        assert results(train(CASE), level) == expected
