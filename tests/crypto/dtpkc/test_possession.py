"""Proofs of possession hold for their key, modulus and owner, and for nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import PublicKey, WeakKey
from revfrf.crypto.dtpkc.possession import PossessionProof, prove_possession, verify_possession
from revfrf.crypto.secret import SecretInt
from revfrf.errors import ProofError
from tests.conftest import World, world_of


def holds(key: PublicKey, owner: str, proof: PossessionProof) -> bool:
    try:
        verify_possession(key, owner, proof)
    except ProofError:
        return False
    return True


@settings(max_examples=25)
@given(owner=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_an_honest_proof_holds(world: World, owner: str) -> None:
    assert holds(world.alice.public, owner, prove_possession(world.alice, owner))


def test_an_honest_proof_holds_at_the_default_size() -> None:
    world = world_of(3072)
    assert holds(world.alice.public, "alice", prove_possession(world.alice, "alice"))


def test_the_smallest_and_the_largest_key_can_prove_themselves(toy: World) -> None:
    for sk in (2, 2**toy.parameters.exponent_bits - 2):
        key = WeakKey(toy.parameters, SecretInt(sk))
        assert holds(key.public, "edge", prove_possession(key, "edge"))


def test_a_rogue_key_would_open_what_cs_should_have_to_open_and_has_no_proof(toy: World) -> None:
    """h_u = g0^a / h_CS makes the joint key g0^a: the liar alone decrypts. So the proof must be refused."""
    n = toy.parameters.n
    rogue = PublicKey(toy.parameters, toy.alice.public.h * pow(toy.cs.public.h, -1, n) % n)
    assert par_h_dec2(toy.alice, ho_enc(rogue + toy.cs.public, [42])) == [42]
    with pytest.raises(ProofError, match="'liar'"):
        verify_possession(rogue, "liar", prove_possession(toy.alice, "liar"))


def test_a_key_published_with_the_wrong_sign_harms_nobody(toy: World) -> None:
    """-h may pass a proof, since ±1 look alike in this group. What is encrypted under it still opens."""
    p = toy.parameters
    negative = PublicKey(p, p.n - toy.alice.public.h)
    values = list(range(40))
    encrypted = ho_enc(negative + toy.cs.public, values)
    assert par_h_dec2(toy.cs, encrypted, par_h_dec1(toy.alice, encrypted)) == values


def test_a_proof_cannot_be_used_under_another_name_key_or_modulus(toy: World) -> None:
    proof, alice = prove_possession(toy.alice, "alice"), toy.alice.public
    assert not any(holds(alice, name, proof) for name in ("bob", "", "alice ", "Alice", "\ud800"))
    others = (toy.bob.public, world_of(512).alice.public, alice + toy.bob.public)
    assert not any(holds(key, "alice", proof) for key in others)


@given(
    challenge=st.integers(min_value=-(2**260), max_value=2**260),
    response=st.integers(min_value=-(2**600), max_value=2**600),
)
def test_invented_proofs_are_refused(toy: World, challenge: int, response: int) -> None:
    assert not holds(toy.alice.public, "alice", PossessionProof(challenge, response))


@pytest.mark.parametrize(("challenge_bits", "response_bits"), [(256, 0), (1_000_000, 0), (0, 1_000_000)])
def test_a_vast_proof_is_refused_before_any_power(
    toy: World, monkeypatch: pytest.MonkeyPatch, challenge_bits: int, response_bits: int
) -> None:
    monkeypatch.setattr("revfrf.crypto.dtpkc.possession.power", None)  # to call it is a TypeError
    assert not holds(toy.alice.public, "alice", PossessionProof(1 << challenge_bits, 1 << response_bits))


def test_nonces_are_fresh_and_long_enough_to_hide_the_key(toy: World) -> None:
    """s = k + c·sk over the integers: k must be 128 bits longer than c·sk, or s tells about sk."""
    sk, bits = toy.alice.sk.reveal(), toy.parameters.exponent_bits + 256 + 128
    proofs = [prove_possession(toy.alice, "alice") for _ in range(200)]
    nonces = [proof.response - proof.challenge * sk for proof in proofs]
    assert len(set(nonces)) == 200
    assert all(0 < nonce <= 1 << bits for nonce in nonces)
    assert 50 < sum(nonce >> (bits - 1) for nonce in nonces) < 150  # the top bit is fair
