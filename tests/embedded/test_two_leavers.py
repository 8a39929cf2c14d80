"""A second participant asks to leave while CS is killed at the end of the first revocation."""

import pytest

from revfrf.messages.base import Done
from revfrf.messages.events import Event, Report
from revfrf.names import KGC
from revfrf.testing.federations import ignore, random_case, train


class Killed(BaseException):
    """CS's process ends here."""


def test_cs_ends_the_first_revocation_before_it_enters_the_epoch_of_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = random_case(5)
    federation = train(case)
    first, second, *_ = sorted(federation.participants)
    expected = train(case)
    expected.revoke([first, second], 1, ignore)
    kgc, certify = federation.kgc, federation.kgc._certify

    def ask_to_leave_first(report: Report) -> Event:
        request = federation.participants[second].leave(1)
        federation.network.channel(second).call(KGC, request, Done)
        return certify(report)

    def kill() -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(kgc, "_certify", ask_to_leave_first)
        patched.setattr(federation.coordinator.store, "finish", kill)
        with pytest.raises(Killed):
            federation.revoke([first], 1, ignore)
    federation.resume(ignore)
    assert [c.leavers for c in federation.coordinator.certificates] == [(), (first,), (second,)]
    assert federation.coordinator.digest() == expected.coordinator.digest()
