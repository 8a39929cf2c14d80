"""A federation as CS sees it: one page, for people, that needs nothing but a browser."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from revfrf.protocols.certificate import RevocationCertificate
from revfrf.report.drawing import Outline, by_tree, figure, legend, owner, tags_of, width_of
from revfrf.report.html import document, facts, section, table
from revfrf.report.leaving import certificate_facts


@dataclass(frozen=True, slots=True)
class Standing:
    """All that the page tells. `columns` are those of every participant now."""

    federation: str
    facts: Mapping[str, Any]
    columns: Mapping[str, Sequence[str]]
    forest: Outline
    certificates: Sequence[RevocationCertificate]


def forest_page(standing: Standing) -> str:
    """The page, as HTML."""
    left = [section(f"{', '.join(c.leavers)} left", certificate_facts(c)) for c in standing.certificates]
    sections = [
        section("The federation", facts(standing.facts) + _words()),
        section("Whose splits", _shares(standing)),
        section("One of the trees", _tree(standing)),
        *reversed(left),
    ]
    summary = (
        "What the coordinator knows: who owns which split, and which column it looks at. Where the cuts lie "
        "only their owners know."
    )
    return document(f"The forest of {standing.federation}", summary, sections, "Made by RevFRF.")


def _words() -> str:
    return (
        "<p>An epoch is the time between two changes of the members; a new one begins whenever somebody has "
        "left. The digest is the forest's name: two forests with the same digest are the same.</p>"
    )


def _shares(standing: Standing) -> str:
    """How many splits each participant owns, and each of its columns."""
    splits = Counter(feature for feature in standing.forest.values() if feature is not None)
    of_owner: Counter[str] = Counter()
    for feature, count in splits.items():
        of_owner[owner(feature)] += count
    total = max(1, splits.total())
    rows = []
    for party, columns in standing.columns.items():
        own = sorted(columns, key=lambda column: -splits[f"{party}/{column}"])
        used = ", ".join(f"{column} ({splits[f'{party}/{column}']:,})" for column in own[:5])
        rows.append((party, f"{of_owner[party]:,}", f"{of_owner[party] / total:.1%}", used))
    return table(("participant", "splits", "share", "its most used columns"), rows)


def _tree(standing: Standing) -> str:
    """The tree of middling size."""
    trees = by_tree(standing.forest)
    number = sorted(trees, key=lambda n: len(trees[n]))[len(trees) // 2]
    tree, tags = trees[number], tags_of(standing.columns)
    drawn = figure(tree, width_of(tree), (), tags, "", f"Tree {number + 1:,} of {len(trees):,}")
    return f'{legend(standing.columns, (), tags)}<div class="trees">{drawn}</div>'
