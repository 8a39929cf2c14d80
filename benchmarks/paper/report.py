"""From the JSON of a run to pages: one for browsers, one of Markdown."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Done
from benchmarks.paper.datasets import SOURCES, Task
from benchmarks.paper.experiment import NAMES, Experiment
from benchmarks.paper.leaving_shown import CLASSES, LIMIT, NUMBERS, summary
from benchmarks.paper.printed import DATASETS, DOUBTS
from benchmarks.paper.show import (
    STYLE,
    Chapter,
    Part,
    Table,
    contents,
    html_chapter,
    markdown_chapter,
    wrapped,
)
from revfrf import RevocableForestClassifier
from revfrf.errors import UsageError
from revfrf.report.html import document, facts, section

Run = Mapping[str, Any]
"""The JSON of one experiment."""

TASKS: Mapping[str, Task] = {CLASSES.name: "classes", NUMBERS.name: "numbers"}
"""The experiments that judge losses."""


def read(directory: Path, experiments: Mapping[str, Experiment], wanted: Run | None = None) -> dict[str, Run]:
    """The experiments whose JSON is there and of such a run; without one, all must be of the same.

    Raises UsageError for one that is damaged, or of another run.
    """
    found = {}
    for name in experiments:
        file = directory / f"{name}.json"
        if file.exists():
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                run = content["run"] if wanted is None else content.get("run")
                if run == (wanted or run):
                    found[name] = content
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{file} cannot be read ({error}); run --only {name} again") from None
    first = next(iter(found.values()), None)
    other = [name for name, content in found.items() if first and content["run"] != first["run"]]
    if other:
        raise UsageError(
            f"{directory}: {', '.join(other)} come from another run, or other code; run all again"
        )
    return found


def chapters(experiments: Mapping[str, Experiment], runs: Mapping[str, Run]) -> list[Chapter]:
    """What there is to show, in the order of the experiments; then the paper's mistakes."""
    found = []
    for name, run in runs.items():
        experiment = experiments[name]
        results = [Done(**cell) for cell in run["cells"]]
        parts = experiment.parts(results)
        found.append(Chapter(name, experiment.title, experiment.text, parts))
    return [*found, DOUBTFUL]


def _doubtful() -> list[Part]:
    doubts = [(doubt.where, doubt.printed, doubt.why) for doubt in DOUBTS]
    sizes = []
    for name, has in SOURCES.items():
        rows, features = (f"{number:,}" for number in DATASETS[name]) if name in DATASETS else ("", "")
        sizes.append((NAMES[name], rows, f"{has.instances:,}", features, str(has.participants), has.predicts))
    head = ("set", "instances, printed", "in the file", "features, printed", "here", "what is predicted")
    return [
        Table("doubts", "Numbers in the paper that cannot be right", ("where", "printed", "why"), doubts),
        Table("datasets", "The sets", head, sizes, "The paper gives no sizes for Bike Sharing."),
    ]


DOUBTFUL = Chapter(
    "paper",
    "What the paper prints",
    "Ratios use the paper's numbers as printed, even where they are doubtful. The paper used another "
    "machine, so ratios of seconds say little about the protocols.",
    _doubtful(),
)


def described(runs: Mapping[str, Run]) -> dict[str, str]:
    """Facts about a run, for people."""
    if not runs:
        return {}
    run = next(iter(runs.values()))["run"]
    machine, settings = run["machine"], run["settings"]
    cells = [cell for one in runs.values() for cell in one["cells"]]
    depth, leaf = map(RevocableForestClassifier().get_params().get, ("max_depth", "min_samples_leaf"))
    dates = sorted({cell["date"] for cell in cells})
    commits = " and ".join(sorted({cell["commit"] for cell in cells} - {""}))
    rows = "all rows" if settings["rows"] is None else f"at most {settings['rows']:,} training rows"
    scored: dict[Task, Sequence[Done]] = {
        task: [Done(**cell) for cell in runs[name]["cells"]] for name, task in TASKS.items() if name in runs
    }
    return {
        **({f"loss against scikit-learn within {LIMIT:g} %": summary(scored)} if scored else {}),
        "command": "python -m benchmarks paper"
        + ("" if settings["name"] == "full" else f" --{settings['name']}"),
        "measured": " to ".join(dict.fromkeys((dates[0], dates[-1]))),
        "machine": f"{machine['cores']} cores ({machine['processor']}), {machine['memory'] / 2**30:.0f} GiB",
        "versions": ", ".join(f"{name} {number}" for name, number in run["versions"].items()),
        "code": run["code"] + (f", of commit {commits}" if commits else ""),
        "forests": f"{settings['trees']} trees of depth {depth}, at least {leaf} rows per leaf, {rows}",
        "duration": f"{sum(cell['seconds'] for cell in cells) / 60:.0f} minutes",
    }


WARNING = (
    "A small run that shows that everything works. It has too few rows, trees and seeds to judge accuracy; "
    "its verdicts may be wrong."
)

WORDS = {
    "CS, CC": "the two servers: the coordinator, which owns the labels, and the compute partner, which "
    "helps it compare",
    "KGC": "the key generation centre, which creates keys and signs certificates",
    "UD": "all participants together, which own the columns; a requester asks for predictions",
    "plain": "scikit-learn's forest, on all columns in one place",
    "ACC, RR, F1": "accuracy, recall and F1 in percent; recall and F1 are weighted by class size",
    "MSE, MAE, R2": "mean squared error, mean absolute error, coefficient of determination",
    "Non.Fed, IRev.Fed": "a forest without a federation; a federation that retrains from scratch",
    "TC, TP": "construction (FLE-Expan, FOS-Find); prediction (FRF-Predict; HoLT is the comparison)",
    "power": "an exponentiation with a modulus of N²; a table of powers makes those of one base faster",
    "coin": "HoLT randomly asks whether a < b or a ≥ b, so that CC does not learn which",
    "opening": "a decryption by both servers together, shared by packed comparisons",
    "t_max, d_max": "trees in a forest, and depth of a tree",
    "n_f, ϱ": "features tried at a node, and cuts of each",
    "n_t, n_d": "training rows, and participants that leave",
    "N": "the modulus; in formulas, its number of bits",
    "level 1, level 2": "revocation levels: 1 rebuilds a leaver's nodes; 2 also gives everyone new keys "
    "(default)",
    "× 1.2, × 1/900": "measured value divided by the printed one",
    "~": "extrapolated from a part that was measured",
}


def warned(experiments: Mapping[str, Experiment], runs: Mapping[str, Run]) -> list[str]:
    """What keeps a run from being a full one of all experiments."""
    small = any(run["run"]["settings"]["name"] != "full" for run in runs.values())
    absent = [experiment.title for name, experiment in experiments.items() if name not in runs]
    return [WARNING] * small + [f"Not part of this run: {', '.join(absent)}."] * bool(absent)


def html_page(experiments: Mapping[str, Experiment], runs: Mapping[str, Run]) -> str:
    """The report: one file, which loads nothing."""
    found = chapters(experiments, runs)
    links = "".join(f'<li><a href="#chapter-{one.name}">{escape(one.title)}</a></li>' for one in found)
    warnings = "".join(f"<p><strong>{escape(line)}</strong></p>" for line in warned(experiments, runs))
    head = section("The run", warnings + facts(described(runs)) + f"<nav><ul>{links}</ul></nav>")
    subtitle = (
        "Every table and figure of the evaluation of “Revocable Federated Learning: A Benchmark of Federated "
        "Forest”, measured, beside what the paper prints. How it is measured, and what we conclude from a "
        "full run, is in docs/benchmarks.md."
    )
    words = section("Words", facts(WORDS))
    body = [STYLE, head, words, *map(html_chapter, found)]
    return document("The paper's evaluation, measured", subtitle, body, "Made by python -m benchmarks paper.")


MARK = "<!-- tables -->"
"""What is below it in the page of the documentation is made; what is above it is written."""


def documentation(experiments: Mapping[str, Experiment], runs: Mapping[str, Run], page: str) -> str:
    """The page of the documentation with the tables of this run. Raises UsageError if it has no mark."""
    prose, mark, _ = page.partition(MARK)
    if not mark:
        raise UsageError(f"the page has no line {MARK}, below which its tables go")
    found = chapters(experiments, runs)
    warnings = [line for warning in warned(experiments, runs) for line in (*wrapped(warning), "")]
    about = [line for item in described(runs).items() for line in wrapped(": ".join(item), "- ")]
    words = [line for word, meaning in WORDS.items() for line in wrapped(f"**{word}**: {meaning}", "- ")]
    lines = ["## The run", "", *warnings, *about, "", *contents(found), "", "## Words", "", *words, ""]
    return "\n".join([prose + MARK, *lines, *map(markdown_chapter, found)]).rstrip("\n") + "\n"
