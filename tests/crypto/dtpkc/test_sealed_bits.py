"""Results of comparisons: one ciphertext an owner, opened only with that owner's share."""

import secrets
from collections.abc import Callable
from dataclasses import replace

import pytest

from revfrf.crypto.dtpkc.dtpkc import add_constant, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, WeakKey
from revfrf.crypto.dtpkc.sealed_bits import SealedBits, open_bits, seal_bits
from revfrf.errors import DecryptionError, ElementError, FormatError, SlotError, UsageError
from revfrf.metering import Ledger, measured
from tests.conftest import World, world_of


def coins(count: int) -> list[bool]:
    return [bool(secrets.randbits(1)) for _ in range(count)]


def shares_of(owners: list[WeakKey], sealed: list[SealedBits]) -> list[int]:
    return [par_h_dec1(owner, [one.ciphertext])[0] for owner, one in zip(owners, sealed, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 7, 253, 254, 255, 256, 600, 5000])
def test_any_number_of_bits_takes_one_ciphertext_and_the_owner_one_power(toy: World, count: int) -> None:
    bits = coins(count)
    sealed = seal_bits(toy.cs.public + toy.bob.public, bits)
    ledger = Ledger()
    with measured(ledger, "owner", "HoLT"):
        shares = par_h_dec1(toy.bob, [sealed.ciphertext])
    assert sum(ledger.entries["owner", "HoLT"].powers.values()) == 1
    assert open_bits(toy.cs, [sealed], shares) == [bits]
    assert bool(sealed.masked) == (count > toy.parameters.plaintext_bits)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_all_owners_results_are_opened_together_whatever_their_lengths(n_jobs: int) -> None:
    world = world_of(1024)
    owners = [world.alice, world.bob, world.alice, WeakKey.generate(world.parameters), world.bob]
    wanted = [coins(count) for count in (3, 1000, 1, 1500, 22)]
    sealed = [
        seal_bits(world.cs.public + owner.public, bits) for owner, bits in zip(owners, wanted, strict=True)
    ]
    assert open_bits(world.cs, sealed, shares_of(owners, sealed), n_jobs=n_jobs) == wanted


def test_few_bits_of_many_owners_are_opened_by_one_power_of_the_servers_key() -> None:
    world = world_of(1024)
    owners = [WeakKey.generate(world.parameters) for _ in range(12)]
    sealed = [seal_bits(world.cs.public + owner.public, coins(9)) for owner in owners]
    shares = shares_of(owners, sealed)
    ledger = Ledger()
    with measured(ledger, "CS", "HoLT"):
        open_bits(world.cs, sealed, shares, n_jobs=1)
    assert ledger.entries["CS", "HoLT"].powers["secret", 1024] == 1


def test_nothing_to_open_is_nothing(toy: World) -> None:
    assert open_bits(toy.cs, [], []) == []
    with pytest.raises(UsageError, match="no bits"):
        seal_bits(toy.cs.public, [])


def test_without_the_owners_share_cs_reads_nothing(toy: World) -> None:
    sealed = seal_bits(toy.cs.public + toy.bob.public, [True, False])
    with pytest.raises(DecryptionError):
        par_h_dec2(toy.cs, [sealed.ciphertext])
    for stranger in (toy.alice, WeakKey.generate(toy.parameters)):
        with pytest.raises(DecryptionError):
            open_bits(toy.cs, [sealed], shares_of([stranger], [sealed]))


@pytest.mark.parametrize("wrong", range(3))
def test_one_wrong_share_among_many_is_noticed(toy: World, wrong: int) -> None:
    owners = [toy.alice, toy.bob, WeakKey.generate(toy.parameters)]
    sealed = [seal_bits(toy.cs.public + owner.public, coins(5)) for owner in owners]
    shares = shares_of(owners, sealed)
    shares[wrong] = shares[wrong] * 4 % toy.parameters.n
    with pytest.raises(DecryptionError):
        open_bits(toy.cs, sealed, shares)


@pytest.mark.parametrize("more", [4, 1 << 100, -7])
def test_bits_that_were_not_asked_for_are_refused(toy: World, more: int) -> None:
    sealed = seal_bits(toy.cs.public + toy.bob.public, [True, False])
    changed = replace(sealed, ciphertext=add_constant(toy.parameters, sealed.ciphertext, more))
    with pytest.raises(SlotError):
        open_bits(toy.cs, [changed], shares_of([toy.bob], [changed]))


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: data[:-1] + b"\xff"]
)
def test_masked_bits_of_another_length_are_refused(toy: World, change: Callable[[bytes], bytes]) -> None:
    sealed = seal_bits(toy.cs.public + toy.bob.public, [False] * 300)
    changed = replace(sealed, masked=change(sealed.masked))
    with pytest.raises(SlotError):
        open_bits(toy.cs, [changed], shares_of([toy.bob], [changed]))


def test_masked_bits_look_alike_whatever_they_are(toy: World) -> None:
    """Of two thousand zeros about half are masked to ones, and never the same half."""
    key = toy.cs.public + toy.bob.public
    first, second = (int.from_bytes(seal_bits(key, [False] * 2000).masked, "little") for _ in range(2))
    assert 800 < first.bit_count() < 1200
    assert 800 < (first ^ second).bit_count() < 1200


@pytest.mark.parametrize("count", [0, 2])
def test_too_few_or_too_many_shares_are_refused(toy: World, count: int) -> None:
    sealed = seal_bits(toy.cs.public + toy.bob.public, [True])
    with pytest.raises(FormatError, match="shares"):
        open_bits(toy.cs, [sealed], [4] * count)


def test_hostile_elements_are_refused_before_cs_uses_its_key(toy: World) -> None:
    sealed = seal_bits(toy.cs.public + toy.bob.public, [True])
    [share] = shares_of([toy.bob], [sealed])
    n = toy.parameters.n
    for bad in (Ciphertext(0, sealed.ciphertext.g), Ciphertext(sealed.ciphertext.c, 1), Ciphertext(n, 4)):
        with pytest.raises(ElementError):
            open_bits(toy.cs, [replace(sealed, ciphertext=bad)], [share])
    for z in (0, n, -share):
        with pytest.raises(ElementError):
            open_bits(toy.cs, [sealed], [z])
