"""The progress bar of the library, the command line and the benchmarks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:  # the command line shows progress without loading any protocol
    from revfrf.protocols.sides import GrowthReport

Update = Callable[[float | None, str | None], None]
"""Sets the share of the work that is done, if it is known, and the text of a bar, if it changes."""


@contextmanager
def progress_bar(console: Console, shown: bool, transient: bool = False) -> Iterator[Update]:
    """Draw a bar if `shown`, and yield the function that updates it."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(bar_width=12), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=transient, disable=not shown) as progress:
        task = progress.add_task("", total=None)

        def update(done: float | None, text: str | None) -> None:
            total = None if done is None else 1.0
            progress.update(task, description=text, total=total, completed=done or 0.0)

        yield update


@contextmanager
def level_progress(verbose: int) -> Iterator[Callable[["GrowthReport"], None]]:
    """Yield what a growing forest calls at each depth; it draws on standard error if `verbose`."""
    with progress_bar(Console(stderr=True), bool(verbose)) as update:
        update(0.0, "keys")

        def show(report: "GrowthReport") -> None:
            update(report.work, f"forest: {report.detail}")

        yield show
        update(1.0, None)


@contextmanager
def request_progress(verbose: int, n_rows: int) -> Iterator[Callable[[float], None]]:
    """Yield what takes the number of rows predicted so far; it draws on standard error if `verbose`."""
    with progress_bar(Console(stderr=True), bool(verbose)) as update:

        def show(rows: float) -> None:
            update(rows / n_rows, f"encrypted rows: {rows:.1f} of {n_rows}")

        show(0)
        yield show
        show(n_rows)
