"""A participant has left: one page about it, for people, that needs nothing but a browser.

The page shows what CS, KGC and the books of the network know: owners and names of features, never a cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from revfrf.embedded.costs import Costs
from revfrf.protocols.certificate import RevocationCertificate, shown_by
from revfrf.report.drawing import (
    Outline,
    below,
    by_tree,
    figure,
    legend,
    most_telling_tree,
    tags_of,
    tops_of,
    width_of,
)
from revfrf.report.html import document, facts, section, show_bytes, show_seconds, table


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
        section("Before and after", _numbers(leaving)),
        section("One of the trees", _trees(leaving)),
        section("What was tried", _trials(leaving.trials)),
        section("The certificate", certificate_facts(leaving.certificate)),
        section("What it cost", _costs(leaving)),
        section("What each of them received", _leakage(leaving)),
    )
    keys = f"{leaving.costs.key_bits}-bit keys: {leaving.costs.security}"
    return document(leaving.title, leaving.summary, sections, f"Made by RevFRF from one run, with {keys}.")


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
    times = facts({what: show_seconds(seconds) for what, seconds in leaving.seconds.items()}, card=False)
    clock = f'<div class="card"><h3>On the clock</h3>{times}</div>'
    return f'<div class="cards">{scores}{nodes}{clock}</div>'


def _part(what: str, count: int, most: int) -> str:
    if not count:
        return ""
    return f'<span class="{what}" style="flex:0 1 {count / most:.1%}"><b>{count:,}</b> {what}</span>'


def _trees(leaving: Leaving) -> str:
    leavers = leaving.certificate.leavers
    number = most_telling_tree(leaving.before, leaving.after, leavers)
    trees = by_tree(leaving.before)
    old, new = trees[number], by_tree(leaving.after)[number]
    tops = tops_of(old, leavers)
    tags = tags_of(leaving.columns)
    gone, fresh = len(below(old, tops)), len(below(new, tops))
    width = width_of(old, new)
    before = figure(old, width, tops, tags, "gone", f"Before: {gone:,} nodes are destroyed")
    after = figure(new, width, tops, tags, "new", f"After: {fresh:,} nodes are grown by those who stay")
    return (
        f"<p>Tree {number + 1:,} of {len(trees):,}. Each circle is a split, with "
        "the colour and letter of its owner; small grey dots are leaves. Where the cuts lie only the owners "
        f"know.</p>{legend(leaving.columns, leavers, tags)}"
        f'<div class="trees">{before}{after}</div>'
    )


# -- what was tried, the certificate -----------------------------------------------------------------


def _trials(trials: Sequence[Trial]) -> str:
    items = "".join(
        f'<li class="{"good" if trial.as_it_should else "bad"}"><b>{escape(trial.what)}</b>'
        f"<br/>{escape(trial.outcome)}</li>"
        for trial in trials
    )
    return f'<p>A tick says that it came out as it should.</p><ul class="trials">{items}</ul>'


def certificate_facts(certificate: RevocationCertificate) -> str:
    """What a certificate shows."""
    level = "2: new keys for everybody" if certificate.level == 2 else "1: the keys stay as they are"
    return facts({**shown_by(certificate), "level": level, "signed by KGC": certificate.signature.hex()})


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
        rows.append(
            (role, show_seconds(seconds), show_bytes(sent.get(role, 0)), show_bytes(received.get(role, 0)))
        )
    return table(("role", "seconds", "sent", "received"), rows)


def _by_protocol(costs: Costs) -> str:
    names = {name for table in (costs.work, costs.traffic) for row in table.values() for name in row}
    each: list[str | None] = [*sorted(names), None]
    rows = [
        (p or "all", show_seconds(costs.total("seconds", p)), show_bytes(costs.total("bytes", p)))
        for p in each
    ]
    return table(("protocol", "seconds", "bytes"), rows)


def _leakage(leaving: Leaving) -> str:
    cards = [
        f'<div class="card"><h3>{escape(role)}</h3>{facts(leaving.leakage[role], card=False)}</div>'
        for role in _roles(leaving.leakage, leaving.columns)
    ]
    return (
        "<p>Counted from the messages of this run. Nobody but its owner received a column or a cut in the "
        f'clear.</p><div class="flow">{"".join(cards)}</div>'
    )


def _roles(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The servers first, then the participants, then who asks."""
    order = ["KGC", "CS", "CC", *columns]
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))
