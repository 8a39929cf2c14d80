"""Lines over numbers, as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 74, 16, 16, 78


Point = tuple[float, float, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """A line: x, y, and by how much y varies up and down, None where there is a single trial."""

    label: str
    points: Sequence[Point]


def plot(title: str, x_label: str, y_label: str, lines: Sequence[Series]) -> str:
    """A drawing. Marks of different shape say what colours say."""
    xs = [x for line in lines for x, _, _ in line.points]
    ys = [y + side * (d or 0) for line in lines for _, y, d in line.points for side in (-1, 1)]
    across, up = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - across[0]) / (across[-1] - across[0])
        high = (y - up[0]) / (up[-1] - up[0])
        return LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - high * (HEIGHT - TOP - BOTTOM)

    parts = []
    for y in up:
        _, high = place(across[0], y)
        parts.append(f'<path class="grid" d="M{LEFT} {high:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6, high + 4, f"{y:,g}", "end"))
    for x in across:
        right, low = place(x, up[0])
        parts.append(_text(right, low + 16, f"{x:,g}"))
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 34, x_label))
    parts.append(
        f'<text x="0" y="0" text-anchor="middle" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) '
        f'rotate(-90)">{escape(y_label)}</text>'
    )
    for i, line in enumerate(lines):
        parts.append(_line(i, [(*place(x, y), place(x, y + (d or 0))[1]) for x, y, d in line.points]))
    parts.append(_legend(lines))
    return (
        f'<svg class="plot" role="img" viewBox="0 0 {WIDTH} {HEIGHT}"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers that hold both between them."""
    if high <= low:
        low, high = low - abs(low or 1) / 10, high + abs(high or 1) / 10
    raw = (high - low) / 5
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw)
    first, last = floor(low / step), ceil(high / step)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _line(i: int, spots: Sequence[tuple[float, float, float]]) -> str:
    colour = f"s{i % 5}"
    above = [f"{x:.1f},{top:.1f}" for x, _, top in spots]
    below = [f"{x:.1f},{2 * y - top:.1f}" for x, y, top in reversed(spots)]
    band = f'<polygon class="band {colour}" points="{" ".join(above + below)}"/>'
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in spots)
    dashes = ("", "7 4", "2 4", "9 3 2 3", "4 2")[i % 5]
    marks = "".join(_mark(i, x, y) for x, y, _ in spots)
    return f'{band}<polyline class="{colour}" stroke-dasharray="{dashes}" points="{line}"/>{marks}'


def _mark(i: int, x: float, y: float) -> str:
    colour = f"s{i % 5}"
    if i % 3 == 0:
        return f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>'
    if i % 3 == 1:
        return f'<rect class="{colour}" x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"/>'
    return f'<path class="{colour}" d="M{x:.1f} {y - 4:.1f}l4 7h-8z"/>'


def _legend(lines: Sequence[Series]) -> str:
    """Two columns at most, below the drawing."""
    parts = []
    for i, line in enumerate(lines):
        x, y = LEFT - 44 + 220 * (i % 2), HEIGHT - 24 + 16 * (i // 2)
        parts.append(_mark(i, x, y - 4) + _text(x + 10, y, line.label, "start"))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
