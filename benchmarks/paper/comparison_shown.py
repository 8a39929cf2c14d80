"""The tables of `comparison`, from its results."""

from collections.abc import Sequence
from statistics import mean

from benchmarks.paper.cells import Done, where
from benchmarks.paper.comparison import DEFAULTS, EPSILON, FEW, NOISY_DEPTH, RANA_FEW, RANDOM_DEPTH, cells
from benchmarks.paper.datasets import SOURCES
from benchmarks.paper.experiment import NAMES, Experiment
from benchmarks.paper.printed import COMPARISON, OURS, PLAIN, RANA, VAIDYA
from benchmarks.paper.show import Part, Table, ratio, several, spread


def parts(results: Sequence[Done]) -> list[Part]:
    printed_head = ("set", "", PLAIN, RANA, VAIDYA, OURS)
    head = (*printed_head, RANA_FEW, DEFAULTS)
    mine, theirs, seeds = [], [], len({one.key["seed"] for one in results})
    for name, printed in COMPARISON.items():
        done = [one.result for one in where(results, set=name)]
        for measure in ("ACC",) if SOURCES[name].task == "classes" else ("MAE", "MSE"):
            values = {who: [one[who][measure] for one in done] for who in head[2:]}
            mine.append((NAMES[name], measure, *(spread(values[who]) for who in head[2:])))
            if measure != "MSE":
                pairs = [
                    f"{printed[who]:g} ({ratio(mean(values[who]), printed[who])})" for who in printed_head[2:]
                ]
                theirs.append((NAMES[name], measure, *pairs))
    targets = [f"{NAMES[name]}, {SOURCES[name].predicts}" for name in COMPARISON]
    note = (
        "Rana's forest hides single rows with noise: here with the usual definition of differential privacy, "
        f"stricter than theirs, ε = {EPSILON:g} for the whole forest and trees of depth {NOISY_DEPTH}. Each "
        "row is in one tree, so noise hurts fewer trees less. Vaidya's trees are random, of depth "
        f"{RANDOM_DEPTH}; encryption does not change their answers. The last column is scikit-learn with its "
        "defaults: trees of any depth, and for regression all features at every node. Plain tries ⌈√F⌉ of F "
        f"features, ours √F on average. {'Mean ± standard deviation over' if seeds > 1 else 'Over'} "
        f"{several(seeds, 'seed')}, one forest of each. Targets: {'; '.join(targets)}."
    )
    return [
        Table("comparison", "Measured", head, mine, note),
        Table(
            "comparison-printed",
            "As printed (× measured / printed)",
            printed_head,
            theirs,
            "The paper calls its last two rows MSE; they can only be MAE.",
        ),
    ]


COMPARED = Experiment(
    "comparison",
    "Performance beside other private forests",
    f"All use the same rows, the same number of trees (except where {FEW} are stated), and vote by mean "
    "probability.",
    tuple(COMPARISON),
    cells,
    parts,
)
