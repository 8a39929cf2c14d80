"""What all vectors are made of: a case, and the parameter set that it lives in."""

from random import Random
from typing import Any, NamedTuple

from tests.reference import dtpkc
from tests.reference.dtpkc import Compressed, Parameters, Shares


class Case(NamedTuple):
    """One question. `error` is the kind of refusal it must meet, or None."""

    id: str
    comment: str
    operation: str
    parameters: str
    inputs: dict[str, Any]
    error: str | None = None


class World:
    """A parameter set with its secrets, three weak keys, and its own repeatable randomness."""

    def __init__(self, name: str, params: Parameters, p: int, q: int, shares: Shares) -> None:
        self.name, self.params, self.p, self.q, self.shares = name, params, p, q, shares
        self.random = Random(f"revfrf vectors: {name}")
        self.sk, self.sk_cs, self.sk_other = (self.weak_key() for _ in range(3))
        self.order = (p // 2) * (q // 2)
        self.non_square = next(x for x in range(2, 1000) if dtpkc.jacobi(x, params.n) == -1)

    def weak_key(self) -> int:
        return 2 * self.random.randrange(1, 1 << (self.params.exponent_bits - 1))

    def exponent(self) -> int:
        return self.random.randrange(1, 1 << self.params.exponent_bits)

    def encryption(self, m: int, *keys: int) -> Compressed:
        """[m] under the sum of the keys, or under `sk`."""
        h = dtpkc.public_key(self.params, sum(keys) or self.sk)
        return dtpkc.compressed_ho_enc(self.params, h, m, self.exponent())

    def case(
        self, operation: str, what: str, comment: str, error: str | None = None, /, **inputs: object
    ) -> Case:
        return Case(f"{operation}/{self.name}/{what}", comment, operation, self.name, inputs, error)


Worlds = dict[str, World]
