"""What an owner lets CS see of its columns: cuts, noise and its budget, forgetting; and how much that is."""

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import msgspec

from revfrf.errors import UsageError
from revfrf.forest.books import MAX_CUTS
from revfrf.forest.noise import UNIT
from revfrf.messages.bins import FeatureLine
from revfrf.messages.fle_expan import Column

MIN_EPSILON, MAX_EPSILON, MAX_BUDGET = 0.001, 32.0, 10**6


class ColumnSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an owner has chosen for a column under the shares protocol.

    `n_cuts` is the most cuts that its book may have, `epsilon` the noise on its bins, `epsilon_budget` how
    much epsilon may ever be spent on it; None is no noise, and no limit. With `forget_bins`, CS erases its
    bins once the forest is grown.
    """

    n_cuts: int = MAX_CUTS
    epsilon: float | None = None
    epsilon_budget: float | None = None
    forget_bins: bool = False

    def check(self, where: str, column: Column) -> None:
        """Raise UsageError, which names where the column is, for a setting that makes no sense."""
        n_cuts, epsilon, budget = self.n_cuts, self.epsilon, self.epsilon_budget
        if isinstance(n_cuts, bool) or not isinstance(n_cuts, int) or not 1 <= n_cuts <= MAX_CUTS:
            raise UsageError(f"{where}: `n_cuts` must be an int from 1 to {MAX_CUTS}, not {n_cuts!r}")
        if not isinstance(self.forget_bins, bool):
            raise UsageError(f"{where}: `forget_bins` must be True or False, not {self.forget_bins!r}")
        if epsilon is not None and not _number(epsilon, MIN_EPSILON, MAX_EPSILON):
            limits = f"a number from {MIN_EPSILON} to {MAX_EPSILON:g}, or None for no noise"
            raise UsageError(f"{where}: `epsilon` must be {limits}, not {epsilon!r}")
        if epsilon is not None and column.categories is not None:
            what = "categories have no order, so noise would not hide them"
            raise UsageError(f"{where}: {what}; give `epsilon` by column and leave it out, or drop it")
        if budget is None:
            return
        if not _number(budget, MIN_EPSILON, MAX_BUDGET):
            limits = f"a number from {MIN_EPSILON} to {MAX_BUDGET:,}, or None for no limit"
            raise UsageError(f"{where}: `epsilon_budget` must be {limits}, not {budget!r}")
        if epsilon is None:
            raise UsageError(f"{where}: `epsilon_budget` without `epsilon`: give `epsilon`, too")
        if millionths(budget) < millionths(epsilon):
            what = f"`epsilon_budget` {budget:g} is less than `epsilon` {epsilon:g}, which every book costs"
            raise UsageError(f"{where}: {what}; raise the one or lower the other")


def _number(value: Any, least: float, most: float) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and least <= value <= most


def check_columns(owner: str, columns: Sequence[Column], settings: Mapping[str, ColumnSettings]) -> None:
    """Raise UsageError for settings that make no sense, or are for columns that do not exist."""
    known = {column.name: column for column in columns}
    for name, chosen in settings.items():
        if name not in known:
            raise UsageError(f"party {owner!r} has no column {name!r}; its columns are {list(known)[:20]}")
        chosen.check(f"party {owner!r}, column {name!r}", known[name])


def millionths(epsilon: float) -> int:
    """Return an epsilon as it is signed and counted."""
    return round(epsilon * UNIT)


def bits_per_value(line: FeatureLine) -> float:
    """Return how many bits CS has received of each value at the most: log2 of the number of bins.

    Noise takes some of them away: how many depends on the values.
    """
    return log2(line.n_cuts + 1)


def revealed(line: FeatureLine) -> dict[str, Any]:
    """Return what CS has received of a column: bins and bits, with what noise, and whether it keeps them."""
    return {
        "bins": line.n_cuts + 1,
        "bits": bits_per_value(line),
        "epsilon": None if line.epsilon is None else line.epsilon / UNIT,
        "forgotten": line.forget,
        "generation": line.generation,
    }
