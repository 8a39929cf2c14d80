"""The figures of `growth`, from its results."""

from collections.abc import Sequence
from statistics import mean, stdev

from benchmarks.paper.cells import Done, where
from benchmarks.paper.datasets import SOURCES
from benchmarks.paper.experiment import CHIEF, NAMES, Experiment
from benchmarks.paper.growth import SETS, cells
from benchmarks.paper.plots import Point, Series
from benchmarks.paper.printed import OURS, PLAIN
from benchmarks.paper.show import Figure, Part


def parts(results: Sequence[Done]) -> list[Part]:
    return [figure(name, where(results, set=name)) for name in SETS]


def figure(name: str, results: Sequence[Done]) -> Figure:
    measure = CHIEF[SOURCES[name].task]
    lines = []
    for who in (PLAIN, OURS):
        points: list[Point] = []
        for trees in sorted({done.key["trees"] for done in results}):
            values = [done.result[who][measure] for done in where(results, trees=trees)]
            points.append((trees, mean(values), stdev(values) if len(values) > 1 else None))
        lines.append(Series(who, points))
    unit, seeds = "ACC, %" if measure == "ACC" else measure, len({done.key["seed"] for done in results})
    note = f"Mean and standard deviation over {seeds} seeds." if seeds > 1 else "One seed."
    return Figure(f"{name}-growth", NAMES[name], "trees", unit, lines, note)


GROWTH = Experiment(
    "growth",
    "Accuracy and error against the number of trees",
    "One forest of each kind per seed. The paper's figures give no numbers to compare with.",
    SETS,
    cells,
    parts,
)
