"""One page about a federation, made from what CS knows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from revfrf.protocols.certificate import RevocationCertificate
from revfrf.report.drawing import Outline, by_tree, figure, legend, size_of, tags_of
from revfrf.report.html import document, facts, section, table
from revfrf.report.leaving import certificate_facts

_WORDS = (
    "<p>An epoch is the time between two changes of the members; a new one begins whenever somebody "
    "has left. The digest identifies the forest: two forests with the same digest are equal.</p>"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """The content of the page. `columns` are those of the current participants."""

    federation: str
    facts: Mapping[str, Any]
    columns: Mapping[str, Sequence[str]]
    forest: Outline
    certificates: Sequence[RevocationCertificate]


def forest_page(standing: Standing) -> str:
    """Return the page, as HTML."""
    left = [section(f"{', '.join(c.leavers)} left", certificate_facts(c)) for c in standing.certificates]
    sections = [
        section("The federation", facts(standing.facts) + _WORDS),
        section("Splits by owner", _splits(standing)),
        section("One of the trees", _tree(standing)),
        *reversed(left),
    ]
    summary = (
        "What the coordinator (CS) knows: who owns each split, and which column it looks at. "
        "Only the owner of a split knows its threshold."
    )
    return document(f"The forest of {standing.federation}", summary, sections, "Made by RevFRF.")


def _splits(standing: Standing) -> str:
    """Count the splits of each participant and of its columns."""
    splits = Counter(feature for feature in standing.forest.values() if feature is not None)
    rows = []
    for party, columns in standing.columns.items():
        own = Counter({column: splits[f"{party}/{column}"] for column in columns})
        used = ", ".join(f"{column} ({count:,})" for column, count in own.most_common(5))
        share = own.total() / max(1, splits.total())
        rows.append((party, f"{own.total():,}", f"{share:.1%}", used))
    return table(("participant", "splits", "share", "most used columns"), rows)


def _tree(standing: Standing) -> str:
    """Draw the tree of median size."""
    trees = by_tree(standing.forest)
    number = sorted(trees, key=lambda n: len(trees[n]))[len(trees) // 2]
    tree, tags = trees[number], tags_of([*standing.columns])
    drawn = figure(tree, size_of(tree), (), tags, "", f"Tree {number + 1:,} of {len(trees):,}")
    return f'{legend(standing.columns, (), tags)}<div class="trees">{drawn}</div>'
