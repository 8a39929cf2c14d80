"""What separate processes cost: the same job in one process, and over gRPC on loopback.

    python -m benchmarks.studies.network loopback   training and encrypted requests on Adult, as ratios

Both train the same number of trees on the same rows with keys of the same size, and answer the same rows.
Finding the modulus, setting up keys and matching ids come before the clock starts; in one process there is no
matching.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from benchmarks.paper.common import keys, seconds
from benchmarks.paper.datasets import Frame, coded, load
from benchmarks.studies.common import add_command, positive, run_command, table
from revfrf import RevocableForestClassifier
from revfrf.crypto.dtpkc.keys import SECURE_KEY_BITS
from revfrf.node.api import PredictEncrypted, Progress, Train, no_progress
from revfrf.node.config import load_config, with_overrides, write_config
from revfrf.node.control import CONTROL, ask
from revfrf.node.home import CONFIG
from revfrf.node.roles import run_offline
from revfrf.node.sandbox import REQUESTER_NAME, make, start, stop


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure what separate processes cost."
    run_command("benchmarks.studies.network", what, (add_loopback,), arguments)


def add_loopback(commands: Any) -> None:
    what = "training and encrypted requests on Adult, over gRPC against one process"
    parser = add_command(commands, "loopback", what, ["adult"], loopback)
    parser.add_argument("--parties", type=positive, default=5)
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--depth", type=positive, default=10)
    parser.add_argument("--bits", type=positive, default=2048, help="key size")
    parser.add_argument("--rows", type=positive, help="only so many training rows")
    parser.add_argument("--asked", type=positive, default=50, help="rows of an encrypted request")
    parser.add_argument("--rounds", type=positive, default=3)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one round."""

    training: float
    asking: float


def loopback(options: argparse.Namespace, console: Console) -> object:
    dataset = load("adult", options.data)
    split = dataset.splits(0)[0]
    X, y = coded(split.X_train)[: options.rows], split.y_train[: options.rows]
    test = coded(split.X_test)[: options.asked]
    rounds: dict[str, list[Times]] = {"in one process": [], "over gRPC": []}
    for number in range(options.rounds):
        rounds["in one process"].append(embedded(options, X, y, test, number))
        rounds["over gRPC"].append(processes(options, X, y, test, number))
    view = table(f"Adult, {options.trees} trees, {options.bits} bits", "", "training", "asking", "ratios")
    medians = {
        how: Times(*(statistics.median(getattr(t, name) for t in times) for name in ("training", "asking")))
        for how, times in rounds.items()
    }
    base = medians["in one process"]
    for how, found in medians.items():
        ratios = f"{found.training / base.training:.2f}, {found.asking / base.asking:.2f}"
        view.add_row(how, f"{found.training:.2f} s", f"{found.asking:.2f} s", ratios)
    view.caption = "medians"
    console.print(view)
    return {how: [asdict(times) for times in found] for how, found in rounds.items()}


def owned(options: argparse.Namespace, X: Frame) -> dict[str, list[str]]:
    """Whose columns: dealt out like cards."""
    columns = list(map(str, X.columns))
    return {f"hospital-{i + 1}": columns[i :: options.parties] for i in range(options.parties)}


def embedded(options: argparse.Namespace, X: Frame, y: Any, test: Frame, seed: int) -> Times:
    """All in this process."""
    shape = {"n_estimators": options.trees, "max_depth": options.depth, "n_jobs": -1, "random_state": seed}
    model = RevocableForestClassifier(parties=owned(options, X), **shape, **keys(options.bits))
    small = RevocableForestClassifier(1, parties=owned(options, X), n_jobs=-1, **keys(options.bits))
    small.fit(X[:500], y[:500])  # compiles, and makes the modulus
    model.fit(X, y)
    trained = model.federation_.timings.training
    model.predict_encrypted(test[:1])  # admits the requester
    return Times(trained, seconds(lambda: model.predict_encrypted(test)))


def processes(options: argparse.Namespace, X: Frame, y: Any, test: Frame, seed: int) -> Times:
    """A process for every party."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        make(home, options.parties, options.bits, options.bits < SECURE_KEY_BITS)
        _write(home, options, X, y, test)
        _configure(home / "cs", n_estimators=options.trees, max_depth=options.depth, random_state=seed)
        start(home, lambda _: None)
        try:
            return Times(_train(home / "cs"), _ask(home / REQUESTER_NAME))
        finally:
            stop(home)


def _write(home: Path, options: argparse.Namespace, X: Frame, y: Any, test: Frame) -> None:
    ids = [f"r{i}" for i in range(len(X))]
    for party, columns in owned(options, X).items():
        X[columns].set_axis(ids).to_csv(home / party / "rows.csv", index_label="id")
    y.set_axis(ids).rename("label").to_csv(home / "cs" / "rows.csv", index_label="id")
    asked = test.set_axis([f"t{i}" for i in range(len(test))])
    asked.to_csv(home / REQUESTER_NAME / "request.csv", index_label="id")
    asked[:1].to_csv(home / REQUESTER_NAME / "first.csv", index_label="id")


def _configure(home: Path, **changes: Any) -> None:
    config = with_overrides(load_config(home / CONFIG), **changes)
    (home / CONFIG).unlink()
    write_config(home / CONFIG, config)


def _train(cs: Path) -> float:
    """Seconds from the first level on."""
    began: list[float] = []

    def on_progress(progress: Progress) -> None:
        if progress.step == "growing" and not began:
            began.append(perf_counter())

    ask(cs / CONTROL, Train(), on_progress)
    return perf_counter() - began[0]


def _ask(home: Path) -> float:
    """Seconds of a request by somebody who is admitted, and connects for it."""
    run_offline(home, PredictEncrypted(str(home / "first.csv")), no_progress)
    return seconds(lambda: run_offline(home, PredictEncrypted(str(home / "request.csv")), no_progress))


if __name__ == "__main__":
    main()
