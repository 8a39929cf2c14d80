"""What separate processes cost: the same job in one process, and over gRPC on loopback.

    python -m benchmarks.studies.network loopback   training and encrypted requests on Adult, as ratios
    python -m benchmarks.studies.network distant    training over slow links, with set-up and matching

Loopback trains the same number of trees on the same rows with keys of the same size, and answers the same
rows, with scikit-learn beside it. Finding the modulus, setting up keys and matching ids come before the clock
starts; in one process there is no matching.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier

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
from revfrf.testing.link import FaultyLink


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure what separate processes cost."
    run_command("benchmarks.studies.network", what, (add_loopback, add_distant), arguments)


def add_loopback(commands: Any) -> None:
    what = "training and encrypted requests on Adult, over gRPC against one process"
    parser = add_command(commands, "loopback", what, ["adult"], loopback)
    _add_options(parser)
    parser.add_argument("--rows", type=positive, help="only so many training rows")
    parser.add_argument("--asked", type=positive, default=50, help="rows of an encrypted request")


def add_distant(commands: Any) -> None:
    what = "training on Adult over links with a delay, with set-up and matching"
    parser = add_command(commands, "distant", what, ["adult"], distant)
    _add_options(parser)
    parser.add_argument("--rows", type=positive, default=3000, help="only so many training rows")
    parser.add_argument("--round-trip", type=float, default=0.2, metavar="SECONDS")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--protocol", choices=("shares", "paper"), default="shares")
    parser.add_argument("--parties", type=positive, default=5)
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--depth", type=positive, default=10)
    parser.add_argument("--bits", type=positive, default=2048, help="key size of the paper protocol")
    parser.add_argument("--rounds", type=positive, default=3)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one round. With the shares protocol nobody can ask yet."""

    training: float
    asking: float | None = None


def loopback(options: argparse.Namespace, console: Console) -> object:
    X, y, test = _adult(options)
    ways = {"scikit-learn": plain, "in one process": embedded, "over gRPC": processes}
    rounds: dict[str, list[Times]] = {how: [] for how in ways}
    for number in range(options.rounds):
        for how, run in ways.items():
            rounds[how].append(run(options, X, y, test, number))
    console.print(_view(options, rounds))
    return {how: [asdict(times) for times in found] for how, found in rounds.items()}


def _view(options: argparse.Namespace, rounds: dict[str, list[Times]]) -> Table:
    """The medians, and training compared with scikit-learn's."""
    title = f"Adult, {options.trees} trees, {options.protocol} protocol"
    view = table(title, "", "training", "compared with scikit-learn", "asking")
    base = statistics.median(times.training for times in rounds["scikit-learn"])
    for how, found in rounds.items():
        training = statistics.median(times.training for times in found)
        asked = [times.asking for times in found if times.asking is not None]
        asking = f"{statistics.median(asked):.2f} s" if asked else ""
        view.add_row(how, f"{training:.2f} s", f"{training / base:.2f}", asking)
    view.caption = "medians; scikit-learn with one job"
    return view


def distant(options: argparse.Namespace, console: Console) -> object:
    X, y, test = _adult(options)
    found = []
    for number in range(options.rounds):
        with _federation(options, X, y, test, number, options.round_trip) as home:
            found.append(seconds(lambda: ask(home / "cs" / CONTROL, Train(), no_progress)))
    title = f"Adult, {len(X):,} rows, {options.trees} trees, {options.protocol} protocol"
    view = table(title, "", "set-up, matching and training")
    view.add_row(f"round trip {options.round_trip} s", f"{statistics.median(found):.2f} s")
    view.caption = "median; the first round may compile"
    console.print(view)
    return found


def _adult(options: argparse.Namespace) -> tuple[Frame, Any, Frame]:
    """Training rows, their labels, and rows to ask about."""
    split = load("adult", options.data).splits(0)[0]
    test = coded(split.X_test)[: getattr(options, "asked", 1)]
    return coded(split.X_train)[: options.rows], split.y_train[: options.rows], test


def owned(options: argparse.Namespace, X: Frame) -> dict[str, list[str]]:
    """Whose columns: dealt out like cards."""
    columns = list(map(str, X.columns))
    return {f"hospital-{i + 1}": columns[i :: options.parties] for i in range(options.parties)}


def plain(options: argparse.Namespace, X: Frame, y: Any, _: Frame, seed: int) -> Times:
    """A forest of scikit-learn on all columns."""
    shape = {"n_estimators": options.trees, "max_depth": options.depth, "random_state": seed}
    return Times(seconds(lambda: RandomForestClassifier(n_jobs=1, **shape).fit(X, y)))


def embedded(options: argparse.Namespace, X: Frame, y: Any, test: Frame, seed: int) -> Times:
    """All in this process."""
    shape: dict[str, Any] = {"n_estimators": options.trees, "max_depth": options.depth, "random_state": seed}
    common: dict[str, Any] = {"parties": owned(options, X), "n_jobs": -1} | _protocol(options)
    RevocableForestClassifier(1, **common).fit(X[:500], y[:500])  # compiles, and makes the modulus
    model = RevocableForestClassifier(**shape, **common).fit(X, y)
    trained = model.federation_.timings.training
    if options.protocol == "shares":
        return Times(trained)
    model.predict_encrypted(test[:1])  # admits the requester
    return Times(trained, seconds(lambda: model.predict_encrypted(test)))


def _protocol(options: argparse.Namespace) -> dict[str, Any]:
    return keys(options.bits) if options.protocol == "paper" else {"protocol": "shares"}


def processes(options: argparse.Namespace, X: Frame, y: Any, test: Frame, seed: int) -> Times:
    """A process for every party."""
    with _federation(options, X, y, test, seed) as home:
        trained = _train(home / "cs")
        return Times(trained, None if options.protocol == "shares" else _ask(home / REQUESTER_NAME))


@contextmanager
def _federation(
    options: argparse.Namespace, X: Frame, y: Any, test: Frame, seed: int, round_trip: float = 0.0
) -> Iterator[Path]:
    """The directory of a federation of processes that run. All links to CS have this delay."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as closing:
        home = Path(place)
        paper = options.protocol == "paper"
        insecure = paper and options.bits < SECURE_KEY_BITS
        make(home, options.parties, options.bits, insecure, options.protocol)
        _write(home, options, X, y, test)
        _configure(home / "cs", n_estimators=options.trees, max_depth=options.depth, random_state=seed)
        if round_trip:
            listening = load_config(home / "cs" / CONFIG).network.listen
            link = closing.enter_context(FaultyLink(str(listening), round_trip=round_trip))
            for party in ("kgc", "cc", *owned(options, X)):
                _configure(home / party, coordinator=link.address)
        closing.callback(stop, home)
        start(home, lambda _: None)
        yield home


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
