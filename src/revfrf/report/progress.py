"""Progress bars: while a forest grows, and while it answers encrypted requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from revfrf.protocols.paper.fle_expan import LevelReport


@contextmanager
def level_progress(verbose: int) -> Iterator[Callable[[LevelReport], None]]:
    """What to call at each level; it draws on standard error if `verbose`, and is silent otherwise.

    The bar counts levels times rows: a row that has reached its leaf counts with all the levels below it.
    """
    if not verbose:
        yield lambda _: None
        return
    fields = "level {task.fields[level]} · {task.fields[trees]} trees · {task.fields[nodes]} nodes"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn(fields),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("keys", total=1.0, level=0, trees=0, nodes=0)

        def show(report: LevelReport) -> None:
            progress.update(
                task,
                description="forest",
                completed=report.work,
                level=report.level,
                trees=report.trees,
                nodes=report.nodes,
            )

        yield show
        progress.update(task, completed=1.0)


@contextmanager
def request_progress(verbose: int, n_rows: int) -> Iterator[Callable[[float], None]]:
    """What to call with the number of rows that are answered; like `level_progress`, silent by default."""
    if not verbose:
        yield lambda _: None
        return
    columns = (
        TextColumn("encrypted rows"),
        BarColumn(bar_width=16),
        TextColumn("{task.completed:.1f} of {task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=n_rows)
        yield lambda rows: progress.update(task, completed=rows)
        progress.update(task, completed=n_rows)
