"""The tables of `leaving`, from its results: scores beside the paper's, and whether the loss is small."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from statistics import mean, stdev, variance

from scipy.stats import t  # type: ignore[import-untyped]

from benchmarks.paper.cells import Done, where
from benchmarks.paper.datasets import SMALL, SOURCES, Task
from benchmarks.paper.experiment import CHIEF, NAMES, Experiment, loss
from benchmarks.paper.leaving import HARD, SOFT, cells, models
from benchmarks.paper.printed import CLASSIFICATION, OURS, PLAIN, REGRESSION, Scores
from benchmarks.paper.show import Part, Table, ratio, several, spread

LIMIT = 1.0
"""Percent by which ours may be worse than the plain forest: what the paper claims of its own."""


def parts(printed: Scores, task: Task, results: Sequence[Done]) -> list[Part]:
    sets = {name: where(results, set=name) for name in printed.sets}
    tables = [score_table(printed, task, name, done) for name, done in sets.items() if done]
    return [verdicts(printed.measures, task, {name: done for name, done in sets.items() if done}), *tables]


def forests(done: Sequence[Done], left: int, who: str, measure: str) -> list[list[float]]:
    """A score, seed by seed, of every forest."""
    return [[found[measure] for found in one.result["scores"][left][who]] for one in done]


def values(done: Sequence[Done], left: int, who: str, measure: str) -> list[float]:
    """A score, seed by seed, the mean of its forests."""
    return list(map(mean, forests(done, left, who, measure)))


def score_table(printed: Scores, task: Task, name: str, done: Sequence[Done]) -> Table:
    """Ours beside the plain forest and the paper's numbers, for one set."""
    first, rows = done[0].result, []
    for left in range(len(first["scores"])):
        for measure in printed.measures:
            mine = [values(done, left, who, measure) for who in (PLAIN, *models(task))]
            theirs = [printed.of(name, measure, who, left) for who in (PLAIN, OURS)]
            shown = [spread(v, 2 if task == "classes" else None) for v in mine]
            rows.append(
                (str(left), measure, *shown, *(f"{v:g}" for v in theirs), ratio(mean(mine[1]), theirs[1]))
            )
    head = ("left", "", PLAIN, *models(task), "paper, Non.Fed", "paper, RevFRF", "ours / paper's")
    title = f"{NAMES[name]}: {first['rows']:,} training rows, {first['parties']} parties"
    better = "Less is better, but for R2." if task == "numbers" else "More is better."
    note = f"Target: {SOURCES[name].predicts}. {better} {over(done)}"
    return Table(f"{name}-scores", title, head, rows, note)


def over(done: Sequence[Done]) -> str:
    """Of how many forests a table tells."""
    seeds, plain = several(len(done), "seed"), several(done[0].key["plain"], "forest")
    kind = f"Mean ± standard deviation over {seeds}" if len(done) > 1 else "One seed"
    return f"{kind}; a seed has one forest of ours, and of plain the mean of {plain}."


def losses(done: Sequence[Done], left: int, who: str, measure: str) -> list[float]:
    """By how many percent ours is worse than the plain forest, seed by seed."""
    pairs = zip(values(done, left, PLAIN, measure), values(done, left, who, measure), strict=True)
    return [loss(measure, plain, ours) for plain, ours in pairs]


def verdicts(measures: Sequence[str], task: Task, sets: Mapping[str, Sequence[Done]]) -> Table:
    """Whether the loss is under 1 percent, for every set and number of leavers, by every vote."""
    rows, others = [], {who: list[tuple[float, str]]() for who in models(task)}
    for name, done in sets.items():
        for left in range(len(done[0].result["scores"])):
            found = [losses(done, left, who, CHIEF[task]) for who in models(task)]
            judged = [cell for one in found for cell in (spread(one, 2), verdict(one))]
            rows.append((NAMES[name], str(left), *judged, noise(done, left, CHIEF[task])))
            for who, measure in product(others, measures):
                worse = mean(losses(done, left, who, measure))
                others[who].append((worse, f"{worse:.1f} % ({measure}, {NAMES[name]}, {left} left)"))
    heads = [head for who in models(task) for head in (f"{who}: worse by, %", f"under {LIMIT:g} %?")]
    what = "accuracy" if task == "classes" else "MSE"
    note = (
        f"The loss is in percent of the plain forests' score, on the same rows without the same columns; "
        f"negative is better than plain. {over(next(iter(sets.values())))} “Perhaps” is a mean whose 95 % "
        "confidence interval (Student's t) holds the limit, or that comes from a single seed. Chance is the "
        "standard deviation of a single plain forest's score from one forest seed to the next, all else "
        "being the same; ours, one forest a seed, varies by chance as well. "
        f"{same_rows(sets)}The largest mean loss by any of {', '.join(measures)}: "
        f"{'; '.join(f'{who}, {max(found)[1]}' for who, found in others.items())}."
    )
    head = ("set", "left", *heads, "chance, plain: ±, %")
    return Table(f"{what.lower()}-verdicts", f"Loss of {what} against the plain forest", head, rows, note)


def summary(results: Mapping[Task, Sequence[Done]]) -> str:
    """In how many rows of `verdicts` the loss is under the limit, by vote, and in which it is not."""
    said = []
    for who in (SOFT, HARD):
        under = {
            (name, left): mean(losses(done, left, who, CHIEF[task])) < LIMIT
            for task, found in results.items()
            if who in models(task)
            for name, done in by_set(found).items()
            for left in range(len(done[0].result["scores"]))
        }
        missed = [f"{NAMES[name]} with {left}" for (name, left), held in under.items() if not held]
        where_not = f", not on {', '.join(missed)} left" if missed else ""
        said += [f"{who}, {sum(under.values())} of {several(len(under), 'row')}{where_not}"] if under else []
    return "; ".join(said)


def by_set(results: Sequence[Done]) -> dict[str, list[Done]]:
    names = dict.fromkeys(one.key["set"] for one in results)
    return {name: where(results, set=name) for name in names}


def noise(done: Sequence[Done], left: int, measure: str) -> str:
    """By how many percent a plain forest's score varies with nothing but its own seed."""
    found = forests(done, left, PLAIN, measure)
    if len(found[0]) == 1:
        return ""
    return f"{100 * mean(variance(one) / mean(one) ** 2 for one in found) ** 0.5:.2f}"


def same_rows(sets: Mapping[str, Sequence[Done]]) -> str:
    """Whose spread says nothing of rows: official ones are tested each time, or every quarter once."""
    found = [
        NAMES[name]
        for name, done in sets.items()
        if SOURCES[name].train_rows or (done[0].key["rows"] is None and SOURCES[name].instances < SMALL)
    ]
    if not found:
        return ""
    return (
        f"All seeds test the same rows of {' and '.join(found)}: there the spread is that of forests and "
        "leavers, not of test rows. "
    )


def verdict(losses: Sequence[float]) -> str:
    """Of the mean, and whether the seeds could as well have said the other."""
    count, middle = len(losses), mean(losses)
    sure = count > 1 and abs(middle - LIMIT) >= t.ppf(0.975, count - 1) * stdev(losses) / count**0.5
    return ("yes" if middle < LIMIT else "NO") + ("" if sure else ", perhaps")


TEXT = (
    "One participant holds each column, as in the paper. Who leaves is drawn by seed, the same for both. "
    "The plain forest (Non.Fed) is scikit-learn's, trained on the columns that are left, with our trees, "
    "depth and rows a leaf, and ⌈√F⌉ features a node of the F columns that are left. Ours tries √F on "
    "average; each column keeps its chance to be tried when others go, so that it is F/√A when F of A are "
    "left. "
    "Our forest is trained once with all participants; then they leave it one by one, by the real protocol, "
    "with toy keys of 256 bits: the forest is bit for bit that of any key size. "
)

CLASSES = Experiment(
    "classification",
    "Classification with participants leaving",
    TEXT + "“Ours” votes as scikit-learn does, by mean probability; “majority” is the paper's vote and our "
    "default. Recall and F1 are weighted by the size of the classes, so recall is accuracy.",
    CLASSIFICATION.sets,
    partial(cells, "classification", CLASSIFICATION.sets, "classes"),
    partial(parts, CLASSIFICATION, "classes"),
)

NUMBERS = Experiment(
    "regression",
    "Regression with participants leaving",
    TEXT + "R2 is measured against the mean of the test rows.",
    REGRESSION.sets,
    partial(cells, "regression", REGRESSION.sets, "numbers"),
    partial(parts, REGRESSION, "numbers"),
)
