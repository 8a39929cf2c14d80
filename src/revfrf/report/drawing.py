"""Trees as drawings: who owns which split, never where the cuts lie."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from revfrf.forest.nodes import Node
from revfrf.report.html import COLOURS
from revfrf.storage.memory import CoordinatorStore

Outline = Mapping[Node, str | None]
"""A forest as it is drawn: the feature, "party/column", of each split, and None for each leaf."""


def outline(store: CoordinatorStore) -> Outline:
    """The forest as it is now; what comes later does not change it."""
    splits: dict[Node, str | None] = {node: split.feature for node, split in store.splits.items()}
    return splits | dict.fromkeys(store.leaves)


Tree = Mapping[int, str | None]
"""One tree of an outline, by path."""


def most_telling_tree(before: Outline, after: Outline, leavers: Sequence[str]) -> int:
    """The number of a tree of which much is destroyed, much is new, and much stays."""
    trees, grown = by_tree(before), by_tree(after)

    def tells(number: int) -> int:
        gone = len(below(trees[number], tops_of(trees[number], leavers)))
        kept = len(trees[number]) - gone
        return min(kept, gone, len(grown[number]) - kept)

    return max(trees, key=tells)


def by_tree(forest: Outline) -> dict[int, dict[int, str | None]]:
    """Its trees, by number."""
    trees: dict[int, dict[int, str | None]] = {}
    for tree, path in sorted(forest):
        trees.setdefault(tree, {})[path] = forest[tree, path]
    return trees


def owner(feature: str) -> str:
    """Whose feature it is."""
    return feature.partition("/")[0]


def tops_of(tree: Tree, leavers: Sequence[str]) -> list[int]:
    """The topmost splits of the leavers."""
    own = {path for path, feature in tree.items() if feature is not None and owner(feature) in leavers}
    return sorted(path for path in own if not any(above in own for above in _above(path)))


def _above(path: int) -> Iterable[int]:
    while path := path // 2:
        yield path


def below(tree: Tree, tops: Sequence[int]) -> set[int]:
    """All nodes at and below these."""
    return {path for path in tree if path in tops or any(above in tops for above in _above(path))}


def tags_of(parties: Iterable[str]) -> dict[str, tuple[int, str]]:
    """For each party the number of its colour, and its letter; if letters are not enough, the number at the
    end of its name, or where it stands.
    """
    names = list(parties)
    letters = [name[0].upper() for name in names]
    numbers = [name[len(name.rstrip("0123456789")) :] for name in names]
    if len(set(letters)) < len(names):
        short = len(set(numbers)) == len(names) and all(0 < len(number) < 3 for number in numbers)
        letters = numbers if short else [str(i + 1) for i in range(len(names))]
    return {name: (i % COLOURS, letters[i]) for i, name in enumerate(names)}


def legend(
    columns: Mapping[str, Sequence[str]], leavers: Sequence[str], tags: Mapping[str, tuple[int, str]]
) -> str:
    """Which colour and letter is whose."""
    items = []
    for name, owned in columns.items():
        colour, letter = tags[name]
        left = ' <em class="left">has left</em>' if name in leavers else ""
        items.append(
            f'<li><svg viewBox="-12 -12 24 24" class="key" aria-hidden="true">{_circle(0, 0, colour, letter)}'
            f"</svg><div><b>{escape(name)}</b>{left}<br/><small>{escape(', '.join(owned))}</small></div></li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


_STEP, _DROP, _MARGIN = 17, 46, 22


def width_of(*trees: Tree) -> int:
    """How wide a drawing is in which the largest of these fits."""
    return 2 * _MARGIN + _STEP * (max(map(len, trees)) - 1)


def _places(tree: Tree) -> dict[int, tuple[int, int]]:
    """Where each node is drawn: leaves and splits from left to right, as deep as they are."""
    depth = max(path.bit_length() for path in tree)

    def from_left(path: int) -> int:  # the middle of what is below it, if the tree were full
        return (2 * path + 1) << (depth - path.bit_length())

    order = {path: i for i, path in enumerate(sorted(tree, key=from_left))}
    return {path: (_MARGIN + _STEP * order[path], _MARGIN + _DROP * (path.bit_length() - 1)) for path in tree}


def figure(
    tree: Tree,
    width: int,
    tops: Sequence[int],
    tags: Mapping[str, tuple[int, str]],
    marked: str,
    caption: str,
) -> str:
    """A tree as a drawing in which the nodes at and below `tops` are marked."""
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
            parts.append(_circle(x, y, *tags[owner(feature)], title=feature))
    height = max(y for _, y in places.values()) + _MARGIN
    return (
        f'<figure><figcaption>{escape(caption)}</figcaption><svg class="tree" role="img" '
        f'viewBox="0 0 {width} {height}" style="max-width:{width * 3 // 2}px">'
        f"<title>{escape(caption)}</title>{''.join(parts)}</svg></figure>"
    )


def _box(places: Sequence[tuple[int, int]], marked: str) -> str:
    """Around a subtree; nothing else is in it, because nodes come from left to right."""
    left, right = min(x for x, _ in places) - 15, max(x for x, _ in places) + 15
    top, bottom = min(y for _, y in places) - 18, max(y for _, y in places) + 14
    size = f'width="{right - left}" height="{bottom - top}"'
    return f'<rect class="box {marked}" x="{left}" y="{top}" {size} rx="14"/>'


def _circle(x: int, y: int, colour: int, letter: str, title: str = "") -> str:
    hint = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<g class="split p{colour}">{hint}<circle cx="{x}" cy="{y}" r="11"/>'
        f'<text x="{x}" y="{y}" dy=".36em">{escape(letter)}</text></g>'
    )
