import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import PublicKey, WeakKey
from revfrf.crypto.dtpkc.possession import PossessionProof, prove_possession, verify_possession
from revfrf.crypto.secret import SecretInt
from revfrf.errors import ProofError
from tests.conftest import World, world_of


@settings(max_examples=25)
@given(owner=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_an_honest_proof_holds_for_its_owner_alone(world: World, owner: str) -> None:
    check_proof(world.alice, owner)


def check_proof(key: WeakKey, owner: str) -> None:
    proof = prove_possession(key, owner)
    verify_possession(key.public, owner, proof)
    with pytest.raises(ProofError):
        verify_possession(key.public, owner + "x", proof)


def test_keys_of_the_default_size_the_smallest_and_the_largest_can_prove_themselves(toy: World) -> None:
    check_proof(world_of(3072).alice, "alice")
    for sk in (2, 2**toy.parameters.exponent_bits - 2):
        check_proof(WeakKey(toy.parameters, SecretInt(sk)), "edge")


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


def test_a_proof_cannot_be_used_under_another_name(toy: World) -> None:
    proof = prove_possession(toy.alice, "alice")
    for name in ("bob", "", "alice ", "Alice"):
        with pytest.raises(ProofError):
            verify_possession(toy.alice.public, name, proof)


def test_a_proof_cannot_be_used_for_another_key_or_modulus(toy: World) -> None:
    proof = prove_possession(toy.alice, "alice")
    for key in (toy.bob.public, world_of(512).alice.public, toy.alice.public + toy.bob.public):
        with pytest.raises(ProofError):
            verify_possession(key, "alice", proof)


@given(
    challenge=st.integers(min_value=-(2**260), max_value=2**260),
    response=st.integers(min_value=-(2**600), max_value=2**600),
)
def test_invented_proofs_are_refused(toy: World, challenge: int, response: int) -> None:
    with pytest.raises(ProofError):
        verify_possession(toy.alice.public, "alice", PossessionProof(challenge, response))


def test_a_response_that_is_only_equal_mod_the_group_order_is_refused_when_out_of_range(toy: World) -> None:
    proof = prove_possession(toy.alice, "alice")
    total = toy.cs_share.value.reveal() + toy.cc_share.value.reveal()  # a multiple of the group's order
    shifted = PossessionProof(proof.challenge, proof.response + (total << 600))
    with pytest.raises(ProofError):
        verify_possession(toy.alice.public, "alice", shifted)


@pytest.mark.parametrize(("challenge_bits", "response_bits"), [(256, 0), (1_000_000, 0), (0, 1_000_000)])
def test_a_vast_proof_is_refused_before_any_power(
    toy: World, monkeypatch: pytest.MonkeyPatch, challenge_bits: int, response_bits: int
) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("worked for a liar")

    monkeypatch.setattr("revfrf.crypto.dtpkc.possession.power", refuse)
    with pytest.raises(ProofError):
        verify_possession(toy.alice.public, "alice", PossessionProof(1 << challenge_bits, 1 << response_bits))


def test_an_owner_that_cannot_be_named_is_refused_like_any_liar(toy: World) -> None:
    with pytest.raises(ProofError):
        verify_possession(toy.alice.public, "\ud800", prove_possession(toy.alice, "alice"))


def test_nonces_are_fresh_and_long_enough_to_hide_the_key(toy: World) -> None:
    """s = k + c·sk over the integers: k must be 128 bits longer than c·sk, or s tells about sk."""
    sk, bits = toy.alice.sk.reveal(), toy.parameters.exponent_bits + 256 + 128
    proofs = [prove_possession(toy.alice, "alice") for _ in range(200)]
    nonces = [proof.response - proof.challenge * sk for proof in proofs]
    assert len(set(nonces)) == 200
    assert all(0 < nonce <= 1 << bits for nonce in nonces)
    assert 50 < sum(nonce >> (bits - 1) for nonce in nonces) < 150  # the top bit is fair
