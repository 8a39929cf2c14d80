"""The transcription of the paper, where it can be checked against itself."""

from hashlib import sha256

import pytest

from benchmarks.paper import printed
from benchmarks.paper.datasets import SOURCES
from benchmarks.paper.printed import CLASSIFICATION, COMPARISON, EFFICIENCY, OURS, PLAIN, REGRESSION


def test_percentages_are_percentages_and_lose_less_than_five_points() -> None:
    """As the paper's text says of its table."""
    for row in CLASSIFICATION.values.values():
        assert all(60 < value < 92 for value in row)
        assert row[0] - row[5] < 5


def test_errors_rise_by_less_than_three_percent_but_for_the_slips_that_are_marked() -> None:
    """As the paper's text says of its table."""
    slips = set()
    for (name, measure, who), row in REGRESSION.values.items():
        if measure != "R2":
            slips |= {
                (name, measure, who, left) for left, v in enumerate(row) if not 0.95 < v / row[0] < 1.05
            }
    assert slips == {
        ("insurance", "MSE", OURS, 1),
        ("news", "MAE", OURS, 3),
        ("news", "MAE", OURS, 4),
    }
    marked = " ".join(f"{doubt.where} {doubt.printed}" for doubt in printed.DOUBTS)
    for value in ("0.65", "44.89", "44.93"):
        assert value in marked


def test_the_comparison_repeats_the_other_tables_but_for_one_doubt() -> None:
    for name, measure, table in (
        ("adult", "ACC", CLASSIFICATION),
        ("bank", "ACC", CLASSIFICATION),
        ("superconduct", "MAE", REGRESSION),
    ):
        assert COMPARISON[name][PLAIN] == table.of(name, measure, PLAIN, 0)
        if name != "adult":
            assert COMPARISON[name][OURS] == table.of(name, measure, OURS, 0)
    assert any(doubt.printed == "85.26" for doubt in printed.DOUBTS)


def test_rebuilding_takes_the_same_time_a_node_throughout() -> None:
    pairs = [*zip(printed.REBUILDING_SECONDS, printed.REBUILT_NODES, strict=True)]
    pairs.append((printed.IRREVOCABLE_SECONDS, printed.IRREVOCABLE_NODES))
    assert all(seconds / nodes == pytest.approx(0.073, abs=0.002) for seconds, nodes in pairs)


def test_the_ratios_that_contradict_the_text_are_those_of_the_table() -> None:
    vaidya, ours = EFFICIENCY[printed.VAIDYA].construction, EFFICIENCY[OURS].construction
    assert vaidya is not None
    assert ours is not None
    assert round(vaidya["UD"] / sum(ours.values())) == 734
    assert round(vaidya["UD"] / ours["CS"]) == 1273


def test_formulas_give_the_papers_counts() -> None:
    servers, owner = (printed.THEORY[OURS, printed.PREDICTION, role] for role in ("CS", "UD"))
    assert servers.powers() == 28
    assert owner.powers() == printed.THEORY[OURS, printed.CONSTRUCTION, "UD"].powers() == 3
    bost, wu = (printed.THEORY[rival, printed.PREDICTION, "CS"] for rival in (printed.BOST, printed.WU))
    assert bost.powers(64) == 5 * 64 + 1
    assert wu.powers(64) == 4 * 64
    assert printed.node_bits(1024, 2, 10, 3) == 4096 + 60
    assert printed.node_bits(1024, 2, 10, 3, printed.RENEWED_BITS) == 8192 + 60
    assert printed.rebuilt_nodes(10, 5) == 50


def test_every_formula_says_in_numbers_what_it_says_in_words() -> None:
    for formula in printed.THEORY.values():
        terms = [term.split(" N · ") for term in formula.text.split(" + ") if " N · " in term]
        by_bit = sum(float(factor) for factor, what in terms if what.endswith("· N)"))
        assert (formula.each, formula.by_bit) == (sum(float(term[0]) for term in terms) - by_bit, by_bit)


def test_the_doubts_name_what_the_sets_really_have() -> None:
    rows = {name: source.instances for name, source in SOURCES.items() if name in printed.DATASETS}
    wrong = {name for name, (instances, _) in printed.DATASETS.items() if rows[name] != instances}
    assert wrong == {"insurance", "news"}
    [doubt] = [doubt for doubt in printed.DOUBTS if doubt.printed == "9000 and 39797"]
    assert all(f"{rows[name]:,}" in doubt.why for name in wrong)


PRINTED = (
    "CLASSIFICATION",
    "REGRESSION",
    "COMPARISON",
    "EFFICIENCY",
    "KEY_BITS",
    "REBUILT_NODES",
    "REBUILDING_SECONDS",
    "IRREVOCABLE_NODES",
    "IRREVOCABLE_SECONDS",
    "POWER",
    "THEORY",
    "PREDICTION_BITS",
    "NODE_BITS",
    "RENEWED_BITS",
    "DATASETS",
)


def test_not_a_digit_changes_since_all_were_compared_with_the_papers_text() -> None:
    text = "\n".join(f"{name} = {getattr(printed, name)!r}" for name in PRINTED)
    assert (
        sha256(text.encode()).hexdigest()
        == "e1a55476d1742eb87b3d7a20181f9fa83c25940a1d962cb164f0abbfb31079f4"
    )
