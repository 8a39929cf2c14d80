"""What the paper prints: its tables, digit for digit, and which of them cannot be right.

Its figures are pictures without numbers; nothing of them is here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PLAIN, OURS = "plain", "ours"
"""The paper's Non.Fed, and RevFRF."""


@dataclass(frozen=True, slots=True)
class Scores:
    """A table of scores: by set, measure and who, a value for each number of participants who have left."""

    sets: tuple[str, ...]
    measures: tuple[str, ...]
    values: Mapping[tuple[str, str, str], tuple[float, ...]]

    def of(self, name: str, measure: str, who: str, left: int) -> float:
        return self.values[name, measure, who][left]


def _scores(sets: Sequence[str], text: str) -> Scores:
    """From lines of: how many have left, the measure, and for every set Non.Fed's value and RevFRF's."""
    values: dict[tuple[str, str, str], tuple[float, ...]] = {}
    measures: dict[str, None] = {}
    for line in text.strip().splitlines():
        left, measure, *numbers = line.split()
        measures[measure] = None
        keys = [(name, measure, who) for name in sets for who in (PLAIN, OURS)]
        for key, number in zip(keys, numbers, strict=True):
            values[key] = (*values.get(key, ()), float(number))
            assert len(values[key]) == int(left) + 1
    return Scores(tuple(sets), tuple(measures), values)


CLASSIFICATION = _scores(
    ("adult", "bank", "drug", "wine_white"),
    """
0 ACC   85.63   85.63   90.97   90.77   90.62   90.53   68.52   68.51
0 RR    86.17   86.15   91.69   91.46   91.27   91.18   66.27   66.17
0 F1    85.69   85.72   91.19   91.01   90.55   90.59   64.64   64.37
1 ACC   85.37   85.28   90.32   90.83   90.49   90.62   67.69   67.43
1 RR    85.91   85.81   91.27   91.47   91.17   91.27   65.71   65.45
1 F1    85.45   85.39   90.55   91.06   90.48   90.66   64.17   64.23
2 ACC   85.11   84.43   90.38   90.49   90.28   90.44   67.41   67.38
2 RR    85.61   85.02   91.29   91.23   90.97   91.09   65.66   64.68
2 F1     85.2   84.56   90.61   90.73   90.29   90.52    64.2   63.51
3 ACC   84.42   83.91   90.34   89.84   90.14   90.62   66.05   65.16
3 RR    85.03   84.52   91.19   90.83   90.87   91.25   65.08   64.33
3 F1    84.54   84.04   90.62   90.12   90.17   90.67   63.57   63.04
4 ACC   83.53   83.41   90.26   90.16   90.11   90.33   65.52   65.33
4 RR    84.19   84.06   91.17   91.01   90.87   90.89   63.83   63.66
4 F1    83.67   83.54   90.51   90.43   90.09   90.44   62.35   62.44
5 ACC   83.15   83.44   90.17   90.61   90.09   89.97   64.49   64.49
5 RR    83.87   84.09    91.1   91.27   90.86   90.74   63.31   62.41
5 F1    83.31   83.59   90.42   90.86   90.07   90.02   61.88   61.19
""",
)

REGRESSION = _scores(
    ("superconduct", "appliances", "insurance", "news"),
    """
0 MSE  994.69 1005.21 6038.64 6058.42   0.065   0.065 1414.85 1433.06
0 MAE   27.01   27.05   36.37   36.49    0.11    0.11   4.404    4.48
0 R2     0.22    0.23    0.46    0.46   0.098   0.099    0.23    0.25
1 MSE  995.24 1009.98 6052.24 6057.77   0.065    0.65 1424.79 1442.01
1 MAE   26.97   27.07   36.46   36.52    0.11    0.11   4.471    4.49
1 R2     0.22    0.23    0.46    0.46   0.098   0.097   0.239    0.25
2 MSE  1000.7 1012.98 6063.66 6067.67   0.065   0.065 1423.34 1439.91
2 MAE   27.04   27.13   36.62   36.57    0.11    0.11    4.47   4.476
2 R2     0.22    0.24    0.46    0.46   0.098   0.098    0.24    0.25
3 MSE 1010.79 1018.59 6078.93 6081.46   0.065   0.065 1430.98 1443.31
3 MAE   27.14   27.27   36.59   36.61    0.11    0.11   4.498   44.89
3 R2     0.24    0.25    0.46    0.46   0.099   0.099   0.244    0.26
4 MSE 1012.88 1021.33 6090.12 6112.55   0.065   0.065 1441.42 1449.98
4 MAE   27.24   27.38   36.73   37.39    0.11    0.11   4.506   44.93
4 R2     0.24    0.25    0.46    0.46   0.099   0.099   0.253    0.26
5 MSE  1021.2 1029.26 6135.74  6178.1   0.065   0.065 1445.43 1456.81
5 MAE   27.33   27.43  36.735   37.01    0.11    0.11   4.488    4.51
5 R2     0.25    0.26    0.45    0.45   0.099   0.099   0.256    0.27
""",
)

RANA, VAIDYA, BOST, WU = "Rana", "Vaidya", "Bost", "Wu"

COMPARISON: Mapping[str, Mapping[str, float]] = {
    "adult": {PLAIN: 85.63, RANA: 78.87, VAIDYA: 85.25, OURS: 85.26},
    "bank": {PLAIN: 90.97, RANA: 86.55, VAIDYA: 90.5, OURS: 90.77},
    "superconduct": {PLAIN: 27.01, RANA: 35.75, VAIDYA: 27.17, OURS: 27.05},
    "bike": {PLAIN: 11.52, RANA: 20.23, VAIDYA: 11.6, OURS: 11.55},
}
"""Performance Comparison: accuracy in percent; for numbers, what it calls the mean square error."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Seconds by role, CS and UD, and megabytes; of construction (TC) and prediction (TP). None is N.A."""

    construction: Mapping[str, float] | None
    prediction: Mapping[str, float]
    construction_megabytes: float | None
    prediction_megabytes: float


EFFICIENCY: Mapping[str, Efficiency] = {
    BOST: Efficiency(None, {"CS": 28.56, "UD": 57.15}, None, 81.58),
    WU: Efficiency(None, {"CS": 26.32, "UD": 57.15}, None, 9.71),
    VAIDYA: Efficiency({"UD": 3932.41}, {"UD": 0.55}, 0.42, 0.41),
    OURS: Efficiency({"CS": 3.09, "UD": 2.27}, {"CS": 13.33, "UD": 0.08}, 1.07, 0.78),
}

KEY_BITS = 1024
"""Of the paper's measurements."""

REBUILT_NODES = (16.1, 37, 50.1, 83.1, 136.3)
REBUILDING_SECONDS = (1.2, 2.7, 3.6, 6.1, 9.8)
"""For 1 to 5 who leave."""

IRREVOCABLE_NODES, IRREVOCABLE_SECONDS = 432.5, 31.1

POWER = 1.5
"""Multiplications of one exponentiation, in lengths of the exponent, N."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A cost as printed. Its multiplications are in lengths N, for one of what its O(…) or product counts:
    `each`, and `by_bit` for every bit of a number that is compared bit by bit.
    """

    text: str
    each: float = 0
    by_bit: float = 0

    def powers(self, bits: int = 0) -> float:
        """As exponentiations, for numbers of so many bits."""
        return (self.each + self.by_bit * bits) / POWER


CONSTRUCTION, PREDICTION, REVOCATION = "TC", "TP", "PR"

THEORY: Mapping[tuple[str, str, str], Formula] = {
    (OURS, CONSTRUCTION, "CS"): Formula("O(t_max · 2^d_max · n_f · ϱ)"),
    (OURS, CONSTRUCTION, "UD"): Formula("4.5 N · O(t_max · 2^d_max)", 4.5),
    (OURS, PREDICTION, "CS"): Formula("42 N · O(t_max · d_max)", 42),
    (OURS, PREDICTION, "UD"): Formula("4.5 N · O(t_max · d_max)", 4.5),
    (OURS, REVOCATION, "CS"): Formula("3 N · d_max · n_d · n_f · ϱ", 3),
    (OURS, REVOCATION, "UD"): Formula("4.5 N · d_max · n_d", 4.5),
    (VAIDYA, CONSTRUCTION, "UD"): Formula("1.5 N · O(t_max · 2^d_max · n_t)", 1.5),
    (VAIDYA, PREDICTION, "UD"): Formula("1.5 N · O(t_max · d_max)", 1.5),
    (BOST, PREDICTION, "CS"): Formula("7.5 N · O(t_max · d_max · N) + 1.5 N · O(t_max · d_max)", 1.5, 7.5),
    (BOST, PREDICTION, "UD"): Formula("4.5 N · O(t_max · d_max · N) + 3 N · O(t_max · d_max)", 3, 4.5),
    (WU, PREDICTION, "CS"): Formula("6 N · O(t_max · d_max · N)", 0, 6),
    (WU, PREDICTION, "UD"): Formula("3 N · O(t_max · d_max · N)", 0, 3),
}
"""The table of theoretical costs: t_max trees of depth d_max, n_f features and ϱ cuts of each on offer at a
node, n_t rows, n_d who have left. CS stands for both servers; PR is the second level.
"""

PREDICTION_BITS = 28
"""Bits sent for a comparison, in lengths of the key."""

NODE_BITS, RENEWED_BITS = 4, 8
"""Bits sent for a node that is built, and for one that is built again at the second level, likewise."""


def node_bits(key_bits: int, candidates: float, rows: float, cuts: int, lengths: int = NODE_BITS) -> float:
    """All bits sent for a node: its ciphertext's, and n_f · n_t · ϱ."""
    return lengths * key_bits + candidates * rows * cuts


def rebuilt_nodes(depth: int, left: int) -> int:
    """Nodes of a tree that are expected to be built again."""
    return depth * left


DATASETS: Mapping[str, tuple[int, int]] = {
    "adult": (48842, 14),
    "bank": (45211, 17),
    "drug": (1885, 32),
    "wine_white": (4898, 12),
    "superconduct": (21263, 81),
    "appliances": (19735, 29),
    "insurance": (9000, 86),
    "news": (39797, 61),
}
"""Instances and features, as the appendix has them; in six of the sets the target is among the features."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is printed where, and why it cannot be right, or what it must mean."""

    where: str
    printed: str
    why: str


DOUBTS = (
    Doubt("Regression, Insurance Company, 1 left, RevFRF, MSE", "0.65", "surely 0.065, as in all other rows"),
    Doubt(
        "Regression, News Popularity, 3 and 4 left, RevFRF, MAE",
        "44.89, 44.93",
        "surely 4.489 and 4.493, as before and after",
    ),
    Doubt(
        "Regression, R2 of Super Conduct and News Popularity",
        "RevFRF's 0.23 rising to 0.26, and 0.25 rising to 0.27",
        "R2 rises while MSE rises; on the same test rows it falls. The appendix defines R2 by the spread of "
        "the predictions, which is not R2",
    ),
    Doubt(
        "Regression, the definition of MAE in the appendix",
        "|y_i - y_i|",
        "0 whatever is predicted; surely the prediction is meant by one of the two",
    ),
    Doubt(
        "Regression, Super Conduct, MSE",
        "994.69 to 1029.26",
        "the variance of the target is 1173, so R2 would be 0.15, not 0.22; its mean absolute deviation from "
        "the median is 27.5, so an MAE of 27 is hardly better than no forest at all",
    ),
    Doubt(
        "Regression, Insurance Company",
        "MSE 0.065, R2 0.098",
        "the target is 0 or 1, so this is classification; its variance is 0.056, so an MSE of 0.065 is worse "
        "than the mean for everybody, and R2 would be negative",
    ),
    Doubt(
        "Regression, News Popularity, MSE and MAE",
        "1414.85 and 4.404",
        "the target is not said. In thousands of shares the variance of all rows is 135; about 500 test "
        "rows, among them the article with 843,300 shares, would give about both",
    ),
    Doubt(
        "Classification, RR",
        "86.17 beside an ACC of 85.63, and so on",
        "averaged over the classes by their size, recall is accuracy, to the last digit; which average was "
        "printed is not said",
    ),
    Doubt(
        "Classification, Drug Consumption",
        "90 % for 32 features",
        "which of 19 drugs is not said; 32 columns are an id, 12 answers and 19 drugs, so other drugs seem "
        "to be features",
    ),
    Doubt(
        "Performance Comparison, Adult, RevFRF",
        "85.26",
        "85.63 in the table of classification",
    ),
    Doubt(
        "Performance Comparison, Conduct and Bike",
        "27.01 and 11.52, as mean square errors",
        "27.01 is Conduct's MAE; Bike's variance is 32,901, so 11.52 can only be an MAE, too",
    ),
    Doubt(
        "Cost Comparison",
        "over 2000 times faster than [Rana] in the tree construction stage",
        "it is Vaidya's 3932.41 s against 3.09 s + 2.27 s, which is 734 times, and 1273 times CS's part",
    ),
    Doubt(
        "Efficiency Comparison, Vaidya, TC",
        "0.42 MB",
        "1,641 ciphertexts of 2048 bits; the 3932.41 s beside it, and the formula, are for one for each of "
        "100 nodes and 5,000 rows",
    ),
    Doubt(
        "Efficiency Comparison, Bost and Wu, TP of UD",
        "57.15 s, twice",
        "two protocols, whose formulas differ, would hardly take the same to a hundredth of a second",
    ),
    Doubt(
        "Theoretical cost of revocation",
        "d_max · n_d nodes a tree",
        "all that is below a destroyed node goes, too: of 14 owners one takes some 40 % of the nodes along",
    ),
    Doubt(
        "Datasets, Insurance Company and News Popularity, instances",
        "9000 and 39797",
        "the sets have 9,822 and 39,644 rows",
    ),
    Doubt(
        "Datasets, features of Bank, Drug, Wine, Appliance, Insurance and News",
        "17, 32, 12, 29, 86, 61",
        "all columns of the files count, the target and ids, too; in Adult and Super Conduct they do not",
    ),
)
