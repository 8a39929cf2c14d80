"""Lines over numbers, drawn by matplotlib as SVG."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from matplotlib import rc_context
from matplotlib.figure import Figure

SIZE = (6.0, 3.75)
STYLES = (("#0072b2", "o", "-"), ("#d55e00", "s", "--"), ("#2fb58d", "^", ":"), ("#b1619a", "D", "-."))
"""Colour, mark and line: each alone tells the lines apart."""

Point = tuple[float, float, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """A line: x, y, and the standard deviation of y, None for a single trial."""

    label: str
    points: Sequence[Point]


def plot(title: str, x_label: str, y_label: str, lines: Sequence[Series]) -> bytes:
    """Return a drawing as SVG, the same bytes for the same lines."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(axis="y", alpha=0.3)
    for line, (colour, mark, dashes) in zip(lines, cycle(STYLES), strict=False):
        xs, ys, spread = zip(*((x, y, d or 0.0) for x, y, d in line.points), strict=True)
        axes.errorbar(
            xs, ys, spread, label=line.label, color=colour, marker=mark, linestyle=dashes, capsize=3
        )
    axes.legend()
    drawn = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "revfrf"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()
