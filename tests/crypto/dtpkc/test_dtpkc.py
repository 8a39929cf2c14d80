"""The laws of the cryptosystem, and what it refuses."""

from collections.abc import Callable

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.dtpkc import (
    add,
    add_constant,
    h_enc_ref,
    h_re_enc,
    ho_enc,
    negate,
    par_h_dec1,
    par_h_dec2,
    scale,
)
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey, WeakKey
from revfrf.crypto.dtpkc.strong import root_half, root_open, strong_half, strong_open
from revfrf.crypto.secret import SecretInt
from revfrf.errors import (
    DecryptionError,
    ElementError,
    FormatError,
    InsecureKeyError,
    RangeError,
    RejectedError,
    UsageError,
)
from tests.conftest import World, world_of
from tests.reference.dtpkc import jacobi

messages = st.integers(min_value=-(2**62), max_value=2**62)
laws = settings(max_examples=25)


def decrypt(key: WeakKey, *ciphertexts: Ciphertext) -> list[int]:
    return par_h_dec2(key, ciphertexts)


# -- laws -------------------------------------------------------------------------------------------


@laws
@given(values=st.lists(messages, max_size=12))
def test_decryption_undoes_encryption(world: World, values: list[int]) -> None:
    assert decrypt(world.alice, *ho_enc(world.alice.public, values)) == values


def test_every_message_up_to_half_the_modulus_survives(world: World) -> None:
    limit = world.parameters.n // 2
    values = [limit, limit - 1, 1, 0, -1, 1 - limit, -limit]
    assert decrypt(world.alice, *ho_enc(world.alice.public, values)) == values


@laws
@given(a=messages, b=messages, k=st.integers(min_value=-(2**64), max_value=2**64).filter(bool))
def test_ciphertexts_add_multiply_by_scalars_and_survive_negation_twice(
    world: World, a: int, b: int, k: int
) -> None:
    p = world.parameters
    x, y = ho_enc(world.alice.public, [a, b])
    results = [add(p, x, y, x), add_constant(p, x, b), scale(p, x, k), negate(p, x)]
    assert decrypt(world.alice, *results) == [a + b + a, a + b, a * k, -a]
    assert negate(p, negate(p, x)) == x


@laws
@given(values=st.lists(messages, min_size=1, max_size=4))
def test_joint_ciphertexts_open_with_the_partial_decryptions_of_all_owners_in_any_order(
    world: World, values: list[int]
) -> None:
    owners = [world.alice, world.bob, world.cs]
    for keys in (owners[:2], owners[1::-1], owners, owners[::-1]):
        encrypted = ho_enc(sum((key.public for key in keys[1:]), keys[0].public), values)
        assert par_h_dec2(keys[-1], encrypted, *(par_h_dec1(key, encrypted) for key in keys[:-1])) == values


@laws
@given(a=messages)
def test_re_encryption_moves_a_ciphertext_under_the_joint_key(world: World, a: int) -> None:
    moved = h_re_enc(world.cs, ho_enc(world.alice.public, [a]))
    assert par_h_dec2(world.cs, moved, par_h_dec1(world.alice, moved)) == [a]
    with pytest.raises(DecryptionError):
        par_h_dec2(world.alice, moved)


@laws
@given(a=messages, r=st.integers(min_value=2, max_value=2**40))
def test_refresh_moves_the_key_by_r(world: World, a: int, r: int) -> None:
    refreshed = h_enc_ref(world.parameters, SecretInt(r), ho_enc(world.alice.public, [a]))
    with pytest.raises(DecryptionError):
        par_h_dec2(world.alice, refreshed)
    sk = world.alice.sk.reveal()
    even = h_enc_ref(world.parameters, SecretInt(r), refreshed)  # sk + 2r is even, as a key must be
    assert par_h_dec2(WeakKey(world.parameters, SecretInt(sk + 2 * r)), even) == [a]


@pytest.mark.parametrize("bits", [2048, 3072])
def test_everything_holds_at_real_sizes(bits: int) -> None:
    world = world_of(bits)
    values = [2**62 - 1, -(2**62), 0]
    encrypted = ho_enc(world.alice.public, values)
    moved = h_re_enc(world.cs, encrypted)
    assert par_h_dec2(world.cs, moved, par_h_dec1(world.alice, moved)) == values
    assert not world.parameters.insecure
    assert "INSECURE" not in repr(world.parameters) + repr(world.alice.public) + repr(world.alice)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_batches_are_the_same_on_any_number_of_cores(n_jobs: int) -> None:
    world = world_of(1024)
    values = list(range(-300, 300))
    encrypted = ho_enc(world.alice.public, values, n_jobs=n_jobs)
    assert len({c.g for c in encrypted}) == len(values)  # workers do not share randomness
    assert par_h_dec2(world.alice, encrypted, n_jobs=n_jobs) == values


def test_a_short_exponent_is_an_option_and_works() -> None:
    p = world_of(2048).parameters
    short = Parameters(p.n, p.g0, 512)
    key = WeakKey.generate(short)
    assert key.sk.reveal() < 2**512
    assert par_h_dec2(key, ho_enc(key.public, [-9])) == [-9]


def test_secret_exponents_are_even_and_use_their_full_length(toy: World) -> None:
    p = toy.parameters
    for drawn in (
        [p.random_exponent() for _ in range(400)],
        [WeakKey.generate(p).sk.reveal() for _ in range(400)],
    ):
        assert all(sk % 2 == 0 and 2 <= sk < 2**p.exponent_bits for sk in drawn)
        assert len(set(drawn)) == 400
        for bit in range(1, p.exponent_bits):
            assert 130 < sum(sk >> bit & 1 for sk in drawn) < 270  # 200 ± 7 standard deviations


def test_every_encryption_draws_an_exponent_of_its_own(toy: World, drawn_exponents: list[int]) -> None:
    zeros = ho_enc(toy.alice.public, [0] * 50, n_jobs=1)
    assert len(drawn_exponents) == 50
    assert [zero.g for zero in zeros] == [
        pow(toy.parameters.g0, r, toy.parameters.n) for r in drawn_exponents
    ]


def test_long_lived_secrets_are_applied_in_constant_time(toy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `powmod_sec`; a variable-time power with a key as its exponent would show up here."""
    secret_exponents = {
        toy.alice.sk.reveal(),
        toy.cs_share.value.reveal(),
        toy.cs_share.root_exponent.reveal(),
        toy.cc_share.value.reveal(),
        toy.cc_share.root_exponent.reveal(),
    }
    constant: list[int] = []
    variable: list[int] = []

    def record(log: list[int], function: Callable[..., int]) -> Callable[..., int]:
        def power(base: int, exponent: int, modulus: int) -> int:
            log.append(int(exponent))
            return function(base, exponent, modulus)

        return power

    monkeypatch.setattr(gmpy2, "powmod", record(variable, gmpy2.powmod))
    monkeypatch.setattr(gmpy2, "powmod_sec", record(constant, gmpy2.powmod_sec))
    encrypted = ho_enc(toy.alice.public, [5])
    c_parts = [ciphertext.c for ciphertext in encrypted]
    par_h_dec1(toy.alice, encrypted)
    par_h_dec2(toy.alice, encrypted)
    h_re_enc(toy.alice, encrypted)
    WeakKey(toy.parameters, toy.alice.sk)
    strong_open(toy.cc_share, c_parts, strong_half(toy.cs_share, c_parts))
    root_open(toy.cc_share, c_parts, root_half(toy.cs_share, c_parts))
    assert constant.count(toy.alice.sk.reveal()) == 4
    assert secret_exponents <= set(constant)
    assert not secret_exponents & set(variable)


# -- bytes ------------------------------------------------------------------------------------------


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_parse_or_are_rejected(toy: World, data: bytes) -> None:
    try:
        ciphertext = Ciphertext.from_bytes(toy.parameters, data)
    except RejectedError:
        return
    toy.parameters.check(ciphertext)
    assert ciphertext.to_bytes(toy.parameters) == data
    assert len(data) == 3 * toy.parameters.key_bits // 8


# -- refusals ---------------------------------------------------------------------------------------


# fmt: off
HOSTILE: dict[str, tuple[Callable[[World, Ciphertext], Ciphertext], str]] = {
    "C is zero": (lambda _, x: Ciphertext(0, x.g), "out-of-range"),
    "C is negative": (lambda _, x: Ciphertext(-x.c, x.g), "out-of-range"),
    "C is N²": (lambda w, x: Ciphertext(w.parameters.n_squared, x.g), "out-of-range"),
    "C is above N²": (lambda w, x: Ciphertext(x.c + w.parameters.n_squared, x.g), "out-of-range"),
    "C is a multiple of N": (lambda w, x: Ciphertext(w.parameters.n * 5, x.g), "not-a-unit"),
    "C is a multiple of p": (lambda w, x: Ciphertext(w.p * 3, x.g), "not-a-unit"),
    "C has Jacobi symbol -1": (lambda w, x: Ciphertext(no_square(w), x.g), "jacobi"),
    "G is zero": (lambda _, x: Ciphertext(x.c, 0), "out-of-range"),
    "G is negative": (lambda _, x: Ciphertext(x.c, -1), "out-of-range"),
    "G is N": (lambda w, x: Ciphertext(x.c, w.parameters.n), "out-of-range"),
    "G is not reduced": (lambda w, x: Ciphertext(x.c, x.g + w.parameters.n), "out-of-range"),
    "G is a multiple of p": (lambda w, x: Ciphertext(x.c, w.p), "not-a-unit"),
    "G has Jacobi symbol -1": (lambda w, x: Ciphertext(x.c, no_square(w)), "jacobi"),
    "G is 1": (lambda _, x: Ciphertext(x.c, 1), "trivial"),
    "G is -1": (lambda w, x: Ciphertext(x.c, w.parameters.n - 1), "trivial"),
}
# fmt: on


def no_square(world: World) -> int:
    return next(x for x in range(2, 1000) if jacobi(x, world.parameters.n) == -1)


def hostile(world: World, name: str) -> Ciphertext:
    """What a lying peer may send."""
    [honest] = ho_enc(world.alice.public, [3])
    return HOSTILE[name][0](world, honest)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_secret_is_ever_applied_to_a_hostile_element(toy: World, name: str) -> None:
    ciphertext, kind = hostile(toy, name), HOSTILE[name][1]
    uses: list[Callable[[], object]] = [
        lambda: toy.parameters.check(ciphertext),
        lambda: par_h_dec1(toy.alice, [ciphertext]),
        lambda: par_h_dec2(toy.alice, [ciphertext]),
        lambda: h_re_enc(toy.cs, [ciphertext]),
        lambda: h_enc_ref(toy.parameters, SecretInt(4), [ciphertext]),
    ]
    for use in uses:
        with pytest.raises(ElementError) as caught:
            use()
        assert caught.value.kind == kind


def test_a_peer_learns_nothing_from_which_check_failed(toy: World) -> None:
    told = set()
    for name in HOSTILE:
        with pytest.raises(RejectedError) as caught:
            par_h_dec1(toy.alice, [hostile(toy, name)])
        told.add(caught.value.peer_message)
    assert told == {"rejected"}


def test_answers_that_do_not_fit_are_rejected(toy: World) -> None:
    encrypted = ho_enc(toy.alice.public + toy.cs.public, [3, 4])
    shares = par_h_dec1(toy.alice, encrypted)
    with pytest.raises(FormatError, match="1 answers for 2"):
        par_h_dec2(toy.cs, encrypted, shares[:1])
    for z in (0, -1, 1 << 300):
        with pytest.raises(ElementError, match="share"):
            par_h_dec2(toy.cs, encrypted, [shares[0], z])
    with pytest.raises(ElementError):
        par_h_dec1(toy.alice, [*encrypted, Ciphertext(encrypted[0].c, 1)])


def test_the_wrong_key_a_tampered_share_and_a_tampered_ciphertext_look_alike(toy: World) -> None:
    p = toy.parameters
    encrypted = ho_enc(toy.alice.public + toy.cs.public, [3])
    shares = par_h_dec1(toy.alice, encrypted)
    tampered = Ciphertext(encrypted[0].c * 4 % p.n_squared, encrypted[0].g)
    attempts: list[Callable[[], object]] = [
        lambda: par_h_dec2(toy.bob, encrypted, shares),
        lambda: par_h_dec2(toy.cs, encrypted, [shares[0] * 4 % p.n]),
        lambda: par_h_dec2(toy.cs, [tampered], shares),
        lambda: par_h_dec2(toy.cs, encrypted),
    ]
    reasons = set()
    for attempt in attempts:
        with pytest.raises(DecryptionError) as caught:
            attempt()
        reasons.add((caught.value.kind, str(caught.value)))
    assert len(reasons) == 1


@pytest.mark.parametrize("excess", [1, 2, 10**6])
def test_a_message_too_large_for_the_modulus_is_named(toy: World, excess: int) -> None:
    limit = toy.parameters.n // 2
    for bad in (limit + excess, -limit - excess):
        with pytest.raises(RangeError, match="message 1 is outside"):
            ho_enc(toy.alice.public, [0, bad])


def test_times_zero_is_refused(toy: World) -> None:
    [encrypted] = ho_enc(toy.alice.public, [3])
    with pytest.raises(UsageError, match="zero"):
        scale(toy.parameters, encrypted, 0)


# -- keys that protect nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "exponent_bits"), [(1024, 512), (1024, 256), (2048, 255), (2048, 128)])
def test_short_keys_need_the_explicit_switch(bits: int, exponent_bits: int) -> None:
    p = world_of(bits).parameters
    with pytest.raises(InsecureKeyError, match="allow_insecure"):
        Parameters(p.n, p.g0, exponent_bits)
    assert Parameters(p.n, p.g0, exponent_bits, allow_insecure=True).insecure


def test_insecure_keys_say_so_wherever_they_are_shown(toy: World) -> None:
    for shown in (toy.parameters, toy.alice.public, toy.alice, toy.cs_share, toy):
        assert "INSECURE" in repr(shown)
        assert "INSECURE" in f"{shown}"


@pytest.mark.parametrize("bits", [0, 16, 63, 65, 100])
def test_sizes_that_cannot_work_are_named(bits: int) -> None:
    with pytest.raises(UsageError, match=f"key_bits={bits}"):
        Parameters((1 << bits) - 1, 4, 32, allow_insecure=True)


@pytest.mark.parametrize("h", [0, 1, -1])
def test_a_public_key_that_hides_nothing_is_rejected(toy: World, h: int) -> None:
    with pytest.raises(ElementError, match="public key"):
        PublicKey(toy.parameters, h % toy.parameters.n)


def test_a_joint_key_is_the_key_of_the_product(world: World) -> None:
    p = world.parameters
    joint = world.alice.public + world.bob.public + world.cs.public
    assert joint.h == world.alice.public.h * world.bob.public.h * world.cs.public.h % p.n
    assert joint.lifted == p.lift(joint.h)
    assert joint == PublicKey(p, joint.h)


def test_keys_of_two_moduli_do_not_join(toy: World) -> None:
    with pytest.raises(UsageError, match="epoch"):
        toy.alice.public + world_of(512).alice.public


def test_a_ciphertext_of_another_modulus_does_not_open(toy: World) -> None:
    other = world_of(512)
    with pytest.raises(RejectedError):
        par_h_dec2(toy.alice, ho_enc(other.alice.public, [3]))
