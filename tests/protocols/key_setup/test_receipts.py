"""Everybody who stays signs for the keys that it has erased, once, and for no others."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from revfrf.errors import ProtocolError, RejectedError
from revfrf.messages.base import Message
from revfrf.messages.key_setup import EpochCertificate, Receipt
from revfrf.names import KGC
from revfrf.protocols.common.epoch import check_receipts, erased
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import announce
from tests.protocols.key_setup.parties import DEALS, Parties, fresh_setup, other_dtpkc, signed_again


def test_first_epoch_erases_nothing(parties: Parties) -> None:
    certificate = parties.enrol()
    assert announce(Silent(), None, certificate) == ()


@dataclass
class Silent:
    """A channel on which everybody accepts whatever epoch, or always the same one."""

    epoch: int | None = None

    def call(self, _: str, request: Message, reply_type: type[Any]) -> Any:
        assert isinstance(request, EpochCertificate)
        return reply_type(epoch=request.epoch if self.epoch is None else self.epoch, receipt=None)


@pytest.mark.parametrize("epoch", [0, 2, 9])
def test_party_that_accepts_another_epoch_is_noticed(parties: Parties, epoch: int) -> None:
    certificate = parties.enrol()
    with pytest.raises(ProtocolError) as caught:
        announce(Silent(epoch), None, certificate)
    assert caught.value.kind == "epoch"


@pytest.fixture
def renewal(parties: Parties) -> tuple[EpochCertificate, EpochCertificate, dict[str, Receipt]]:
    """Two epochs with different keys, and the receipts."""
    first = parties.enrol()
    second, receipts = parties.leave("telco", setup=fresh_setup())
    return first, second, {receipt.party: receipt for receipt in receipts}


Renewal = tuple[EpochCertificate, EpochCertificate, dict[str, Receipt]]


@pytest.mark.parametrize(
    "changes",
    [
        {"party": "bank"},
        {"party": "telco"},
        {"epoch": 2},
        {"erased": bytes(32)},
        {"entered": bytes(32)},
        {"signature": bytes(64)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_receipt_holds_as_it_was_signed_alone(renewal: Renewal, changes: dict[str, Any]) -> None:
    before, after, receipts = renewal
    check_receipts(before, after, list(receipts.values()))
    other = receipts | {"shop": msgspec.structs.replace(receipts["shop"], **changes)}
    with pytest.raises(RejectedError):
        check_receipts(before, after, list(other.values()))


def test_every_member_signs_once_and_nobody_else(renewal: Renewal) -> None:
    before, after, receipts = renewal
    signed = list(receipts.values())
    for wrong in ([], signed[1:], [*signed, signed[0]], [*signed[1:], signed[1]]):
        with pytest.raises(ProtocolError, match="not every party"):
            check_receipts(before, after, wrong)


def test_nobody_signs_for_keys_that_it_keeps(parties: Parties) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco")
    check_receipts(first, second, [])
    with pytest.raises(ProtocolError):
        check_receipts(first, second, [Receipt("bank", 1, bytes(32), bytes(32), bytes(64))])


def test_receipt_holds_between_its_two_epochs_alone(parties: Parties, renewal: Renewal) -> None:
    before, after, receipts = renewal
    other = signed_again(parties.signing, after, **other_dtpkc(after, g0=b"\4"))
    with pytest.raises(ProtocolError, match="something else"):
        check_receipts(before, other, list(receipts.values()))
    with pytest.raises(RejectedError):
        check_receipts(signed_again(parties.signing, before, federation="x"), after, list(receipts.values()))


def test_party_that_gives_no_receipt_is_noticed(parties: Parties) -> None:
    first = parties.enrol()
    channel = parties.network.channel(KGC)
    second = next_epoch(channel, first, ["telco"], 2, fresh_setup(), next(DEALS))
    with pytest.raises(ProtocolError, match="not every party"):
        announce(Silent(), first, second)


def test_different_keys_are_erased_under_different_names(parties: Parties) -> None:
    first = parties.enrol()
    other = other_dtpkc(first, n=b"\7")["dtpkc"]
    names = {erased(dtpkc, member) for member in first.members for dtpkc in (first.dtpkc, other)}
    assert len(names) == 2 * len(first.members)
