"""The tables of `theory`, from its results: the paper's formulas beside what was counted."""

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import mean

from benchmarks.paper import printed
from benchmarks.paper.as_printed import PRINTED_POWERS
from benchmarks.paper.cells import Done, Plain
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.printed import BOST, CONSTRUCTION, OURS, PREDICTION, REVOCATION, VAIDYA, WU, Formula
from benchmarks.paper.rival_costs import COMPLETE_SPLITS
from benchmarks.paper.show import Part, Table, number, ratio, several
from benchmarks.paper.theory import RIVALS, cells
from benchmarks.rivals.comparisons import VALUES

COMPARED_BITS = VALUES.bit_length() - 1
"""Of the numbers that the rivals compare."""

POWERS = {
    "DGK encryptions",
    "DGK zero tests",
    "Paillier encryptions",
    "Paillier products",
    "Paillier decryptions",
    "encryptions",
    "decryptions",
    "products",
}
"""Operations of the rivals that are exponentiations."""


Connection = tuple[str, str, float | None, float]
"""What, the formula, its value, and what was counted."""


def parts(results: Sequence[Done]) -> list[Part]:
    ours = [done for done in results if done.key["of"] == OURS]
    [others] = [done for done in results if done.key["of"] == RIVALS]
    return [work(ours, others), nodes(ours[-1])]


def work(results: Sequence[Done], others: Done) -> Table:
    """Every formula beside its count."""
    found = [
        (str(done.key["bits"]), line) for done in results for line in ours(done.key["bits"], done.result)
    ]
    found += [("any", line) for line in theirs(others)]
    rows = [
        (
            what,
            bits,
            "" if theory is None else number(theory),
            number(counted),
            ratio(counted, theory) if counted and theory else "",
            formula,
        )
        for bits, (what, formula, theory, counted) in found
    ]
    head = ("", "bits", "by formula", "counted", "counted / formula", "the paper's formula")
    note = f"{about_ours(results)}\n{about_theirs(others)}"
    return Table("theory", "Formulas and counts", head, rows, note)


# -- ours -------------------------------------------------------------------------------------------


def formula(stage: str, role: str) -> Formula:
    """The paper's, of its own system."""
    return printed.THEORY[OURS, stage, role]


def ours(bits: int, found: Plain) -> Iterator[Connection]:
    """The paper's rows about its own system, for one split or comparison."""
    yield from construction(bits, found)
    yield from prediction(bits, found)
    yield from leaving(bits, found)


def judged(found: Plain) -> float:
    """Cuts at a node by the formula: n_f · ϱ."""
    return sqrt(found["columns"]) * float(found["cuts"])


def sent(bits: int, found: Plain, lengths: int) -> float:
    """Bytes for a node by the formula."""
    return printed.node_bits(bits, sqrt(found["columns"]), found["rows"], found["cuts"], lengths) / 8


def construction(bits: int, found: Plain) -> Iterator[Connection]:
    splits, cs, owner = found["splits"], formula(CONSTRUCTION, "CS"), formula(CONSTRUCTION, "UD")
    offered = found["offers"] * found["cuts"] / splits
    yield "construction: cuts that CS judges (at most)", cs.text, judged(found), offered
    yield "construction: powers of CS", "", 0, found["built by CS"] / splits
    yield "construction: powers of owners", owner.text, owner.powers(), found["built by owners"] / splits
    text = "(4 N + n_f · n_t · ϱ) · O(t_max · 2^d_max)"
    yield "construction: bytes", text, sent(bits, found, printed.NODE_BITS), found["built bytes"] / splits


def prediction(bits: int, found: Plain) -> Iterator[Connection]:
    servers, owner = formula(PREDICTION, "CS"), formula(PREDICTION, "UD")
    times = found["comparisons"]
    asked = {role: found[f"asked of {role}"] / times for role in ("CS", "CC", "owners")}
    yield "prediction: powers of CS", "", None, asked["CS"]
    yield "prediction: powers of CC", "", None, asked["CC"]
    yield "prediction: powers of CS + CC", servers.text, servers.powers(), asked["CS"] + asked["CC"]
    yield "prediction: powers of owners", owner.text, owner.powers(), asked["owners"]
    yield "prediction: powers of all, as printed", "", servers.powers() + owner.powers(), found["as printed"]
    value = printed.PREDICTION_BITS * bits / 8
    yield "prediction: bytes", "28 N · O(t_max · d_max)", value, found["asked bytes"] / times


def leaving(bits: int, found: Plain) -> Iterator[Connection]:
    servers, owner = formula(REVOCATION, "CS"), formula(REVOCATION, "UD")
    first = "d_max · n_d · n_f · ϱ multiplications"
    for level, text, value, lengths in (
        (1, first, 0.0, printed.NODE_BITS),
        (2, servers.text, servers.powers() * judged(found), printed.RENEWED_BITS),
    ):
        left, what = found[f"level {level}"], f"leaving, level {level}"
        again = left["splits"] or 1
        renewed = f"({lengths} N + n_f · n_t · ϱ) · d_max · n_d"
        yield f"{what}: powers of CS + CC", text, value, left["servers"] / again
        yield f"{what}: powers of owners", owner.text, owner.powers(), left["owners"] / again
        yield f"{what}: bytes", renewed, sent(bits, found, lengths), left["bytes"] / again


def about_ours(results: Sequence[Done]) -> str:
    coins = sorted(powers + 1 for powers in PRINTED_POWERS)  # one more opens the answer
    by_formula = formula(PREDICTION, "CS").powers() + formula(PREDICTION, "UD").powers()
    shared = ", ".join(f"{done.result['slots']} at {done.key['bits']}" for done in results)
    key = results[0].key
    return (
        "A power is an exponentiation, 1.5 N multiplications in the paper. A formula gives the cost of one "
        "split or one comparison. The paper's CS is both servers.\n"
        f"Counted once for each key size on a forest of {several(key['trees'], 'tree')}: prediction over "
        f"{several(key['asked'], 'row')}, the protocol as printed over "
        f"{several(key['as_printed'], 'comparison')}.\n"
        "We count every power where it happens, whatever its exponent: an owner's two powers per split come "
        "from tables, most exponents of CS have 64 bits instead of N, and several comparisons share one "
        f"opening ({shared} bits).\n"
        "CS judges cuts without any power. The cuts are the features offered to CS, times the maximum number "
        "of cuts per feature.\n"
        f"As printed, the formula gives {by_formula:g} powers, and we count {mean(coins):g} on average over "
        "both coins: numbers are negated by inverses instead of powers of N-1 (3 fewer), HoAdd removes its "
        "masks without encrypting them (4), and ParHDec1 is one power where the paper counts three (2). The "
        "coins drawn, and keys that CC sees for the first time, explain the rest.\n"
        "Checked while counting: owners compute two powers for every split that is built, rebuilt or "
        f"encrypted again, and CS none for a split that is built; as printed, a comparison takes {coins[0]} "
        f"or {coins[-1]} powers, depending on the coin, except with new keys.\n"
        "The formula's bytes of construction are for all rows at every node; ours sends the rows of the "
        "node.\n"
        "Costs of leaving are per rebuilt split, without key generation; level 2 also encrypts the remaining "
        "splits again."
    )


# -- rivals -----------------------------------------------------------------------------------------


def theirs(done: Done) -> Iterator[Connection]:
    """The paper's rows about its rivals: for one tree and level, of construction for one row and node."""
    key = done.key
    levels, nodes = key["trees"] * key["depth"], key["rows"] * COMPLETE_SPLITS
    for rival, stage in ((VAIDYA, CONSTRUCTION), (VAIDYA, PREDICTION), (BOST, PREDICTION), (WU, PREDICTION)):
        what = f"{rival}, {'construction' if stage == CONSTRUCTION else 'prediction'}: powers of"
        operations, units = done.result[rival][stage], nodes if stage == CONSTRUCTION else levels
        roles = {role: one for (*of, role), one in printed.THEORY.items() if of == [rival, stage]}
        counted = {
            role: sum(times for name, times in operations[role].items() if name in POWERS) / units
            for role in roles
        }
        for role, one in roles.items():
            yield f"{what} {role}", one.text, one.powers(COMPARED_BITS), counted[role]
        if len(roles) > 1:
            together = sum(one.powers(COMPARED_BITS) for one in roles.values())
            yield f"{what} all", "", together, sum(counted.values())


def about_theirs(others: Done) -> str:
    compared = [f"{others.result[rival][PREDICTION]['CS']['comparisons']:,}" for rival in (BOST, WU)]
    return (
        "Rivals: costs per tree and depth; Vaidya's construction per row and node. Where a formula has a "
        f"factor N inside O(…), numbers are compared bit by bit; they have {COMPARED_BITS} bits here.\n"
        "The rivals' programs count encryptions, decryptions, products and tests for zero as one power each. "
        "They do not count blinding by a few bits, nor the powers of oblivious transfers.\n"
        "The formulas have one comparison per tree and depth. A protocol that hides the path compares at "
        f"every node: {compared[0]} times for Bost, {compared[1]} for Wu. In Vaidya's, each row has one "
        "encryption per leaf and class."
    )


# -- nodes ------------------------------------------------------------------------------------------


def nodes(done: Done) -> Table:
    found, depth = done.result, done.key["depth"]
    rows = [
        (
            str(left),
            str(printed.rebuilt_nodes(depth, left)),
            number(taken),
            f"{100 * taken / found['nodes a tree']:.0f} %",
        )
        for left, taken in enumerate(found["nodes taken along"], 1)
    ]
    note = (
        f"Mean over {found['draws']} draws of the leavers among {found['columns']} participants; trees of "
        f"depth {depth}."
    )
    head = ("leavers", "d_max · n_d", "counted", "of all nodes")
    return Table("theory-nodes", "Nodes of a tree that leavers take along", head, rows, note)


THEORY = Experiment(
    "theory",
    "Theoretical costs and counts",
    "The paper's table of theoretical costs, with its constants as exponentiations per split or comparison.",
    ("adult",),
    cells,
    parts,
)
