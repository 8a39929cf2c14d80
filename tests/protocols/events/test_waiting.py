"""Events while an owner is away whose bins CS has forgotten: nobody waits, and all is made good later."""

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError
from revfrf.messages.events import CompletionReceipt
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols.audit import audit
from revfrf.testing.federations import ignore, train
from revfrf.testing.peers import offline
from tests.protocols.happened import CASE, forgetting, kgc_key, leave, of_four

LEVELS: tuple[RevocationLevel, ...] = (1, 2)
any_level = pytest.mark.parametrize("level", LEVELS)


def check_whole_without(federation: Federation, *leavers: str) -> None:
    """The forest is the one without them, all have signed, and the audit holds."""
    cs = federation.coordinator
    assert cs.digest() == train(of_four(CASE).without(*leavers)).coordinator.digest()
    assert not cs.certificates[-1].waits_for
    assert not cs.certificates[-1].unsigned
    found = audit(cs, kgc_key(federation).verify_key, ignore)
    assert (found.problems, found.missing_receipts) == ({}, ())


@any_level
def test_event_is_certified_at_once_and_completed_when_the_owner_is_back(level: RevocationLevel) -> None:
    federation = forgetting("telco")
    with offline(federation.network, "telco"):
        certificate = leave(federation, {"bank": level})
        assert certificate.waits_for == ("telco",)
        certificate.verify(kgc_key(federation).verify_key)
        assert federation.coordinator.ready
        assert not [name for name in federation.coordinator.store.bins if name.startswith("bank/")]
    federation.resume(ignore)
    last = federation.coordinator.certificates[-1]
    assert last.core == certificate.core
    assert sum(isinstance(receipt, CompletionReceipt) for receipt in last.receipts) == 1
    check_whole_without(federation, "bank")


@any_level
def test_another_one_leaves_before_the_owner_is_back(level: RevocationLevel) -> None:
    federation = forgetting("telco")
    with offline(federation.network, "telco"):
        first = leave(federation, {"bank": level})
        second = leave(federation, {"shop": level})
        assert (first.waits_for, second.waits_for) == (("telco",), ("telco",))
        assert second.core.report.digest_before == first.digest_after
    federation.resume(ignore)
    assert federation.coordinator.certificates[1] == first  # what is over is not completed
    check_whole_without(federation, "bank", "shop")


@any_level
def test_owner_that_was_away_leaves_itself(level: RevocationLevel) -> None:
    """Nothing has to be grown with its bins any more."""
    federation = forgetting("telco")
    request = federation.participants["telco"].leave(level)
    with offline(federation.network, "telco"):
        leave(federation, {"bank": 1})
    assert request.epoch == 1
    federation.kgc.announce()  # it is back, and hears of the epoch
    certificate = leave(federation, {"telco": level})
    assert certificate.leavers == ("telco",)
    check_whole_without(federation, "bank", "telco")


def test_owner_that_is_back_and_gone_again_has_completed_nothing() -> None:
    federation = forgetting("telco")
    with offline(federation.network, "telco"):
        before = leave(federation, {"bank": 1})
        for _ in range(2):
            federation.resume(ignore)
        assert federation.coordinator.certificates[-1] == before
        with pytest.raises(AbsentError, match="'telco'"):
            federation.votes(of_four(CASE).without("bank").codes, CASE.n_rows, "hard")
    federation.resume(ignore)
    check_whole_without(federation, "bank")
