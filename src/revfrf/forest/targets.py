"""Labels and weights as integers: what CS alone knows of the rows. docs/forest.md has the rules in full.

A `Scale` is fixed when a forest is created, and rows that come later must fit it. All sums over a tree's rows
are exact: weights have at most 35 bits, the bootstrap adds 5, and a regression's targets get what is left of
62.
"""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from revfrf.crypto.canonical import Field
from revfrf.errors import FormatError, UsageError
from revfrf.forest.kernel import Floats, Ints
from revfrf.record import Record

Label = bool | int | float | str

_WEIGHT_BITS, _BOOTSTRAP_BITS, _SUM_BITS, _VOTE_BITS = 35, 5, 62, 40
_MAX_CLASSES = 2**16
_LARGEST = 2.0**1000
_ROOM = 4.0
"""How much the sum of weights may grow, if nobody says."""


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How labels and weights become integers, for the forest's life.

    `labels` are those of the classes, in order, with a weight for each; a regression has none, and a range of
    targets from `low` to `high` instead.
    """

    max_total_weight: float
    weight_places: int
    labels: tuple[Label, ...] = ()
    class_weights: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        fits = len(self.labels) == len(self.class_weights)
        fits &= 0 < self.max_total_weight < math.inf and -_LARGEST <= self.low <= self.high <= _LARGEST
        fits &= len(self.labels) <= _MAX_CLASSES
        if not fits or self.weight_places not in _possible_places(self.max_total_weight):
            raise ValueError("a scale that no forest has")

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for a regression."""
        return len(self.labels)

    @property
    def n_sums(self) -> int:
        """How many integers a leaf keeps: the weight of each class, or (Σw, Σw·value)."""
        return self.n_classes or 2

    @property
    def n_votes(self) -> int:
        """How many integers a tree votes with."""
        return self.n_classes or 1

    @property
    def centre(self) -> float:
        """The middle of the range of targets."""
        return self.low / 2 + self.high / 2 + 0.0  # never -0.0

    @property
    def spread(self) -> float:
        """How far a target can be from the centre."""
        return max(self.high - self.centre, self.centre - self.low) + 0.0  # never -0.0

    @property
    def places(self) -> int:
        """The value of a target is round((y - centre)·2^places)."""
        weights = math.ceil(math.ldexp(self.max_total_weight, self.weight_places))
        room = _SUM_BITS - _BOOTSTRAP_BITS - weights.bit_length()
        return min(_VOTE_BITS, room) - math.frexp(self.spread)[1] if self.spread else 0

    @property
    def vote_places(self) -> int:
        """A vote is a number of units of 2^-vote_places."""
        return _VOTE_BITS - math.frexp(self.spread)[1] if self.spread else 0

    def fields(self) -> tuple[Field, ...]:
        """For the digest of a forest: what its leaves mean."""
        if self.labels:
            return ("classes", self.weight_places, *map(repr, self.labels))
        return ("numbers", self.weight_places, self.centre.hex(), self.spread.hex(), self.places)


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The rows in ascending order of their numbers, each with a label and a weight as integers.

    The value of a row is the number of its class or, in a regression, its distance from the scale's centre.
    Without `values` a forest can be used, but not grown.
    """

    scale: Scale
    numbers: Ints
    values: Ints
    weights: Ints

    def __len__(self) -> int:
        return len(self.values)

    def record(self) -> "TargetsRecord":
        """Return all of it, to be written down."""
        arrays = (self.numbers, self.values, self.weights)
        return TargetsRecord(self.scale, *(array.astype("<i8").tobytes() for array in arrays))


class TargetsRecord(Record, frozen=True):
    """`Targets`."""

    scale: Scale
    numbers: bytes
    values: bytes
    weights: bytes

    def targets(self) -> Targets:
        """Return the targets. Raises FormatError for what no rows have."""
        stored, n_classes = (self.numbers, self.values, self.weights), self.scale.n_classes
        if len(self.values) % 8 or {len(array) for array in stored} != {len(self.values)}:
            raise FormatError("targets that no rows have", kind="length")
        numbers, values, weights = (np.frombuffer(array, "<i8").astype(np.int64) for array in stored)
        farthest = n_classes or math.ceil(math.ldexp(self.scale.spread, self.scale.places)) + 1
        wrong = (numbers < 0) | (weights < 0) | (values >= farthest)
        wrong |= values < 0 if n_classes else values <= -farthest
        total = math.ceil(math.ldexp(self.scale.max_total_weight, self.scale.weight_places))
        if wrong.any() or (np.diff(numbers) <= 0).any() or sum(weights.tolist()) > total + len(weights):
            raise FormatError("targets that no rows have", kind="out-of-range")
        return Targets(self.scale, numbers, values, weights)


def unknown_targets(scale: Scale) -> Targets:
    """Return what remains of the targets when a forest is used without its training rows."""
    nothing = np.empty(0, np.int64)
    return Targets(scale, nothing, nothing, nothing)


def class_targets(
    numbers: Ints,
    classes: Ints,
    labels: tuple[Label, ...],
    sample_weights: Floats,
    class_weights: Floats | None = None,
    max_total_weight: float | None = None,
) -> Targets:
    """Return the targets of rows that belong to classes 0, 1, …, which have these labels."""
    if len(labels) > _MAX_CLASSES:
        raise UsageError(
            f"{len(labels):,} classes; there can be {_MAX_CLASSES:,}; a regression may fit better"
        )
    factors = np.ones(len(labels)) if class_weights is None else class_weights
    with np.errstate(over="ignore", invalid="ignore"):
        weights = sample_weights * factors[classes]
    total, places = _weight_scale(weights, max_total_weight)
    scale = Scale(total, places, labels, tuple(factors.tolist()))
    return Targets(scale, numbers, classes, _fixed_weights(scale, weights))


def number_targets(
    numbers: Ints,
    y: Floats,
    sample_weights: Floats,
    target_range: tuple[float, float] | None = None,
    max_total_weight: float | None = None,
) -> Targets:
    """Return the targets of a regression, whose range is by default that of the rows with weight."""
    total, places = _weight_scale(sample_weights, max_total_weight)
    counted = y[sample_weights > 0]
    low, high = (float(counted.min()), float(counted.max())) if target_range is None else target_range
    if not -_LARGEST <= low <= high <= _LARGEST:
        raise UsageError(f"targets from {low} to {high}: the range must ascend and stay within ±2^1000")
    outside = np.flatnonzero((sample_weights > 0) & ((y < low) | (y > high)))
    if len(outside):
        where = f"y, row number {numbers[outside[0]]}"
        raise UsageError(f"{where}: {y[outside[0]]} is outside target_range, {low} to {high}")
    scale = Scale(total, places, low=low, high=high)
    y = np.clip(y, low, high)  # rows without weight have no say
    values = np.rint(np.ldexp(y - scale.centre, scale.places)).astype(np.int64)
    return Targets(scale, numbers, values, _fixed_weights(scale, sample_weights))


def _weight_scale(weights: Floats, max_total: float | None) -> tuple[float, int]:
    """Return the largest sum of weights that the forest allows, and the binary places of a weight."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(weights.sum())
    if not math.isfinite(_ROOM * total):
        raise UsageError("sample weights times class weights must be finite, and so must be their sum")
    whole = total < 2**53 and bool((weights == np.rint(weights)).all())
    if not whole:
        total = math.fsum(weights.tolist())  # exact, whatever the order of rows
    if not total:
        raise UsageError("all weights are zero; give at least one row a positive weight")
    allowed = _ROOM * total if max_total is None else float(max_total)
    if not math.isfinite(allowed) or allowed < total:
        raise UsageError(f"max_total_weight={max_total!r}: give at least the sum of the weights, {total}")
    return allowed, _possible_places(allowed)[0 if whole else 1]


def _possible_places(max_total: float) -> tuple[int, int]:
    """Return the binary places of a weight: if all are whole numbers, and if not."""
    places = _WEIGHT_BITS - 1 - math.frexp(max_total)[1]
    return (0 if max_total <= 2 ** (_WEIGHT_BITS - 1) else places, places)


def _fixed_weights(scale: Scale, weights: Floats) -> Ints:
    """Return the integers of these weights. A weight above zero stays above zero."""
    steps: Any = np.rint(np.ldexp(weights, scale.weight_places))
    return np.where(weights > 0, np.maximum(steps, 1), 0).astype(np.int64)
