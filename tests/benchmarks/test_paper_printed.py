"""The transcription of the paper, where it can be checked against itself."""

from hashlib import sha256

from benchmarks.paper import printed
from benchmarks.paper.datasets import SOURCES
from benchmarks.paper.printed import OURS


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


def test_not_a_digit_changes_since_all_were_compared_with_the_papers_text() -> None:
    tables = {name: value for name, value in vars(printed).items() if name.isupper() and name != "DOUBTS"}
    text = "\n".join(f"{name} = {value!r}" for name, value in tables.items() if not isinstance(value, str))
    assert (
        sha256(text.encode()).hexdigest()
        == "e1a55476d1742eb87b3d7a20181f9fa83c25940a1d962cb164f0abbfb31079f4"
    )
