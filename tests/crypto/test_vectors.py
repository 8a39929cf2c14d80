"""The product against the test vectors, which the independent reference made."""

import pytest

from revfrf.errors import RevFRFError
from tests.crypto.product import Product
from tests.vectors.load import TOPICS, Vector, load

VECTORS = [vector for topic in TOPICS for vector in load(topic)]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_vector(vector: Vector) -> None:
    product = Product(vector.parameters, vector.inputs)
    if vector.error is None:
        assert product.run(vector.operation) == vector.expected
        return
    with pytest.raises(RevFRFError) as caught:
        product.run(vector.operation)
    assert caught.value.kind == vector.error


def test_there_are_enough_vectors_and_half_of_them_must_fail() -> None:
    assert len(VECTORS) >= 60
    assert sum(vector.error is not None for vector in VECTORS) * 2 >= len(VECTORS)
