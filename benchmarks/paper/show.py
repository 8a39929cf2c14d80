"""Tables and figures, and how they become HTML and Markdown."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from statistics import mean, stdev
from textwrap import TextWrapper

from benchmarks.paper.plots import Series, plot
from revfrf.report.html import table as html_table


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `note` says what a reader must know; several lines become a list."""

    name: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Lines over numbers."""

    name: str
    title: str
    x: str
    y: str
    series: Sequence[Series]
    note: str = ""


Part = Table | Figure


@dataclass(frozen=True, slots=True)
class Chapter:
    """One experiment: what it does, and what came out."""

    name: str
    title: str
    text: str
    parts: Sequence[Part]


STYLE = """<style>
.wide{overflow-x:auto;margin:.4rem 0 .2rem;background:
linear-gradient(to right,var(--paper) 40%,#0000) 0/2rem 100% local,
linear-gradient(to left,var(--paper) 40%,#0000) 100%/2rem 100% local,
linear-gradient(to right,#8888,#0000) 0/.8rem 100% scroll,
linear-gradient(to left,#8888,#0000) 100%/.8rem 100% scroll;background-repeat:no-repeat}
.wide table{width:auto;min-width:100%;white-space:nowrap;background:none}
.wide :is(th,td){text-align:right}.wide :is(th,td):first-child,.wide.text :is(th,td){text-align:left}
.wide.text table{white-space:normal}
h3{font-size:1rem;margin:1.6rem 0 .2rem}.note{color:var(--soft);font-size:.9rem}
.plots{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
.plot{width:100%;height:auto;display:block;border:1px solid var(--line);border-radius:.6rem}
nav ul{columns:18rem;column-gap:2rem;padding-left:1.1rem}a{color:var(--new)}</style>"""


# -- HTML ---------------------------------------------------------------------------------------------


def html_chapter(chapter: Chapter) -> str:
    """Return a chapter as HTML, with consecutive figures side by side."""
    body, figures = [f"<p>{escape(chapter.text)}</p>"], list[str]()
    for part in chapter.parts:
        if isinstance(part, Figure):
            figures.append(_html_figure(part))
            continue
        body += _gathered(figures)
        figures = []
        body.append(_html_table(part))
    body += _gathered(figures)
    return f'<section id="chapter-{chapter.name}"><h2>{escape(chapter.title)}</h2>{"".join(body)}</section>\n'


def _gathered(figures: list[str]) -> list[str]:
    return [f'<div class="plots">{"".join(figures)}</div>'] if figures else []


def _html_table(part: Table) -> str:
    longest = max((len(cell) for row in part.rows for cell in row), default=0)
    kind = "wide text" if longest > 60 else "wide"
    table, note = html_table(part.head, part.rows), _html_note(part.note)
    return f'<h3 id="{part.name}">{escape(part.title)}</h3><div class="{kind}">{table}</div>{note}'


def _html_figure(part: Figure) -> str:
    drawing = b64encode(plot(part.title, part.x, part.y, part.series)).decode()
    image = f'<img class="plot" alt="{escape(part.title)}" src="data:image/svg+xml;base64,{drawing}"/>'
    return f'<figure id="{part.name}">{image}{_html_note(part.note)}</figure>'


def _html_note(note: str) -> str:
    if "\n" in note:
        return f'<ul class="note">{"".join(f"<li>{escape(line)}</li>" for line in note.splitlines())}</ul>'
    return f'<p class="note">{escape(note)}</p>' if note else ""


# -- Markdown -----------------------------------------------------------------------------------------


def markdown_chapter(chapter: Chapter) -> str:
    """Return a chapter as Markdown, with figures as tables of their points."""
    parts = [markdown_part(part) for part in chapter.parts]
    return "\n".join([f"## {chapter.title}", "", *wrapped(chapter.text), "", *parts])


def wrapped(text: str, mark: str = "") -> list[str]:
    """Return prose for a Markdown page, in lines of up to 100 characters."""
    return TextWrapper(100, mark, " " * len(mark), break_long_words=False, break_on_hyphens=False).wrap(text)


def contents(chapters: Iterable[Chapter]) -> list[str]:
    """Return links to the chapters of a Markdown page."""
    return [f"- [{one.title}](#{_anchor(one.title)})" for one in chapters]


def _anchor(title: str) -> str:
    """Return GitHub's anchor of a heading."""
    kept = [c for c in title.lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def markdown_part(part: Part) -> str:
    """Return a table, or the points of a figure, as Markdown."""
    table = part if isinstance(part, Table) else points(part)
    lines = [_row(table.head), _row(["---"] * len(table.head)), *map(_row, table.rows)]
    mark = "- " if "\n" in table.note else ""
    note = [line for each in table.note.splitlines() for line in wrapped(each, mark)]
    return "\n".join([f"### {table.title}", "", *lines, "", *note, *[""] * bool(note)])


def points(figure: Figure) -> Table:
    """Return the points of a figure as a table."""
    places = sorted({x for series in figure.series for x, _, _ in series.points})
    rows = []
    for place in places:
        found = [{x: (y, d) for x, y, d in series.points}.get(place) for series in figure.series]
        rows.append((f"{place:,g}", *("" if one is None else varied(*one) for one in found)))
    head = (figure.x, *(series.label for series in figure.series))
    return Table(figure.name, f"{figure.title}: {figure.y}", head, rows, figure.note)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


# -- numbers ------------------------------------------------------------------------------------------

TINY = 0.001
"""Below it four decimals say nothing."""


def number(value: float) -> str:
    """Return a number with about four significant digits."""
    return f"{value:,.{_places(value)}f}" if value else "0"


def _places(value: float) -> int:
    """Return how many decimals give about four significant digits, or two for very small numbers."""
    size = abs(value)
    if 0 < size < TINY:
        return 1 - floor(log10(size))
    return 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3 if size >= 0.1 else 4


def spread(values: Sequence[float], places: int | None = None) -> str:
    """ "mean ± standard deviation"; of a single value, the value."""
    return varied(mean(values), stdev(values) if len(values) > 1 else None, places)


def varied(middle: float, around: float | None, places: int | None = None) -> str:
    """ "middle ± around", with as many decimals; the middle alone, if nothing is known of around."""
    places = _places(middle) if places is None else places
    both = [middle] if around is None else [middle, around]
    return " ± ".join(f"{round(value, places) + 0.0:,.{places}f}" for value in both)


def several(count: int, what: str) -> str:
    """ "one seed", "5 seeds"."""
    return f"one {what}" if count == 1 else f"{count:,} {what}s"


def ratio(ours: float, theirs: float) -> str:
    """ "× 1.02": ours over theirs; "× 1/23,000" if it is next to nothing."""
    if not theirs:
        return ""
    times = ours / theirs
    return f"× 1/{float(f'{1 / times:.2g}'):,.0f}" if 0 < times < TINY else f"× {number(times)}"
