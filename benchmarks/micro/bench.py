"""Every operation of the cryptosystem, timed beside its baseline in the same run.

Operations take turns within a round, so that a busy machine slows all of them; figures are medians over the
rounds, and `ratio` is the baseline's seconds over ours. Baselines: python-paillier for encrypting and
decrypting, the paper's own HoLT for comparing, one worker for two.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.micro.operations import Bench, Operation
from benchmarks.paper.common import seconds
from revfrf.errors import UsageError
from revfrf.io.files import check_place, write_text


@dataclass(frozen=True, slots=True)
class Measurement:
    operation: str
    bits: int
    seconds: float
    baseline: str | None
    ratio: float | None


def main(sizes: Sequence[int], rounds: int, file: Path | None) -> None:
    """Time all operations for each size of keys, and print a table of each; the results go into the file."""
    if file is not None:
        check_place(file)  # better now than after minutes of work
    console = Console()
    results: list[Measurement] = []
    for bits in sizes:
        try:
            measured = measure(bits, rounds, console)
        except UsageError as error:
            raise UsageError(f"--bits {bits}: {error}") from None
        console.print(table(bits, measured))
        results += measured
    if file is not None:
        write_text(file, json.dumps([asdict(result) for result in results], indent=2) + "\n")


def measure(bits: int, rounds: int, console: Console) -> list[Measurement]:
    ops = Bench(bits).operations()
    times: dict[str, list[float]] = {op.name: [] for op in ops}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{bits} bits", total=rounds * len(ops))
        for _ in range(rounds):
            for op in ops:
                times[op.name].append(seconds(op.run) / op.items)
                progress.advance(task)
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    return [to_measurement(op, bits, medians) for op in ops]


def to_measurement(op: Operation, bits: int, medians: dict[str, float]) -> Measurement:
    ours = medians[op.name]
    ratio = medians[op.baseline] / ours if op.baseline else None
    return Measurement(op.name, bits, ours, op.baseline, ratio)


def table(bits: int, results: list[Measurement]) -> Table:
    view = Table("operation", title=f"{bits} bits", title_justify="left")
    view.add_column("each, ms", justify="right")
    view.add_column("baseline")
    view.add_column("times as fast", justify="right")
    for result in results:
        ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
        view.add_row(result.operation, f"{result.seconds * 1e3:.3f}", result.baseline or "", ratio)
    return view
