"""One page about a federation, made from what CS knows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from revfrf.protocols.certificate import EventCertificate, shown_by
from revfrf.protocols.columns import revealed
from revfrf.report import drawing
from revfrf.report.drawing import Outline
from revfrf.report.html import document, facts, section, table

_WORDS = (
    "<p>An epoch is the time between two changes of the members; a new one begins whenever somebody "
    "has left. The digest identifies the forest: two forests with the same digest are equal.</p>"
)
_SUMMARY = (
    "What the coordinator (CS) knows: who owns each split, and which column it looks at. "
    "Only the owner of a split knows its threshold."
)
_BITS = (
    "<p>One bin per row and column, once. Bits are those that CS has received of each value at the most: "
    "log2 of the number of bins. Noise takes some of them away.</p>"
)
Columns = Mapping[str, Sequence[str]]
"""The columns of each participant."""


def forest_page(
    federation: str,
    known: Mapping[str, Any],
    columns: Columns,
    forest: Outline,
    certificates: Sequence[EventCertificate],
    before: Outline | None = None,
    transcript: str = "",
) -> str:
    """Return the page, as HTML, with what is `known` of the federation.

    If `before` is given, it is the forest before the last of the certificates, the page also shows what has
    changed, and `columns` has the leavers, too. `transcript` is HTML.
    """
    events = [section(_event(c), _certificate(c)) for c in certificates]
    leavers = () if before is None else certificates[-1].leavers
    sections = [
        section("The federation", facts(known) + _WORDS),
        section("Splits by owner", _splits(columns, forest)),
        section("What CS has received", _received(certificates)),
        section("One of the trees", _trees(columns, before, forest, leavers)),
        *reversed(events),
        section("The run", f"<pre>{transcript}</pre>") if transcript else "",
    ]
    return document(f"The forest of {federation}", _SUMMARY, sections, "Made by RevFRF.")


def _splits(columns: Columns, forest: Outline) -> str:
    """Count the splits of each participant and of its columns."""
    splits = Counter(feature for tree in forest.values() for feature in tree.values() if feature is not None)
    rows = []
    for party, owned in columns.items():
        own = Counter({column: splits[f"{party}/{column}"] for column in owned})
        used = ", ".join(f"{column} ({count:,})" for column, count in own.most_common(5) if count)
        share = own.total() / max(1, splits.total())
        rows.append((party, f"{own.total():,}", f"{share:.1%}", used))
    return table(("participant", "splits", "share", "most used columns"), rows)


def _received(certificates: Sequence[EventCertificate]) -> str:
    """List what CS has received of each column, as its owner has signed it."""
    lines = certificates[-1].core.report.inputs_after.features if certificates else ()
    if not lines:
        return "<p>Of each column, the bins of the rows of nodes, again at every node (paper protocol).</p>"
    rows = []
    for line in lines:
        found = revealed(line)
        noise = "none" if found["epsilon"] is None else f"epsilon {found['epsilon']:g}"
        kept = "until the forest is grown" if found["forgotten"] else "as long as the forest"
        rows.append((line.feature, f"{found['bins']}", f"{found['bits']:.1f}", noise, kept))
    return f"{_BITS}{table(('column', 'bins', 'bits', 'noise', 'CS keeps the bins'), rows)}"


def _trees(columns: Columns, before: Outline | None, forest: Outline, leavers: Sequence[str]) -> str:
    """Draw the tree of median size or, if somebody has just left, the most telling one before and after."""
    tags = drawing.tags_of([*columns])
    if before is None:
        number = sorted(forest, key=lambda n: len(forest[n]))[len(forest) // 2]
        new = forest[number]
        drawn = drawing.figure(new, drawing.size_of(new), (), tags, "", "The tree of median size")
    else:
        number = drawing.most_telling_tree(before, forest, leavers)
        old, new = before[number], forest[number]
        tops, size = drawing.tops_of(old, leavers), drawing.size_of(old, new)
        gone, fresh = len(drawing.below(old, tops)), len(drawing.below(new, tops))
        drawn = drawing.figure(old, size, tops, tags, "gone", f"Before: {gone:,} nodes will be destroyed")
        drawn += drawing.figure(new, size, tops, tags, "new", f"After: {fresh:,} nodes are rebuilt")
    return (
        f"<p>Tree {number + 1:,} of {len(forest):,}. Each circle is a split, with the colour and letter of "
        f"its owner; small grey dots are leaves.</p>{drawing.legend(columns, leavers, tags)}"
        f'<div class="trees">{drawn}</div>'
    )


def _event(certificate: EventCertificate) -> str:
    return f"{', '.join(certificate.leavers)} left" if certificate.leavers else "The forest was created"


def _certificate(certificate: EventCertificate) -> str:
    return facts({**shown_by(certificate), "signed by KGC": certificate.core.signature.hex()})
