"""Draw trees as SVG: who owns which split, never its threshold."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from revfrf.forest.tree import Forest

Tree = Mapping[int, str | None]
"""A tree without thresholds, by path: the feature, "party/column", of each split, and None for each leaf."""

Outline = Mapping[int, Tree]
"""The trees of a forest, by number."""

Tags = Mapping[str, tuple[int, str]]
"""The number of each party's colour, and its letter."""

COLOURS = 7
"""Close to Okabe and Ito's palette for colour-blind readers; the letters say the same."""

STYLE = """
.edge{stroke:var(--leaf);stroke-width:1.4}.edge.gone{stroke:var(--gone);stroke-dasharray:4 3}
.edge.new{stroke:var(--new)}.leaf{fill:var(--leaf)}.box.new{fill:var(--new-tint);stroke:var(--new)}
.box.gone{fill:var(--gone-tint);stroke:var(--gone);stroke-dasharray:5 4}.split circle{stroke:var(--card)}
.split text{font:600 12px system-ui,sans-serif;text-anchor:middle;fill:#111}.split.p0 text{fill:#fff}
.p0 circle{fill:#0072b2}.p1 circle{fill:#e69f00}.p2 circle{fill:#2fb58d}.p3 circle{fill:#d58db4}
.p4 circle{fill:#6cc0ee}.p5 circle{fill:#f0e442}.p6 circle{fill:#b08968}
"""
"""For the drawings; the variables are those of `html.THEME`."""


def outline(forest: Forest) -> Outline:
    """Return the trees of a forest without cuts."""

    def named(number: int) -> str | None:
        return forest.features[number] if number >= 0 else None

    return {
        i: dict(zip(tree.paths.tolist(), map(named, tree.features.tolist()), strict=True))
        for i, tree in enumerate(forest.trees)
    }


def most_telling_tree(before: Outline, after: Outline, leavers: Sequence[str]) -> int:
    """Return the number of a tree with many nodes destroyed, many rebuilt and many kept."""

    def tells(number: int) -> int:
        gone = len(below(before[number], tops_of(before[number], leavers)))
        kept = len(before[number]) - gone
        return min(kept, gone, len(after[number]) - kept)

    return max(before, key=tells)


def owner(feature: str) -> str:
    """Return the party that owns a feature."""
    return feature.partition("/")[0]


def tops_of(tree: Tree, leavers: Sequence[str]) -> list[int]:
    """Return the topmost splits of the leavers."""
    own = {path for path, feature in tree.items() if feature is not None and owner(feature) in leavers}
    return sorted(path for path in own if own.isdisjoint(_above(path)))


def below(tree: Tree, tops: Sequence[int]) -> set[int]:
    """Return all nodes at and below these."""
    return {path for path in tree if not {path, *_above(path)}.isdisjoint(tops)}


def _above(path: int) -> Iterator[int]:
    while path := path // 2:
        yield path


def tags_of(parties: Sequence[str]) -> Tags:
    """Give each party a colour and a mark: its initial, or the number at its end, or a letter."""
    letters = [chr(ord("a") + i % 26) for i in range(len(parties))]
    numbers = [re.sub(r"^.*?(\d{0,3})$", r"\1", name) for name in parties]
    initials = [name[0].upper() for name in parties]
    distinct = (marks for marks in (initials, numbers) if len(set(marks)) == len(parties) and all(marks))
    marks = next(distinct, letters)
    return {name: (i % COLOURS, mark) for i, (name, mark) in enumerate(zip(parties, marks, strict=True))}


_STEP, _DROP, _MARGIN = 17, 46, 22


def size_of(*trees: Tree) -> tuple[int, int]:
    """Return width and height of a drawing that fits the largest of these trees."""
    depth = max(path.bit_length() for tree in trees for path in tree)
    return 2 * _MARGIN + _STEP * (max(map(len, trees)) - 1), 2 * _MARGIN + _DROP * (depth - 1)


def _places(tree: Tree) -> dict[int, tuple[int, int]]:
    """Return where each node is drawn: one column per node, from left to right, and one row per depth."""
    depth = max(path.bit_length() for path in tree)

    def from_left(path: int) -> int:  # the middle of what is below it, if the tree were full
        return (2 * path + 1) << (depth - path.bit_length())

    order = {path: i for i, path in enumerate(sorted(tree, key=from_left))}
    return {path: (_MARGIN + _STEP * order[path], _MARGIN + _DROP * (path.bit_length() - 1)) for path in tree}


def draw(tree: Tree, tops: Sequence[int], tags: Tags, marked: str) -> str:
    """Return the tree as SVG elements; the nodes at and below `tops` are marked "gone" or "new"."""
    places = _places(tree)
    parts = [_box([places[path] for path in below(tree, [top])], marked) for top in tops]
    inside = below(tree, tops)
    for path, (x, y) in places.items():
        if path > 1:
            above_x, above_y = places[path // 2]
            kind = f"edge {marked}" if path // 2 in inside else "edge"
            parts.append(f'<path class="{kind}" d="M{above_x} {above_y}L{x} {y}"/>')
    for path, (x, y) in places.items():
        feature = tree[path]
        if feature is None:
            parts.append(f'<circle class="leaf" cx="{x}" cy="{y}" r="4"/>')
        else:
            parts.append(dot(x, y, *tags[owner(feature)], title=feature))
    return "".join(parts)


def _box(places: Sequence[tuple[int, int]], marked: str) -> str:
    """Frame a subtree; no other node is inside, because nodes are ordered from left to right."""
    left, right = min(x for x, _ in places) - 15, max(x for x, _ in places) + 15
    top, bottom = min(y for _, y in places) - 18, max(y for _, y in places) + 14
    size = f'width="{right - left}" height="{bottom - top}"'
    return f'<rect class="box {marked}" x="{left}" y="{top}" {size} rx="14"/>'


def dot(x: int, y: int, colour: int, letter: str, title: str = "") -> str:
    """Return a split: a circle with its owner's colour and letter."""
    hint = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<g class="split p{colour}">{hint}<circle cx="{x}" cy="{y}" r="11"/>'
        f'<text x="{x}" y="{y}" dy=".36em">{escape(letter)}</text></g>'
    )


def figure(tree: Tree, size: tuple[int, int], tops: Sequence[int], tags: Tags, marked: str, cap: str) -> str:
    """Return a drawing with its caption, as HTML."""
    width, height = size
    return (
        f'<figure><figcaption>{escape(cap)}</figcaption><svg class="tree" role="img" '
        f'viewBox="0 0 {width} {height}" style="max-width:{width * 3 // 2}px">'
        f"<title>{escape(cap)}</title>{draw(tree, tops, tags, marked)}</svg></figure>"
    )


def legend(columns: Mapping[str, Sequence[str]], leavers: Sequence[str], tags: Tags) -> str:
    """Return the colour, letter and columns of each party, as HTML; columns unfold."""
    items = []
    for name, owned in columns.items():
        left = ' <em class="left">has left</em>' if name in leavers else ""
        key = f'<svg viewBox="-12 -12 24 24" class="key" aria-hidden="true">{dot(0, 0, *tags[name])}</svg>'
        items.append(
            f"<details><summary>{key} <b>{escape(name)}</b>{left}</summary>"
            f"<small>{escape(', '.join(owned))}</small></details>"
        )
    return f'<div class="legend">{"".join(items)}</div>'
