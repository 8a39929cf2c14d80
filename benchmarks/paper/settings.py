"""How large a run is."""

from dataclasses import dataclass

from benchmarks.paper.common import TOY_BITS


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of all experiments. `rows` limits training rows, and half as many are tested on; None is all."""

    name: str
    trees: int
    rows: int | None
    seeds: int
    """Forests of a set, and draws of who leaves."""

    plain_forests: int
    """Plain forests for each of ours there, so that what chance does to one of them can be told."""

    leavers: int
    growth: tuple[int, ...]
    """Numbers of trees of the figures of accuracy and error."""

    growth_seeds: int
    comparison_seeds: int
    bits: tuple[int, ...]
    """Key sizes wherever seconds are measured: the paper's, then ours."""

    rival_trials: tuple[tuple[int, int], ...]
    """Key sizes of rivals, and how many rows Bost's and Wu's protocols are asked about with each."""

    rival_trees: int
    """How many of the trees they evaluate; the rest is extrapolated."""

    cost_rows: int
    cost_depth: int
    """Rows and depth of the trees on Adult of which costs are measured; about 100 splits each."""

    cost_trees: tuple[int, ...]
    """Numbers of such trees, so that nodes grow."""

    cost_trials: int
    """Forests of each of these numbers, and requests to each of the forests that are asked."""

    request_trees: int
    request_depths: tuple[int, ...]
    """Forests that are asked; the last depth is that of the table."""

    as_printed: int
    """Comparisons by the protocol as printed."""

    rebuild_bits: tuple[int, ...]
    """Key sizes where leaving is measured; the last is that of the large forest, too."""

    rebuild_trees: int
    rebuild_trials: int
    large_trials: int
    """How often the whole forest on all rows is rebuilt, too."""

    encrypted_rows: int
    counted_rows: int
    """Rows of the encrypted database that are really encrypted, where leaves are hidden and where they are
    seen; the rest is extrapolated.
    """


FULL = Settings(
    name="full",
    trees=100,
    rows=None,
    seeds=5,
    plain_forests=3,
    leavers=5,
    growth=(1, 5, 10, 20, 40, 60, 80, 100),
    growth_seeds=3,
    comparison_seeds=3,
    bits=(1024, 2048),
    rival_trials=((1024, 3), (2048, 1)),
    rival_trees=10,
    cost_rows=5000,
    cost_depth=8,
    cost_trees=(1, 2, 4, 6, 8),
    cost_trials=10,
    request_trees=10,
    request_depths=(2, 4, 6, 8, 10),
    as_printed=20,
    rebuild_bits=(1024, 2048),
    rebuild_trees=5,
    rebuild_trials=5,
    large_trials=3,
    encrypted_rows=20,
    counted_rows=5000,
)

QUICK = Settings(
    name="quick",
    trees=20,
    rows=2000,
    seeds=2,
    plain_forests=2,
    leavers=5,
    growth=(1, 5, 10, 20),
    growth_seeds=1,
    comparison_seeds=1,
    bits=(1024, 2048),
    rival_trials=((1024, 1),),
    rival_trees=1,
    cost_rows=5000,
    cost_depth=8,
    cost_trees=(1, 2, 4),
    cost_trials=2,
    request_trees=10,
    request_depths=(2, 6, 10),
    as_printed=3,
    rebuild_bits=(1024,),
    rebuild_trees=5,
    rebuild_trials=1,
    large_trials=0,
    encrypted_rows=20,
    counted_rows=20,
)

TINY = Settings(
    name="tiny",
    trees=2,
    rows=100,
    seeds=1,
    plain_forests=2,
    leavers=1,
    growth=(1, 2),
    growth_seeds=1,
    comparison_seeds=1,
    bits=(TOY_BITS,),
    rival_trials=((TOY_BITS, 1),),
    rival_trees=2,
    cost_rows=200,
    cost_depth=3,
    cost_trees=(1, 2),
    cost_trials=1,
    request_trees=2,
    request_depths=(1, 2),
    as_printed=1,
    rebuild_bits=(TOY_BITS,),
    rebuild_trees=2,
    rebuild_trials=1,
    large_trials=1,
    encrypted_rows=2,
    counted_rows=200,
)
"""For tests."""
