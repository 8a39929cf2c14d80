"""Scores after 0 to 5 participants have left: the paper's tables of classification and regression."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.paper.cells import Cell, Done
from benchmarks.paper.datasets import Split, Task
from benchmarks.paper.experiment import (
    CHIEF,
    NAMES,
    Experiment,
    answers,
    dataset,
    forest,
    leavers,
    loss,
    named,
    owners,
    scores,
)
from benchmarks.paper.printed import CLASSIFICATION, OURS, PLAIN, REGRESSION, Scores
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Part, Table, ratio, spread
from benchmarks.rivals.plain import plain_forest

SOFT, HARD = "ours", "ours, majority"
LIMIT = 1.0
"""Percent by which ours may be worse than the plain forest."""


def cells(
    experiment: str, sets: Sequence[str], task: Task, settings: Settings, data: Path | None
) -> list[Cell]:
    """One a set and seed: a forest that several leave, one after the other."""
    found = []
    for seed in range(settings.seeds):
        for name in sets:
            size: dict[str, Any] = {
                "trees": settings.trees,
                "rows": settings.rows,
                "leavers": settings.leavers,
            }
            key = {"set": name, "seed": seed, **size, "task": task, "file": named(name, data)}
            found.append(Cell(experiment, key, partial(run, name, data, task, seed, **size)))
    return found


def run(
    name: str, data: Path | None, task: Task, seed: int, trees: int, rows: int | None, leavers: int
) -> dict[str, Any]:
    """Scores of all models after each leaving, the mean of the set's splits, or the first if rows are few."""
    splits = [split.first(rows) for split in dataset(name, data).splits(seed)[: 1 if rows else None]]
    runs = [one_split(task, split, trees, leavers, seed) for split in splits]
    left = runs[0]["left"]
    found = [
        {
            who: {measure: mean(r["scores"][n][who][measure] for r in runs) for measure in values}
            for who, values in runs[0]["scores"][n].items()
        }
        for n in range(len(left) + 1)
    ]
    return {"left": left, "scores": found, "parties": runs[0]["parties"], "rows": len(splits[0].X_train)}


def one_split(task: Task, split: Split, trees: int, count: int, seed: int) -> dict[str, Any]:
    going = leavers(list(split.X_train.columns), count, seed)
    ours = forest(task, trees, seed).fit(split.X_train, split.y_train)
    parties, found = len(ours.parties_), []
    for n in range(len(going) + 1):
        if n:
            ours.revoke(owners(ours, [going[n - 1]]), level=1)
        rest = split.without(going[:n])
        columns = rest.X_train.shape[1]
        plain = plain_forest(task, trees, seed, columns).fit(rest.coded.X_train, rest.y_train)
        told = {PLAIN: plain.predict(rest.coded.X_test), SOFT: answers(ours, rest.X_test, "soft")}
        if task == "classes":
            told[HARD] = answers(ours, rest.X_test, "hard")
        found.append({who: scores(task, rest.y_test, y) for who, y in told.items()})
    return {"left": going, "scores": found, "parties": parties}


# -- showing ----------------------------------------------------------------------------------------


def parts(printed: Scores, task: Task, results: Sequence[Done]) -> list[Part]:
    sets = [name for name in printed.sets if any(done.key["set"] == name for done in results)]
    return [verdicts(task, results), *(score_table(printed, task, name, of(results, name)) for name in sets)]


def of(results: Sequence[Done], name: str) -> list[Done]:
    return [done for done in results if done.key["set"] == name]


def values(done: Sequence[Done], left: int, who: str, measure: str) -> list[float]:
    """A score, seed by seed."""
    return [one.result["scores"][left][who][measure] for one in done]


def score_table(printed: Scores, task: Task, name: str, done: Sequence[Done]) -> Table:
    """Ours beside the plain forest and the paper's numbers, for one set."""
    first, rows = done[0].result, []
    models = (PLAIN, SOFT, HARD) if task == "classes" else (PLAIN, SOFT)
    for left in range(len(first["scores"])):
        for measure in printed.measures:
            mine = [values(done, left, who, measure) for who in models]
            theirs = [printed.of(name, measure, who, left) for who in (PLAIN, OURS)]
            shown = [spread(v, 2 if task == "classes" else None) for v in mine]
            rows.append(
                (str(left), measure, *shown, *(f"{v:g}" for v in theirs), ratio(mean(mine[1]), theirs[1]))
            )
    head = ("left", "", *models, "paper, Non.Fed", "paper, RevFRF", "ours / paper's")
    title = f"{NAMES[name]}: {first['rows']:,} training rows, {first['parties']} parties"
    return Table(f"{name}-scores", title, head, rows, TARGETS.get(name, ""))


TARGETS = {
    "drug": "Target: whether somebody has used cannabis in the last year, from 12 answers about the person. "
    "The paper does not say which drug it predicts.",
    "wine_white": "Target: the quality, seven classes.",
    "insurance": "Target: CARAVAN, which is 0 or 1, taken as a number because the paper does.",
    "news": "Target: thousands of shares. A few articles dominate: the largest has 843, the median 1.4.",
}


def verdicts(task: Task, results: Sequence[Done]) -> Table:
    """Whether the loss is under 1 percent, for every set and number of leavers."""
    rows = []
    models = (SOFT, HARD) if task == "classes" else (SOFT,)
    for name in dict.fromkeys(done.key["set"] for done in results):
        done = of(results, name)
        for left in range(len(done[0].result["scores"])):
            plain = values(done, left, PLAIN, CHIEF[task])
            losses = [
                [loss(task, p, o) for p, o in zip(plain, values(done, left, who, CHIEF[task]), strict=True)]
                for who in models
            ]
            rows.append((NAMES[name], str(left), *(spread(v, 2) for v in losses), verdict(losses[0])))
    head = ("set", "left", *(f"{who}: worse by, %" for who in models), f"under {LIMIT:g} %?")
    what = "accuracy" if task == "classes" else "MSE"
    note = (
        "Mean ± standard deviation of the differences, seed by seed, between ours and the plain forest on "
        "the same rows without the same columns; negative is better than plain. “Perhaps” is a mean that "
        "lies nearer to the limit than two standard errors, or comes from a single seed."
    )
    return Table(f"{what.lower()}-verdicts", f"Loss of {what} against the plain forest", head, rows, note)


def verdict(losses: Sequence[float]) -> str:
    """Of the mean, and whether the seeds could as well have said the other."""
    sure = len(losses) > 1 and abs(mean(losses) - LIMIT) >= 2 * stdev(losses) / len(losses) ** 0.5
    if mean(losses) < LIMIT:
        return "yes" if sure else "yes, perhaps"
    return "NO" if sure else "no, perhaps"


TEXT = (
    "One participant holds each column, as in the paper. Who leaves is drawn by seed, the same for both. "
    "The plain forest (Non.Fed) is scikit-learn's, trained on the columns that are left, with our trees, "
    "depth and rows a leaf, and ⌈√F⌉ features a node of the F columns that are left, never fewer than ours, "
    "which tries √F on average. Ours is trained once with all "
    "and then really left by one after the other, with toy keys of 256 bits: the forest is bit for bit "
    "that of any key size. "
)

CLASSES = Experiment(
    "classification",
    "Classification with participants leaving",
    TEXT + "“Ours” votes as scikit-learn does, by mean probability; “majority” is the paper's vote and our "
    "default. Recall and F1 are weighted by the size of the classes, so recall is accuracy.",
    CLASSIFICATION.sets,
    ("accuracy-verdicts", *(f"{name}-scores" for name in CLASSIFICATION.sets)),
    partial(cells, "classification", CLASSIFICATION.sets, "classes"),
    partial(parts, CLASSIFICATION, "classes"),
)

NUMBERS = Experiment(
    "regression",
    "Regression with participants leaving",
    TEXT + "R2 is measured against the mean of the test rows.",
    REGRESSION.sets,
    ("mse-verdicts", *(f"{name}-scores" for name in REGRESSION.sets)),
    partial(cells, "regression", REGRESSION.sets, "numbers"),
    partial(parts, REGRESSION, "numbers"),
)
