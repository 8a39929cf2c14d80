"""The product agrees with the independent reference of the paper's own formulas, on random cases."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1
from revfrf.crypto.dtpkc.keys import Ciphertext
from tests.conftest import World
from tests.crypto.dtpkc.test_as_printed import less
from tests.crypto.product import Product
from tests.reference import dtpkc as reference
from tests.reference.operations import run

quick = settings(max_examples=15)
number = st.integers(min_value=-(2**62), max_value=2**62 - 1)
seeds = st.integers(min_value=1, max_value=2**2000)


def parameters(world: World) -> dict[str, int]:
    p = world.parameters
    shares = {"lambda1": world.cs_share.value.reveal(), "lambda2": world.cc_share.value.reveal()}
    return {"n": p.n, "g0": p.g0, "exponent_bits": p.exponent_bits, **shares}


def reference_parameters(world: World) -> reference.Parameters:
    p = world.parameters
    return reference.Parameters(p.n, p.g0, p.exponent_bits)


def agree(world: World, operation: str, inputs: dict[str, Any]) -> None:
    """Both give the same numbers, the reference after trying its compressed and its uncompressed form."""
    ours = Product(parameters(world), inputs).run(operation)
    assert ours == run(operation, reference_parameters(world), inputs)


def ciphertext(world: World, m: int, suffix: str = "") -> dict[str, int]:
    [encrypted] = ho_enc(world.alice.public, [m])
    return {f"c{suffix}": encrypted.c, f"g{suffix}": encrypted.g}


def sk(world: World) -> dict[str, int]:
    return {"sk": world.alice.sk.reveal()}


@quick
@given(m=number, r=seeds)
def test_encryption_expands_to_the_papers(world: World, m: int, r: int) -> None:
    r = 1 + r % (2**world.parameters.exponent_bits - 1)
    agree(world, "encrypt", {"m": m, "r": r, **sk(world)})


@quick
@given(a=number, b=number, k=number.filter(bool))
def test_sums_and_products_are_those_of_the_reference(world: World, a: int, b: int, k: int) -> None:
    one, two = ciphertext(world, a), ciphertext(world, b, "2")
    agree(world, "add", {"c1": one["c"], "g1": one["g"], **two, **sk(world)})
    agree(world, "add_constant", {"constant": b, **one, **sk(world)})
    agree(world, "scale", {"k": k, **one, **sk(world)})
    agree(world, "negate", {**one, **sk(world)})


@quick
@given(m=number, r=st.integers(min_value=1, max_value=2**128))
def test_re_encryption_and_refresh_are_those_of_the_reference(world: World, m: int, r: int) -> None:
    agree(world, "re_encrypt", {"sk_cs": world.cs.sk.reveal(), **ciphertext(world, m), **sk(world)})
    agree(world, "refresh", {"r": r, **ciphertext(world, m), **sk(world)})


@quick
@given(m=number)
def test_strong_halves_are_those_of_the_reference(world: World, m: int) -> None:
    values = parameters(world)
    shares = {name: values[name] for name in ("lambda1", "lambda2")}
    agree(world, "strong", {"c": ciphertext(world, m)["c"], **shares})


@quick
@given(
    x=number,
    s=number,
    coin=st.sampled_from([1, -1]),
    r=st.integers(min_value=2**63, max_value=2**64 - 1),
    r_prime=st.integers(min_value=1 - 2**63, max_value=2**63 - 1),
)
def test_packs_are_the_references(world: World, x: int, s: int, coin: int, r: int, r_prime: int) -> None:
    masks = {"coins": [coin], "r": [r], "r_prime": [r_prime]}
    agree(world, "pack", {"x": [x], "s": [s], **masks})


@quick
@given(a=number, b=number, coin=st.booleans(), draws=st.lists(seeds, min_size=10, max_size=10))
def test_comparison_as_printed_is_that_of_the_reference(
    world: World, a: int, b: int, coin: bool, draws: list[int]
) -> None:
    """The product's HoLT and the paper's, on the same two numbers under the same keys."""
    [x], [s] = ho_enc(world.alice.public, [a]), ho_enc(world.bob.public, [b])
    assert less(world, x, s, coin) == reference_less(world, x, s, coin, draws) == (a < b)


def reference_less(world: World, x: Ciphertext, s: Ciphertext, coin: bool, draws: list[int]) -> int:
    params = reference_parameters(world)
    exponents = [1 + draw % (2**params.exponent_bits - 1) for draw in draws]
    keys = [key.sk.reveal() for key in (world.alice, world.bob, world.cs)]
    pk_alice, pk_bob, pk_cs = (reference.paper_public_key(params, key) for key in keys)
    answer = reference.ho_lt(
        params,
        reference.Shares(world.cs_share.value.reveal(), world.cc_share.value.reveal()),
        (pk_alice, pk_bob, pk_cs),
        (
            reference.expand(params, reference.Compressed(x.c, x.g)),
            reference.expand(params, reference.Compressed(s.c, s.g)),
        ),
        alpha=int(coin),
        mask=1 + draws[9] % (2 ** (params.n.bit_length() // 4 - 1) - 1),
        add_coins=reference.HoAddCoins(
            draws[7] % params.n, draws[8] % params.n, (exponents[0], exponents[1], exponents[2], exponents[3])
        ),
        r=(exponents[4], exponents[5], exponents[6]),
    )
    return reference.par_h_dec2(params, keys[1] + keys[2], answer)


def test_the_papers_partial_decryption_hands_its_key_to_whoever_chooses_c2(world: World) -> None:
    """C2 = g^5·(1 + N): the answer is C1/(h^5·(1 + sk·N)). In compressed form there is no such C2 to send."""
    params = reference_parameters(world)
    key = world.alice.sk.reveal()
    chosen = reference.Paper(1, pow(params.g, 5, params.n2) * (1 + params.n) % params.n2)
    answer = reference.par_h_dec1(params, key, chosen).c1
    h5 = pow(reference.paper_public_key(params, key), 5, params.n2)
    assert reference.log_l(params, pow(answer * h5, -1, params.n2)) == key

    [z] = par_h_dec1(world.alice, [Ciphertext(chosen.c2, pow(params.g0, 5, params.n))])
    assert z == pow(world.alice.public.h, 5, params.n)  # what anybody computes from the public key
