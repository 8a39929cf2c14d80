"""One page about a federation, made from what CS knows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from revfrf.protocols.certificate import RevocationCertificate, shown_by
from revfrf.report.drawing import (
    Outline,
    below,
    by_tree,
    figure,
    legend,
    most_telling_tree,
    size_of,
    tags_of,
    tops_of,
)
from revfrf.report.html import document, facts, section, table

_WORDS = (
    "<p>An epoch is the time between two changes of the members; a new one begins whenever somebody "
    "has left. The digest identifies the forest: two forests with the same digest are equal.</p>"
)


@dataclass(frozen=True, slots=True)
class ForestOverview:
    """The content of the page.

    `columns` are those of the participants. If `before` is given, it is the forest before the last of the
    certificates, the page also shows what has changed, and `columns` has the leavers, too. `transcript` is
    HTML.
    """

    federation: str
    facts: Mapping[str, Any]
    columns: Mapping[str, Sequence[str]]
    forest: Outline
    certificates: Sequence[RevocationCertificate]
    before: Outline | None = None
    transcript: str = ""


def forest_page(overview: ForestOverview) -> str:
    """Return the page, as HTML."""
    left = [section(f"{', '.join(c.leavers)} left", _certificate(c)) for c in overview.certificates]
    sections = [
        section("The federation", facts(overview.facts) + _WORDS),
        section("Splits by owner", _splits(overview)),
        section("One of the trees", _trees(overview)),
        *reversed(left),
        section("The run", f"<pre>{overview.transcript}</pre>") if overview.transcript else "",
    ]
    summary = (
        "What the coordinator (CS) knows: who owns each split, and which column it looks at. "
        "Only the owner of a split knows its threshold."
    )
    return document(f"The forest of {overview.federation}", summary, sections, "Made by RevFRF.")


def _splits(overview: ForestOverview) -> str:
    """Count the splits of each participant and of its columns."""
    splits = Counter(feature for feature in overview.forest.values() if feature is not None)
    rows = []
    for party, columns in overview.columns.items():
        own = Counter({column: splits[f"{party}/{column}"] for column in columns})
        used = ", ".join(f"{column} ({count:,})" for column, count in own.most_common(5) if count)
        share = own.total() / max(1, splits.total())
        rows.append((party, f"{own.total():,}", f"{share:.1%}", used))
    return table(("participant", "splits", "share", "most used columns"), rows)


def _trees(overview: ForestOverview) -> str:
    """Draw the tree of median size or, if somebody has just left, the most telling one before and after."""
    trees, tags = by_tree(overview.forest), tags_of([*overview.columns])
    leavers: Sequence[str] = ()
    if overview.before is None:
        number = sorted(trees, key=lambda n: len(trees[n]))[len(trees) // 2]
        drawn = figure(trees[number], size_of(trees[number]), (), tags, "", "The tree of median size")
    else:
        leavers = overview.certificates[-1].leavers
        number = most_telling_tree(overview.before, overview.forest, leavers)
        old, new = by_tree(overview.before)[number], trees[number]
        tops, size = tops_of(old, leavers), size_of(old, new)
        gone, fresh = len(below(old, tops)), len(below(new, tops))
        drawn = figure(old, size, tops, tags, "gone", f"Before: {gone:,} nodes will be destroyed")
        drawn += figure(new, size, tops, tags, "new", f"After: {fresh:,} nodes are rebuilt")
    return (
        f"<p>Tree {number + 1:,} of {len(trees):,}. Each circle is a split, with the colour and letter of "
        f"its owner; small grey dots are leaves.</p>{legend(overview.columns, leavers, tags)}"
        f'<div class="trees">{drawn}</div>'
    )


def _certificate(certificate: RevocationCertificate) -> str:
    level = "2: new keys for everybody" if certificate.level == 2 else "1: the keys stay as they are"
    return facts({**shown_by(certificate), "level": level, "signed by KGC": certificate.signature.hex()})
