"""The tables of `leaving`: scores beside the paper's, and whether the loss is small."""

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
"""The largest loss in percent that the paper claims for its own forest."""

LOSS = "loss against scikit-learn (%)"


def parts(printed: Scores, task: Task, results: Sequence[Done]) -> list[Part]:
    sets = {name: where(results, set=name) for name in printed.sets}
    tables = [score_table(printed, task, name, done) for name, done in sets.items() if done]
    return [verdicts(printed.measures, task, {name: done for name, done in sets.items() if done}), *tables]


def forests(done: Sequence[Done], left: int, who: str, measure: str) -> list[list[float]]:
    """Return a score of every forest, seed by seed."""
    return [[found[measure] for found in one.result["scores"][left][who]] for one in done]


def values(done: Sequence[Done], left: int, who: str, measure: str) -> list[float]:
    """Return a score seed by seed: the mean over its forests."""
    return list(map(mean, forests(done, left, who, measure)))


def score_table(printed: Scores, task: Task, name: str, done: Sequence[Done]) -> Table:
    """Return the scores of one set: plain, ours, and the paper's."""
    first, rows = done[0].result, []
    for left in range(len(first["scores"])):
        for measure in printed.measures:
            mine = [values(done, left, who, measure) for who in (PLAIN, *models(task))]
            theirs = [printed.of(name, measure, who, left) for who in (PLAIN, OURS)]
            shown = [spread(v, 2 if task == "classes" else None) for v in mine]
            rows.append(
                (str(left), measure, *shown, *(f"{v:g}" for v in theirs), ratio(mean(mine[1]), theirs[1]))
            )
    head = ("leavers", "", PLAIN, *models(task), "paper, Non.Fed", "paper, RevFRF", "ours / paper")
    title = f"{NAMES[name]}: {first['rows']:,} training rows, {first['parties']} parties"
    better = "Less is better, except for R2." if task == "numbers" else "More is better."
    note = f"Target: {SOURCES[name].predicts}. {better} {over(done)}"
    return Table(f"{name}-scores", title, head, rows, note)


def over(done: Sequence[Done]) -> str:
    """Say how many forests a table summarizes."""
    seeds, plain = several(len(done), "seed"), several(done[0].key["plain"], "forest")
    kind = f"Mean ± standard deviation over {seeds}" if len(done) > 1 else "One seed"
    return f"{kind}; for each seed one forest of ours, and the mean of {plain} of scikit-learn."


def losses(done: Sequence[Done], left: int, who: str, measure: str) -> list[float]:
    """Return the loss against the plain forest in percent, seed by seed."""
    pairs = zip(values(done, left, PLAIN, measure), values(done, left, who, measure), strict=True)
    return [loss(measure, plain, ours) for plain, ours in pairs]


def verdicts(measures: Sequence[str], task: Task, sets: Mapping[str, Sequence[Done]]) -> Table:
    """Return whether the loss is within the limit, for every set, number of leavers and vote."""
    rows, others = [], {who: list[tuple[float, str]]() for who in models(task)}
    for name, done in sets.items():
        for left in range(len(done[0].result["scores"])):
            found = [losses(done, left, who, CHIEF[task]) for who in models(task)]
            judged = [cell for one in found for cell in (spread(one, 2), verdict(one))]
            rows.append((NAMES[name], str(left), *judged, noise(done, left, CHIEF[task])))
            for who, measure in product(others, measures):
                worse = mean(losses(done, left, who, measure))
                place = f"{measure}, {NAMES[name]}, {several(left, 'leaver')}"
                others[who].append((worse, f"{worse:.1f} % ({place})"))
    heads = [head for who in models(task) for head in (f"{who}: {LOSS}", f"within {LIMIT:g} %?")]
    what = "accuracy" if task == "classes" else "MSE"
    note = (
        "The loss is in percent of scikit-learn's score, on the same rows and without the same columns. A "
        f"negative loss means that ours is better. {over(next(iter(sets.values())))} “Not significant” means "
        "that the 95 % confidence interval of the mean (Student's t) contains the limit, or that there is "
        "only one seed. The seed SD is the standard deviation of the score of one scikit-learn forest when "
        "only its own seed changes; one forest of ours varies with its seed as well. "
        f"{same_rows(sets)}The largest mean loss in any of {', '.join(measures)}: "
        f"{'; '.join(f'{who}, {max(found)[1]}' for who, found in others.items())}."
    )
    head = ("set", "leavers", *heads, "scikit-learn seed SD (%)")
    return Table(f"{what.lower()}-verdicts", f"Loss of {what} against scikit-learn", head, rows, note)


def summary(results: Mapping[Task, Sequence[Done]]) -> str:
    """Count the rows of `verdicts` within the limit, by vote, and name the others."""
    said = []
    for who in (SOFT, HARD):
        under = {
            (name, left): mean(losses(done, left, who, CHIEF[task])) < LIMIT
            for task, found in results.items()
            if who in models(task)
            for name, done in by_set(found).items()
            for left in range(len(done[0].result["scores"]))
        }
        missed = [f"{NAMES[name]} ({left})" for (name, left), held in under.items() if not held]
        where_not = f", all but {', '.join(missed)}" if missed else ""
        said += [f"{who}: {sum(under.values())} of {several(len(under), 'row')}{where_not}"] if under else []
    return "; ".join(said)


def by_set(results: Sequence[Done]) -> dict[str, list[Done]]:
    names = dict.fromkeys(one.key["set"] for one in results)
    return {name: where(results, set=name) for name in names}


def noise(done: Sequence[Done], left: int, measure: str) -> str:
    """Return the standard deviation of a plain forest's score over its own seed, in percent."""
    found = forests(done, left, PLAIN, measure)
    if len(found[0]) == 1:
        return ""
    return f"{100 * mean(variance(one) / mean(one) ** 2 for one in found) ** 0.5:.2f}"


def same_rows(sets: Mapping[str, Sequence[Done]]) -> str:
    """Name the sets whose test rows are the same for all seeds."""
    found = [
        NAMES[name]
        for name, done in sets.items()
        if SOURCES[name].train_rows or (done[0].key["rows"] is None and SOURCES[name].instances < SMALL)
    ]
    if not found:
        return ""
    return (
        f"All seeds test the same rows of {' and '.join(found)}, so the deviation there comes from forests "
        "and leavers, not from test rows. "
    )


def verdict(losses: Sequence[float]) -> str:
    """Return whether the mean loss is within the limit, and whether that is significant."""
    count, middle = len(losses), mean(losses)
    sure = count > 1 and abs(middle - LIMIT) >= t.ppf(0.975, count - 1) * stdev(losses) / count**0.5
    return ("yes" if middle < LIMIT else "no") + ("" if sure else " (not significant)")


TEXT = (
    "Each column belongs to one participant, as in the paper. A seed decides who leaves, the same for both "
    "forests. The plain forest (Non.Fed) is scikit-learn's, trained on the F columns that stay, with our "
    "number of trees, depth and rows per leaf, and ⌈√F⌉ features per node. Ours tries √F features on "
    "average. A column keeps its probability of being tried when others leave, so with F of A columns "
    "left it tries F/√A. "
    "Our forest is trained once with all participants. Then they leave one by one, by the real protocol "
    "with toy keys of 256 bits; the forest is bit for bit the same for every key size. "
)

CLASSES = Experiment(
    "classification",
    "Classification with participants leaving",
    TEXT + "“Ours” votes as scikit-learn does, by mean probability; “majority” is the paper's vote and our "
    "default. Recall and F1 are weighted by class size, so recall equals accuracy.",
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
