"""The vector files are what the reference gives, and say what their README says."""

import pytest

from tests.reference.dtpkc import Parameters, RefusedError
from tests.reference.operations import OPERATIONS, run
from tests.vectors import generate
from tests.vectors.load import TOPICS, Vector, load

VECTORS = [vector for topic in TOPICS for vector in load(topic)]
QUICK = [vector for vector in VECTORS if vector.parameters["n"].bit_length() <= 1024]
"""Those that the reference answers at once; `test_files_are_what_generate_writes` covers the others."""
ELEMENTS = {"out-of-range", "not-a-unit", "jacobi", "trivial"}
KINDS = ELEMENTS | {"decryption", "proof", "slot", "range", "length", "malformed", "signature"}


def params_of(vector: Vector) -> Parameters:
    values = vector.parameters
    return Parameters(values["n"], values["g0"], values["exponent_bits"])


@pytest.mark.parametrize("vector", QUICK, ids=lambda vector: vector.id)
def test_reference_gives_what_the_file_says(vector: Vector) -> None:
    params = params_of(vector)
    if vector.error is None:
        assert run(vector.operation, params, vector.inputs) == vector.expected
    else:
        with pytest.raises(RefusedError) as error:
            run(vector.operation, params, vector.inputs)
        assert error.value.kind == vector.error


def test_every_vector_expects_either_a_result_or_a_refusal() -> None:
    assert len({vector.id for vector in VECTORS}) == len(VECTORS)
    assert all((vector.expected is None) != (vector.error is None) for vector in VECTORS)


def test_every_operation_and_kind_is_tried() -> None:
    assert set(generate.CASES) == set(TOPICS)
    assert {vector.operation for vector in VECTORS if vector.error is None} == set(OPERATIONS)
    assert {vector.error for vector in VECTORS if vector.error} == KINDS


def test_parameter_sets_belong_together() -> None:
    for values in {tuple(sorted(vector.parameters.items())) for vector in VECTORS}:
        s = dict(values)
        lam = (s["p"] - 1) * (s["q"] - 1) // 2
        assert s["n"] == s["p"] * s["q"]
        assert s["n"].bit_length() == 2 * s["p"].bit_length() == 2 * s["q"].bit_length()
        assert pow(s["g0"], lam // 2, s["n"]) == 1
        assert (s["lambda1"] + s["lambda2"]) % lam == 0
        assert (s["lambda1"] + s["lambda2"]) % s["n"] == 1
        assert s["lambda1"] % s["n"] not in (0, 1)


@pytest.mark.slow
def test_files_are_what_generate_writes() -> None:
    generate.main(["--check"])
