"""A participant has left: one page about it, for people, that needs nothing but a browser.

The page shows what CS, KGC and the books of the network know: owners and names of features, never a cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from revfrf.certificate import RevocationCertificate
from revfrf.costs import Costs
from revfrf.forest.nodes import Node
from revfrf.storage.memory import CoordinatorStore

Outline = Mapping[Node, str | None]
"""A forest as the page draws it: the feature, "party/column", of each split, and None for each leaf."""


def outline(store: CoordinatorStore) -> Outline:
    """The forest as it is now; what comes later does not change it."""
    splits: dict[Node, str | None] = {node: split.feature for node, split in store.splits.items()}
    return splits | dict.fromkeys(store.leaves)


@dataclass(frozen=True, slots=True)
class Trial:
    """Something that was tried: what, what came out, and whether it is as it should be."""

    what: str
    outcome: str
    as_it_should: bool


@dataclass(frozen=True, slots=True)
class Leaving:
    """All that the page tells. `columns` are those of every participant before."""

    title: str
    summary: str
    columns: Mapping[str, Sequence[str]]
    before: Outline
    after: Outline
    score_before: float
    score_after: float
    seconds: Mapping[str, float]
    trials: Sequence[Trial]
    certificate: RevocationCertificate
    costs: Costs
    leakage: Mapping[str, Mapping[str, int]]


def page(leaving: Leaving) -> str:
    """The page, as HTML."""
    sections = (
        _section("Before and after", _numbers(leaving)),
        _section("One of the trees", _trees(leaving)),
        _section("What was tried", _trials(leaving.trials)),
        _section("The certificate", _certificate(leaving.certificate)),
        _section("What it cost", _costs(leaving)),
        _section("What each of them received", _leakage(leaving)),
    )
    keys = f"{leaving.costs.key_bits}-bit keys: {leaving.costs.security}"
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f'<meta name="color-scheme" content="light dark"/><title>{escape(leaving.title)}</title>'
        f"<style>{STYLE}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>'
        f"<header><h1>{escape(leaving.title)}</h1><p>{escape(leaving.summary)}</p></header>\n"
        f"{''.join(sections)}<footer>Made by RevFRF from one run, with {escape(keys)}.</footer>"
        "</main></body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>\n"


# -- numbers ----------------------------------------------------------------------------------------


def _numbers(leaving: Leaving) -> str:
    report = leaving.certificate.report
    scores = (
        f'<div class="card"><h3>Right answers</h3><p class="big">{leaving.score_before:.1%}'
        f'<span class="then" aria-label="then">→</span>{leaving.score_after:.1%}</p>'
        "<p>of rows that were not trained on</p></div>"
    )
    most = report.kept + max(report.destroyed, report.rebuilt)
    bars = "".join(
        f'<div class="bar">{_part("kept", report.kept, most)}{_part(what, count, most)}</div>'
        for what, count in (("destroyed", report.destroyed), ("rebuilt", report.rebuilt))
    )
    nodes = f'<div class="card"><h3>Nodes of the forest</h3>{bars}</div>'
    times = "".join(
        f"<dt>{escape(what)}</dt><dd>{_seconds(seconds)}</dd>" for what, seconds in leaving.seconds.items()
    )
    clock = f'<div class="card"><h3>On the clock</h3><dl class="facts">{times}</dl></div>'
    return f'<div class="cards">{scores}{nodes}{clock}</div>'


def _part(what: str, count: int, most: int) -> str:
    if not count:
        return ""
    return f'<span class="{what}" style="flex:0 1 {count / most:.1%}"><b>{count:,}</b> {what}</span>'


# -- trees ------------------------------------------------------------------------------------------


Tree = Mapping[int, str | None]
"""One tree of an outline, by path."""


def most_telling_tree(before: Outline, after: Outline, leavers: Sequence[str]) -> int:
    """The number of a tree of which much is destroyed, much is new, and much stays."""
    trees, grown = _by_tree(before), _by_tree(after)

    def tells(number: int) -> int:
        gone = len(_below(trees[number], _tops(trees[number], leavers)))
        kept = len(trees[number]) - gone
        return min(kept, gone, len(grown[number]) - kept)

    return max(trees, key=tells)


def _by_tree(forest: Outline) -> dict[int, dict[int, str | None]]:
    trees: dict[int, dict[int, str | None]] = {}
    for tree, path in sorted(forest):
        trees.setdefault(tree, {})[path] = forest[tree, path]
    return trees


def _owner(feature: str) -> str:
    return feature.partition("/")[0]


def _tops(tree: Tree, leavers: Sequence[str]) -> list[int]:
    """The topmost splits of the leavers."""
    own = {path for path, feature in tree.items() if feature is not None and _owner(feature) in leavers}
    return sorted(path for path in own if not any(above in own for above in _above(path)))


def _above(path: int) -> Iterable[int]:
    while path := path // 2:
        yield path


def _below(tree: Tree, tops: Sequence[int]) -> set[int]:
    """All nodes at and below these."""
    return {path for path in tree if path in tops or any(above in tops for above in _above(path))}


def _trees(leaving: Leaving) -> str:
    leavers = leaving.certificate.leavers
    number = most_telling_tree(leaving.before, leaving.after, leavers)
    trees = _by_tree(leaving.before)
    old, new = trees[number], _by_tree(leaving.after)[number]
    tops = _tops(old, leavers)
    tags = _tags(leaving.columns)
    gone, fresh = len(_below(old, tops)), len(_below(new, tops))
    width = 2 * _MARGIN + _STEP * (max(len(old), len(new)) - 1)
    return (
        f"<p>Tree {number + 1} of {len(trees)}. Each circle is a split, with "
        "the colour and letter of its owner; small grey dots are leaves. Where the cuts lie only the owners "
        f"know.</p>{_legend(leaving.columns, leavers, tags)}"
        f'<div class="trees">{_figure(old, width, tops, tags, "gone", f"Before: {gone} nodes are destroyed")}'
        f"{_figure(new, width, tops, tags, 'new', f'After: {fresh} nodes are grown by those who stay')}</div>"
    )


def _tags(parties: Iterable[str]) -> dict[str, tuple[int, str]]:
    """For each party the number of its colour and its letter, or its number if letters are not enough."""
    names = list(parties)
    letters = [name[0].upper() for name in names]
    if len(set(letters)) < len(names):
        letters = [str(i + 1) for i in range(len(names))]
    return {name: (i % COLOURS, letters[i]) for i, name in enumerate(names)}


def _legend(
    columns: Mapping[str, Sequence[str]], leavers: Sequence[str], tags: Mapping[str, tuple[int, str]]
) -> str:
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


def _places(tree: Tree) -> dict[int, tuple[int, int]]:
    """Where each node is drawn: leaves and splits from left to right, as deep as they are."""
    depth = max(path.bit_length() for path in tree)

    def from_left(path: int) -> int:  # the middle of what is below it, if the tree were full
        return (2 * path + 1) << (depth - path.bit_length())

    order = {path: i for i, path in enumerate(sorted(tree, key=from_left))}
    return {path: (_MARGIN + _STEP * order[path], _MARGIN + _DROP * (path.bit_length() - 1)) for path in tree}


def _figure(
    tree: Tree,
    width: int,
    tops: Sequence[int],
    tags: Mapping[str, tuple[int, str]],
    marked: str,
    caption: str,
) -> str:
    """A tree as a drawing in which the nodes at and below `tops` are marked."""
    places = _places(tree)
    parts = [_box([places[path] for path in _below(tree, [top])], marked) for top in tops]
    inside = _below(tree, tops)
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
            parts.append(_circle(x, y, *tags[_owner(feature)], title=feature))
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


# -- what was tried, the certificate -----------------------------------------------------------------


def _trials(trials: Sequence[Trial]) -> str:
    items = "".join(
        f'<li class="{"good" if trial.as_it_should else "bad"}"><b>{escape(trial.what)}</b>'
        f"<br/>{escape(trial.outcome)}</li>"
        for trial in trials
    )
    return f'<p>A tick says that it came out as it should.</p><ul class="trials">{items}</ul>'


def _certificate(certificate: RevocationCertificate) -> str:
    report, after = certificate.report, certificate.epoch_after
    asked = max(request.time for request in certificate.requests)
    when = datetime.fromtimestamp(asked, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    facts = {
        "who left": ", ".join(certificate.leavers),
        "asked to leave": when,
        "level": "2: new keys for everybody" if certificate.level == 2 else "1: the keys stay as they are",
        "epoch": f"{certificate.epoch_before.epoch} → {after.epoch}",
        "who stays": ", ".join(member.name for member in after.members),
        "receipts for erased keys": f"{len(certificate.receipts)}",
        "nodes": f"{report.destroyed:,} destroyed, {report.rebuilt:,} rebuilt, {report.kept:,} kept",
        "digest before": report.digest_before,
        "digest after": report.digest_after,
        "signed by KGC": certificate.signature.hex(),
    }
    rows = "".join(f"<dt>{escape(what)}</dt><dd>{escape(fact)}</dd>" for what, fact in facts.items())
    return f'<dl class="facts card">{rows}</dl>'


# -- books ------------------------------------------------------------------------------------------


def _costs(leaving: Leaving) -> str:
    return (
        "<p>Processor seconds and bytes of messages, of the whole run; FOS-Find is sent with FLE-Expan."
        f'</p><div class="tables">{_by_role(leaving)}{_by_protocol(leaving.costs)}</div>'
    )


def _by_role(leaving: Leaving) -> str:
    costs = leaving.costs
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    for link, protocols in costs.traffic.items():
        sender, _, recipient = link.partition(" -> ")
        size = sum(cell["bytes"] for cell in protocols.values())
        sent[sender] = sent.get(sender, 0) + size
        received[recipient] = received.get(recipient, 0) + size
    rows = []
    for role in _roles(costs.work.keys() | sent.keys() | received.keys(), leaving.columns):
        seconds = sum(cell["seconds"] for cell in costs.work.get(role, {}).values())
        rows.append((role, _seconds(seconds), _bytes(sent.get(role, 0)), _bytes(received.get(role, 0))))
    return _table(("role", "seconds", "sent", "received"), rows)


def _by_protocol(costs: Costs) -> str:
    names = {name for table in (costs.work, costs.traffic) for row in table.values() for name in row}
    each: list[str | None] = [*sorted(names), None]
    rows = [(p or "all", _seconds(costs.total("seconds", p)), _bytes(costs.total("bytes", p))) for p in each]
    return _table(("protocol", "seconds", "bytes"), rows)


def _leakage(leaving: Leaving) -> str:
    cards = []
    for role in _roles(leaving.leakage, leaving.columns):
        seen = "".join(
            f"<dt>{escape(what)}</dt><dd>{count:,}</dd>" for what, count in leaving.leakage[role].items()
        )
        cards.append(f'<div class="card"><h3>{escape(role)}</h3><dl class="facts">{seen}</dl></div>')
    return (
        "<p>Counted from the messages of this run. Nobody but its owner received a column or a cut in the "
        f'clear.</p><div class="flow">{"".join(cards)}</div>'
    )


def _roles(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The servers first, then the participants, then who asks."""
    order = ["KGC", "CS", "CC", *columns]
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s"


def _bytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


# -- how it looks -----------------------------------------------------------------------------------

COLOURS = 7
"""Okabe and Ito's, nearly, which colour-blind readers can tell apart; letters say the same."""

STYLE = """
:root{--paper:#fbfbf9;--card:#fff;--ink:#1d2226;--soft:#5b646c;--line:#d9dcde;--leaf:#a9b0b6;
--gone:#c2500a;--gone-tint:#c2500a14;--new:#3a5fa8;--new-tint:#3a5fa814}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1c2024;--ink:#e7e9ea;--soft:#9ea8b0;
--line:#343a40;--leaf:#6b747c;--gone:#f08a4b;--gone-tint:#f08a4b1f;--new:#8fb0ee;--new-tint:#8fb0ee1f}}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
*{box-sizing:border-box}main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:clamp(1.5rem,5vw,2.1rem);line-height:1.2;margin:.5rem 0}h3{font-size:.9rem;margin:0 0 .4rem}
h2{font-size:1.2rem;margin:2.5rem 0 .5rem}p{margin:.3rem 0 .8rem;max-width:46rem}small{color:var(--soft)}
footer{color:var(--soft);margin-top:3rem;border-top:1px solid var(--line);padding-top:.8rem;font-size:.85rem}
.card,table{background:var(--card);border:1px solid var(--line);border-radius:.6rem}
.card{padding:.9rem 1rem}.card p:last-child{margin:0;color:var(--soft);font-size:.9rem}
.cards,.trees,.tables,.legend{display:grid;gap:.8rem 1rem;align-items:start;padding:0;
grid-template-columns:repeat(auto-fit,minmax(min(100%,18rem),1fr))}
.cards{align-items:stretch}.flow{columns:18rem;column-gap:1rem}.flow .card{break-inside:avoid;margin:0 0 1rem}
.trees,.tables{grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
.card .big{font-size:1.7rem;font-weight:600;margin:0}.then{color:var(--soft);font-weight:400;padding:0 .5rem}
.bar{display:flex;gap:2px;margin:.45rem 0}.bar span{padding:.3rem .5rem;font-size:.85rem;min-width:5.6rem;
border:1.5px solid var(--line);border-radius:.3rem}.bar .kept{background:var(--line)}
.bar .destroyed{background:var(--gone-tint);border:1.5px dashed var(--gone)}
.bar .rebuilt{background:var(--new-tint);border-color:var(--new)}
.facts{display:grid;grid-template-columns:1fr auto;gap:.2rem 1rem;margin:0;font-size:.9rem}
.facts dt{color:var(--soft)}.facts dd{margin:0;text-align:right;font-variant-numeric:tabular-nums}
.facts.card{grid-template-columns:12rem 1fr}.facts.card dd{text-align:left;overflow-wrap:anywhere}
@media (max-width:34rem){.facts.card{grid-template-columns:1fr}.facts.card dd{margin-bottom:.5rem}}
.legend,.trials{list-style:none;padding:0;margin:1rem 0}.left{color:var(--gone);font:.85rem system-ui}
.legend li{display:flex;gap:.6rem;line-height:1.35}.key{flex:none;width:1.6rem;height:1.6rem}
figure{margin:0}figcaption{font-weight:600;margin:.3rem 0}.tree{width:100%;height:auto;display:block}
.edge{stroke:var(--leaf);stroke-width:1.4}.edge.gone{stroke:var(--gone);stroke-dasharray:4 3}
.edge.new{stroke:var(--new)}.leaf{fill:var(--leaf)}.box.new{fill:var(--new-tint);stroke:var(--new)}
.box.gone{fill:var(--gone-tint);stroke:var(--gone);stroke-dasharray:5 4}.split circle{stroke:var(--card)}
.split text{font:600 12px system-ui,sans-serif;text-anchor:middle;fill:#111}.split.p0 text{fill:#fff}
.p0 circle{fill:#0072b2}.p1 circle{fill:#e69f00}.p2 circle{fill:#2fb58d}.p3 circle{fill:#d58db4}
.p4 circle{fill:#6cc0ee}.p5 circle{fill:#f0e442}.p6 circle{fill:#b08968}.trials .bad::before{content:"✗"}
.trials .good::before{content:"✓"}.trials li::before{position:absolute;left:.3rem;font-weight:700}
.trials li{position:relative;padding:.5rem 0 .5rem 2rem;border-top:1px solid var(--line)}
table{width:100%;border-spacing:0;font-size:.9rem;font-variant-numeric:tabular-nums;padding:.4rem}
th,td{padding:.25rem .4rem;text-align:right}th{color:var(--soft);font-weight:600}
th:first-child,td:first-child{text-align:left}tbody td{border-top:1px solid var(--line)}
"""
