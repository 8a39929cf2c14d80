"""One page about a participant that has left, made from what CS, KGC and the network's counters know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from revfrf.embedded.costs import Costs
from revfrf.names import CC, CS, KGC, SERVERS
from revfrf.protocols.certificate import RevocationCertificate, shown_by
from revfrf.report import drawing
from revfrf.report.html import details, document, facts, section, show_bytes, show_seconds, table

ROLES = {
    KGC: "Key centre. Sets up the keys and signs certificates.",
    CS: "Coordinator. Holds the labels and the shape of the trees, runs the protocols.",
    CC: "Computing partner. Helps CS compare encrypted numbers. Must not collude with CS.",
}
"""What each server does."""

PROTOCOLS = {
    "key set-up": "issue and renew keys",
    "FLE-Expan": "grow all trees, depth by depth",
    "FOS-Find": "choose splits and encrypt them (sent with FLE-Expan)",
    "FRF-Test": "predict rows that the owners hold",
    "FRF-Predict": "predict a requester's encrypted rows",
    "HoLT": "compare two encrypted numbers",
    "FRF-Revoc": "remove a leaver and rebuild",
}
"""What each protocol of a run does, by the paper's name."""

Verdict = Literal["good", "limit", "bad"]
MARKS: Mapping[Verdict, str] = {"good": "✓", "limit": "•", "bad": "✗"}


@dataclass(frozen=True, slots=True)
class Trial:
    """Something that was tried, its outcome, and whether that is good, a known limit, or bad."""

    what: str
    outcome: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Leaving:
    """The content of the page. `columns` are those of every participant before."""

    title: str
    summary: str
    columns: Mapping[str, Sequence[str]]
    before: drawing.Outline
    after: drawing.Outline
    score_before: float
    score_after: float
    seconds: Mapping[str, float]
    trials: Sequence[Trial]
    certificate: RevocationCertificate
    costs: Costs
    leakage: Mapping[str, Mapping[str, int]]


def page(leaving: Leaving) -> str:
    """Return the page, as HTML."""
    sections = (
        section("Before and after", _numbers(leaving)),
        section("One of the trees", _trees(leaving)),
        section("Three servers", facts(ROLES)),
        section("Attacks and checks", _trials(leaving.trials)),
        section("The revocation certificate", _certificate(leaving.certificate)),
        section("What it cost", _costs(leaving)),
        section("What each party received", _leakage(leaving)),
    )
    keys = f"{leaving.costs.key_bits}-bit keys: {leaving.costs.security}"
    return document(leaving.title, leaving.summary, sections, f"Made by RevFRF from one run, with {keys}.")


def _numbers(leaving: Leaving) -> str:
    report = leaving.certificate.report
    scores = (
        f'<div class="card"><h3>Accuracy on test rows</h3><p class="big">{leaving.score_before:.1%}'
        f'<span class="then" aria-label="then">→</span>{leaving.score_after:.1%}</p></div>'
    )
    most = report.kept + max(report.destroyed, report.rebuilt)
    bars = "".join(
        f'<div class="bar">{_part("kept", report.kept, most)}{_part(what, count, most)}</div>'
        for what, count in (("destroyed", report.destroyed), ("rebuilt", report.rebuilt))
    )
    return f'<div class="cards">{scores}<div class="card"><h3>Nodes of the forest</h3>{bars}</div></div>'


def _part(what: str, count: int, most: int) -> str:
    if not count:
        return ""
    return f'<span class="{what}" style="flex:0 1 {count / most:.1%}"><b>{count:,}</b> {what}</span>'


def _trees(leaving: Leaving) -> str:
    leavers = leaving.certificate.leavers
    number = drawing.most_telling_tree(leaving.before, leaving.after, leavers)
    trees = drawing.by_tree(leaving.before)
    old, new = trees[number], drawing.by_tree(leaving.after)[number]
    tops, size = drawing.tops_of(old, leavers), drawing.size_of(old, new)
    tags = drawing.tags_of([*leaving.columns])
    gone, fresh = len(drawing.below(old, tops)), len(drawing.below(new, tops))
    before = drawing.figure(old, size, tops, tags, "gone", f"Before: {gone:,} nodes will be destroyed")
    after = drawing.figure(new, size, tops, tags, "new", f"After: {fresh:,} nodes are rebuilt")
    return (
        f"<p>Tree {number + 1:,} of {len(trees):,}. Each circle is a split, with the colour and letter of "
        "its owner; small grey dots are leaves. Only the owner of a split knows its threshold.</p>"
        f'{drawing.legend(leaving.columns, leavers, tags)}<div class="trees">{before}{after}</div>'
    )


def _trials(trials: Sequence[Trial]) -> str:
    rows = [(MARKS[trial.verdict], trial.what, trial.outcome) for trial in trials]
    key = "✓ protected or verified, • a known limit"
    return f"{table(('', 'what was tried', 'outcome'), rows)}<p><small>{key}, ✗ unexpected</small></p>"


def _certificate(certificate: RevocationCertificate) -> str:
    report = certificate.report
    digests = facts({"digest before": report.digest_before, "digest after": report.digest_after})
    whole = details("The whole revocation certificate", certificate_facts(certificate))
    return (
        "<p>A digest identifies a forest. KGC signs both, with the leaver's request and everybody's receipts "
        f"for erased keys.</p>{digests}{whole}"
    )


def certificate_facts(certificate: RevocationCertificate) -> str:
    """Return what a revocation certificate shows."""
    level = "2: new keys for everybody" if certificate.level == 2 else "1: the keys stay as they are"
    return facts({**shown_by(certificate), "level": level, "signed by KGC": certificate.signature.hex()})


def _costs(leaving: Leaving) -> str:
    costs = leaving.costs
    used = {name for counts in (costs.work, costs.traffic) for row in counts.values() for name in row}
    names = {name: f"{name}: {what}" for name, what in PROTOCOLS.items() if name in used}
    rows = [
        (text, show_seconds(costs.total("seconds", name)), show_bytes(costs.total("bytes", name)))
        for name, text in [*names.items(), *((name, name) for name in sorted(used - {*names})), (None, "all")]
    ]
    clock = ", ".join(f"{what} {show_seconds(seconds)}" for what, seconds in leaving.seconds.items())
    return (
        f"<p>Elapsed: {escape(clock)}. Processor time and messages of the whole run, by protocol:</p>"
        f"{table(('protocol', 'CPU', 'bytes'), rows)}"
    )


def _leakage(leaving: Leaving) -> str:
    order = [*SERVERS, *leaving.columns]  # requesters come last
    cards = [
        f'<div class="card"><h3>{escape(party)}</h3>{facts(received, card=False)}</div>'
        for party, received in sorted(leaving.leakage.items(), key=lambda of: (*order, of[0]).index(of[0]))
    ]
    return (
        "<p>No party received another's values or thresholds in the clear. CS saw the order of the values "
        "and the path of each row. Owners saw which rows reach their nodes, and never a label.</p>"
        + details("All counts, from the messages of this run", f'<div class="flow">{"".join(cards)}</div>')
    )
