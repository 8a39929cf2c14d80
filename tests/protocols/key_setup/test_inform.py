"""KGC tells a member all the epochs that it has missed, one after the other, until it is in the last one."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from revfrf.errors import AbsentError
from revfrf.messages.base import Message
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import KGC
from revfrf.protocols.key_setup import inform
from revfrf.testing.peers import FaultyPeer, LyingChannel, failing, replaced
from revfrf.testing.refusals import refused
from tests.protocols.key_setup.parties import Parties, following, signed_again


@dataclass
class Telling:
    """KGC's channel, and the numbers of the epochs that were sent over it."""

    parties: Parties
    told: list[int] = field(default_factory=list)

    def call(self, recipient: str, request: Message, reply_type: type[Any]) -> Any:
        assert isinstance(request, EpochCertificate)
        self.told.append(request.epoch)
        return self.parties.network.channel(KGC).call(recipient, request, reply_type)


@dataclass
class Silent:
    """A channel on which everybody says that it is in this epoch, whatever it is sent."""

    epoch: int

    def call(self, _: str, request: Message, reply_type: type[Any]) -> Any:
        assert isinstance(request, EpochCertificate)
        return reply_type(epoch=self.epoch)


@pytest.fixture
def epochs(parties: Parties) -> list[EpochCertificate]:
    """Three epochs, of which all members know the first alone."""
    found = [parties.enrol("shares")]
    for leaver in ("shop", "telco"):
        found.append(following(parties, found[-1], leaver))
    return found


def test_member_that_missed_several_epochs_is_told_all_of_them_in_turn(
    parties: Parties, epochs: list[EpochCertificate]
) -> None:
    channel = Telling(parties)
    assert inform(channel, epochs[1:], "bank") == 3
    assert channel.told == [2, 3]
    assert parties.identities["bank"].certificate == epochs[2]


def test_epoch_that_is_left_out_is_entered_by_nobody(
    parties: Parties, epochs: list[EpochCertificate]
) -> None:
    with refused("order", by="bank", unchanged=lambda: parties.identities["bank"].certificate):
        inform(Telling(parties), epochs[2:], "bank")


@pytest.mark.parametrize(("known", "told"), [(1, [1, 2, 3]), (2, [1, 3]), (3, [1])])
def test_member_is_not_told_again_what_it_knows_although_kgc_does_not_know_that(
    parties: Parties, epochs: list[EpochCertificate], known: int, told: list[int]
) -> None:
    """KGC was killed before it wrote down who has entered the epoch."""
    for certificate in epochs[1:known]:
        inform(Telling(parties), [certificate], "bank")
    channel = Telling(parties)
    assert inform(channel, epochs, "bank") == 3
    assert channel.told == told


def test_member_that_goes_away_half_way_is_told_the_rest_later(
    parties: Parties, epochs: list[EpochCertificate]
) -> None:
    bank, gone = parties.network.roles["bank"], AbsentError("bank", "is gone")
    away = FaultyPeer(bank, on_request=failing(gone, EpochCertificate, after=1))
    with replaced(parties.network, "bank", away), refused():
        inform(Telling(parties), epochs[1:], "bank")
    assert parties.identities["bank"].certificate == epochs[1]
    assert inform(Telling(parties), epochs[1:], "bank") == 3


@pytest.mark.parametrize("epoch", [0, 2, 9])
def test_member_that_accepts_another_epoch_is_noticed(parties: Parties, epoch: int) -> None:
    certificate = parties.enrol("shares")
    with refused("epoch"):
        inform(Silent(epoch), [certificate], "bank")


def test_epoch_that_was_forged_on_its_way_is_entered_by_nobody(
    parties: Parties, epochs: list[EpochCertificate]
) -> None:
    """Even if all the others that the member has missed are KGC's."""

    def forge(_: str, request: Any) -> Message:
        return signed_again(parties.signing, request, revoked=()) if request.epoch == 3 else request

    channel = LyingChannel(parties.network.channel(KGC), on_request=forge)
    with refused("member", by="bank"):
        inform(channel, epochs[1:], "bank")
    assert parties.identities["bank"].certificate == epochs[1]
