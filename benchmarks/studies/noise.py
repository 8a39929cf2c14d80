"""What noise on the bins costs.

    python -m benchmarks.studies.noise accuracy    the score of forests, by epsilon

One owner holds all columns, and adds noise to those that are numbers: to training and to test rows.
"""

import argparse
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.paper.datasets import Dataset, load
from benchmarks.paper.experiment import CHIEF, answers, scores
from benchmarks.studies.common import add_command, positive, run_command, set_names, table
from revfrf import RevocableForestClassifier, RevocableForestRegressor

EPSILONS = (4.0, 2.0, 1.0, 0.5, 0.25, 0.1)


def main(arguments: Sequence[str] | None = None) -> None:
    run_command("benchmarks.studies.noise", "Measure what noise on bins costs.", (add_accuracy,), arguments)


def add_accuracy(commands: Any) -> None:
    parser = add_command(commands, "accuracy", "the score of forests, by epsilon", [], accuracy)
    parser.add_argument("--sets", type=set_names, default=["adult", "bike", "superconduct"])
    parser.add_argument("--epsilons", type=numbers, default=EPSILONS, help="with commas between them")
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--trees", type=positive, default=100)


def numbers(text: str) -> tuple[float, ...]:
    """An option that is several numbers."""
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers with commas between them") from None


def accuracy(options: argparse.Namespace, console: Console) -> object:
    found: dict[str, dict[str, list[float]]] = {}
    epsilons = (None, *options.epsilons)
    with Progress(console=console, transient=True) as progress:
        steps = progress.add_task("", total=len(options.sets) * options.seeds * len(epsilons))
        for name in options.sets:
            dataset, found[name] = load(name, options.data), {}
            for epsilon in epsilons:
                progress.update(steps, description=f"{name}, epsilon {epsilon}")
                own = found[name].setdefault(str(epsilon), [])
                for seed in range(options.seeds):
                    own.append(score(dataset, epsilon, seed, options.trees))
                    progress.advance(steps)
            console.print(shown(dataset, found[name]))
    return found


def score(dataset: Dataset, epsilon: float | None, seed: int, trees: int) -> float:
    """The chief measure of a forest with this noise on all columns of numbers."""
    split = dataset.splits(seed)[0]
    names = [str(name) for name in split.X_train.columns]
    noise = {name: epsilon for name in names if not hasattr(split.X_train[name], "cat")}
    kind = RevocableForestClassifier if dataset.task == "classes" else RevocableForestRegressor
    model = kind(trees, parties={"owner": names}, epsilon=noise, random_state=seed, n_jobs=-1)
    model.fit(split.X_train, split.y_train)
    return scores(dataset.task, split.y_test, answers(model, split.X_test, "soft"))[CHIEF[dataset.task]]


def shown(dataset: Dataset, found: dict[str, list[float]]) -> Any:
    measure = CHIEF[dataset.task]
    view = table(f"{dataset.name}: {measure}", "epsilon", measure, "of a seed, ±", "change, %")
    plain = mean(found["None"])
    for epsilon, values in found.items():
        spread = f"{stdev(values):.2f}" if len(values) > 1 else "?"
        view.add_row(epsilon, f"{mean(values):.2f}", spread, f"{100 * (mean(values) / plain - 1):+.1f}")
    return view


if __name__ == "__main__":
    main()
