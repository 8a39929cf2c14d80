"""Layout: whose column is whose, and what each party holds of X."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from revfrf.crypto.encoding import bound, missing
from revfrf.errors import RangeError, UsageError
from revfrf.estimators._layout import Layout, is_frame

NAMES = ["age", "income", "calls"]
MISSING = missing(32)


def learn(
    X: Any = None,
    parties: Mapping[Any, Any] | None = None,
    decimals: int | Mapping[int | str, int] | None = 2,
    names: list[str] | None = None,
) -> Layout:
    """The layout of X, by default of an array with three columns."""
    X = np.zeros((1, 3)) if X is None else X
    names = names or (list(X.columns) if is_frame(X) else NAMES)
    return Layout.learn(X, names, parties, decimals)


def test_only_a_data_frame_is_a_frame() -> None:
    assert is_frame(pd.DataFrame({"a": [1]}))
    for other in (np.zeros((1, 1)), [[1]], {"a": [1]}, pd.Series([1])):
        assert not is_frame(other)


# -- who owns what ------------------------------------------------------------------------------------


def test_without_parties_every_column_is_a_party_of_its_name() -> None:
    layout = learn()
    assert layout.owned == {"age": (0,), "income": (1,), "calls": (2,)}
    assert [[column.name for column in layout.of(party)] for party in layout.owned] == [[n] for n in NAMES]


@pytest.mark.parametrize(
    "columns",
    [
        ["calls", "age"],
        ["age", "calls"],
        [0, 2],
        [2, "age"],
        ("age", 2),
        np.array([2, 0]),
        range(0, 3, 2),
        [np.int64(0), np.str_("calls")],
    ],
    ids=repr,
)
def test_columns_are_named_by_name_or_position_in_any_order(columns: Any) -> None:
    layout = learn(parties={"telco": columns, "bank": [1]})
    assert layout.owned == {"telco": (0, 2), "bank": (1,)}
    assert [column.name for column in layout.of("telco")] == ["age", "calls"]


def test_parties_keep_their_order() -> None:
    assert list(learn(parties={"z": [0], "a": [1], "m": [2]}).owned) == ["z", "a", "m"]


BAD_PARTIES: list[tuple[Any, str]] = [
    ({"a": ["age"], "b": ["age", "income", "calls"]}, "column 'age' is owned twice: by 'a' and 'b'"),
    ({"a": ["age", 0, 1, 2]}, "column 'age' is owned twice: by 'a' and 'a'"),
    ({"a": ["age"]}, r"column 'income' has no owner; 2 such in all: \['income', 'calls'\]"),
    ({}, "column 'age' has no owner; 3 such in all"),
    (
        {"a": ["age", "wage"]},
        r"party 'a': there is no column 'wage'; columns are \['age', 'income', 'calls'\]",
    ),
    ({"a": [0, 3]}, "party 'a': there is no column 3; positions go from 0 to 2"),
    ({"a": [-1]}, "party 'a': there is no column -1; positions go from 0 to 2"),
    ({"a": [True]}, "party 'a': a column is a name or a position, not True"),
    ({"a": [1.0]}, "party 'a': a column is a name or a position, not 1.0"),
    ({"a": [None]}, "party 'a': a column is a name or a position, not None"),
    ({"a": []}, "party 'a': give a list of at least one column"),
    ({"a": np.array([], dtype=int)}, "party 'a': give a list of at least one column"),
    ({"a": "age"}, "party 'a': give a list of at least one column"),
    ({"a": 0}, "party 'a': give a list of at least one column"),
    ({"a": None}, "party 'a': give a list of at least one column"),
    ({"a/b": [0, 1, 2]}, "party 'a/b': a name is a string of 1 to 100 characters without '/'"),
    ({"": [0, 1, 2]}, "party '': a name is a string of 1 to 100 characters without '/'"),
    ({"x" * 101: [0, 1, 2]}, "a name is a string of 1 to 100 characters without '/'"),
    ({"a -> b": [0, 1, 2]}, "without '/', '->' and line breaks"),
    ({"a\nb": [0, 1, 2]}, "without '/', '->' and line breaks"),
    ({7: [0, 1, 2]}, "party 7: a name is a string of 1 to 100 characters without '/'"),
    ({"KGC": [0, 1, 2]}, "party 'KGC': KGC, CS, CC, requester are reserved names"),
    ({"CS": [0, 1, 2]}, "party 'CS': KGC, CS, CC, requester are reserved names"),
    ({"CC": [0, 1, 2]}, "party 'CC': KGC, CS, CC, requester are reserved names"),
    ({"requester": [0, 1, 2]}, "party 'requester': KGC, CS, CC, requester are reserved names"),
]


@pytest.mark.parametrize(("parties", "reason"), BAD_PARTIES, ids=[reason for _, reason in BAD_PARTIES])
def test_a_wrong_division_names_the_party_or_column_and_what_to_do(parties: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        learn(parties=parties)


def test_a_name_of_100_characters_is_a_name() -> None:
    name = "é" * 100
    assert learn(parties={name: [0, 1, 2]}).owned == {name: (0, 1, 2)}


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two columns are called 'age'; give every column its own name"):
        learn(names=["age", "income", "age"])


def test_a_column_that_may_not_name_a_party_needs_a_party() -> None:
    with pytest.raises(UsageError, match="without '/'"):
        learn(names=["age", "income/month", "calls"])
    layout = learn(names=["age", "income/month", "calls"], parties={"bank": [0, 1, 2]})
    assert layout.columns[1].name == "income/month"


# -- decimals -----------------------------------------------------------------------------------------


def test_decimals_hold_for_all_columns_or_by_column() -> None:
    assert [column.decimals for column in learn(decimals=3).columns] == [3, 3, 3]
    X = np.array([[1.5, 2.5, 3.5]])
    assert [column.decimals for column in learn(X, decimals={"income": 0, 2: 9}).columns] == [1, 0, 9]


def test_decimals_and_ring_of_each_column_are_derived_from_its_values() -> None:
    X = pd.DataFrame(
        {
            "age": [41, 17, 3],
            "rate": [0.25, np.nan, -1.5],
            "sum": [1e8 + 0.01, 0.0, 1.0],
            "tiny": [4.1e-8, 3.9e-8, 4e-8],
            "none": [np.nan, np.nan, np.nan],
        }
    )
    for given in (X, X.to_numpy()):
        columns = learn(given, decimals=None, names=list(X.columns)).columns
        found = [(column.decimals, column.ring) for column in columns]
        assert found == [(0, 32), (2, 32), (2, 64), (9, 32), (0, 32)]
    assert learn(X, decimals={"age": 16}).columns[0].ring == 64


def test_values_that_merge_are_named_by_party_and_column() -> None:
    X = np.array([[1.0, 4e-25, 0.5], [2.0, 5e-25, 0.5]])
    with pytest.warns(
        UserWarning, match=r"party 'bank', column 'income' \(position 1\): 2 .* become 1 .*rescale"
    ):
        learn(X, parties={"bank": [0, 1, 2]}, decimals=None)


def test_decimals_of_a_column_that_is_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="`decimals`: there is no column 'wage'"):
        learn(decimals={"wage": 2})
    with pytest.raises(UsageError, match="`decimals`: there is no column 3; positions go from 0 to 2"):
        learn(decimals={3: 2})


@pytest.mark.parametrize("wrong", [-1, 19, 1.5, "2", True])
def test_wrong_decimals_name_party_and_column(wrong: Any) -> None:
    with pytest.raises(
        UsageError,
        match=r"party 'bank', column 'income' \(position 1\): `decimals` must be an int from 0 to 18",
    ):
        learn(parties={"bank": [0, 1, 2]}, decimals={"income": wrong})


# -- what each party holds ----------------------------------------------------------------------------


def test_each_party_gets_codes_of_shape_n_columns_by_n_rows() -> None:
    layout = learn(parties={"bank": ["income"], "telco": ["calls", "age"]}, decimals=1)
    codes = layout.encode(np.array([[1.0, 2.5, 3.0], [np.nan, 5.0, -6.25]]))
    assert list(codes) == ["bank", "telco"]
    assert codes["bank"].tolist() == [[25, 50]]
    assert codes["telco"].tolist() == [[10, MISSING], [30, -62]]
    assert codes["bank"].dtype == codes["telco"].dtype == np.int64


COLUMNS_WITH_A_GAP: dict[str, Any] = {
    "floats": [1.0, np.nan, 3.0],
    "objects with None": pd.Series([1, None, 3], dtype=object),
    "objects with NA": pd.Series([1, pd.NA, 3.0], dtype=object),
    "objects with NaN": pd.Series([1.0, np.nan, 3], dtype=object),
    "Int64": pd.Series([1, pd.NA, 3], dtype="Int64"),
    "UInt8": pd.Series([1, pd.NA, 3], dtype="UInt8"),
    "Float64": pd.Series([1, pd.NA, 3], dtype="Float64"),
    "float32": np.array([1, np.nan, 3], dtype=np.float32),
    "Decimals": [Decimal(1), Decimal("NaN"), Decimal(3)],
    "sparse": pd.arrays.SparseArray([1.0, np.nan, 3.0]),
}


@pytest.mark.parametrize("kind", COLUMNS_WITH_A_GAP)
def test_every_kind_of_missing_value_is_missing(kind: str) -> None:
    X = pd.DataFrame({"a": COLUMNS_WITH_A_GAP[kind]})
    assert learn(X).encode(X)["a"].tolist() == [[100, MISSING, 300]]


def test_booleans_are_zero_and_one() -> None:
    X = pd.DataFrame({"a": [True, False, True], "b": pd.Series([True, pd.NA, False], dtype="boolean")})
    codes = learn(X).encode(X)
    assert codes["a"].tolist() == [[100, 0, 100]]
    assert codes["b"].tolist() == [[100, MISSING, 0]]


def test_large_integers_are_exact() -> None:
    large = 2**61 + 1
    X = pd.DataFrame({"a": [large, -large], "b": pd.Series([large, pd.NA], dtype="Int64")})
    codes = learn(X, decimals=0).encode(X)
    assert codes["a"].tolist() == [[large, -large]]
    assert codes["b"].tolist() == [[large, missing(64)]]


@pytest.mark.parametrize("as_frame", [True, False])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (np.inf, "not finite; replace it"),
        (-np.inf, "not finite"),
        (1e17, "lower `decimals`"),
        (1e30, "rescale"),
    ],
)
def test_what_does_not_fit_is_named_by_party_column_and_row(
    as_frame: bool, value: float, advice: str
) -> None:
    X = pd.DataFrame({"age": [1.0, 2.0], "income": [3.0, value]})
    place = "" if as_frame else r" \(position 1\)"
    with pytest.raises(RangeError, match=rf"party 'bank', column 'income'{place}, row 1: .*{advice}"):
        learn(X if as_frame else X.to_numpy(), {"bank": [1], "telco": [0]}, names=["age", "income"])


@pytest.mark.parametrize("as_frame", [True, False])
def test_later_rows_are_clamped_to_the_range_of_the_column_and_training_rows_are_not(as_frame: bool) -> None:
    X = pd.DataFrame({"age": [1.0, 2.0], "income": [3.0, 2.0**40]})
    layout, largest = learn(X, decimals=0), bound(32) - 1
    later = pd.DataFrame({"age": [1e17, -1e300, np.nan], "income": [2.0**40, 1e30, -1e30]})
    rows = later if as_frame else later.to_numpy()
    codes = layout.encode(rows, clamp=True)
    assert codes["age"].tolist() == [[largest, -largest, MISSING]]
    assert codes["income"].tolist() == [[2**40, bound(64) - 1, 1 - bound(64)]]
    with pytest.raises(RangeError, match=r"column 'age'.*, row 0: 1e\+17"):
        layout.encode(rows)
    with pytest.raises(RangeError, match="row 0: inf is not finite"):
        layout.encode(pd.DataFrame({"age": [np.inf], "income": [0.0]}), clamp=True)


@pytest.mark.parametrize("dtype", [object, "string", "str"])
def test_text_is_named_and_the_way_out_is_shown(dtype: Any) -> None:
    X = pd.DataFrame({"age": [1, 2], "town": pd.Series(["Ulm", "Bonn"], dtype=dtype)})
    with pytest.raises(UsageError, match=r"party 'bank', column 'town' holds text.*astype\('category'\)"):
        learn(X, parties={"bank": [0, 1]})


@pytest.mark.parametrize(
    "value", [pd.Timestamp("2020-01-01"), pd.Timedelta(days=1), 1j, (1, 2)], ids=lambda value: str(value)
)
def test_what_is_no_number_is_named(value: Any) -> None:
    X = pd.DataFrame({"a": pd.Series([value, value])})
    with pytest.raises(UsageError, match=r"party 'a', column 'a', row 0: .* is not a number"):
        learn(X)


# -- categories ---------------------------------------------------------------------------------------

SIZES = ["small", "medium", "large"]


def sizes(values: list[Any], categories: list[Any] = SIZES) -> Any:
    """A frame with one column of categories."""
    return pd.DataFrame({"size": pd.Categorical(values, categories=categories)})


def test_categories_are_numbered_in_their_own_order() -> None:
    X = sizes(["large", "small", None, "medium"])
    layout = learn(X)
    assert layout.columns[0].categories == tuple(SIZES)
    assert (layout.columns[0].decimals, layout.columns[0].ring) == (0, 32)
    assert layout.encode(X)["size"].tolist() == [[2, 0, MISSING, 1]]


def test_other_tables_map_categories_by_name() -> None:
    layout = learn(sizes([]))
    reordered = sizes(["large", "small", "medium", None], ["medium", "large", "small"])
    assert layout.encode(reordered)["size"].tolist() == [[2, 0, 1, MISSING]]
    fewer = sizes(["large", "large"], ["large"])
    assert layout.encode(fewer)["size"].tolist() == [[2, 2]]
    others = sizes(["huge", "large"], ["huge", "large"])
    assert layout.encode(others)["size"].tolist() == [[MISSING, 2]]


@pytest.mark.parametrize("dtype", [object, "string", "str"])
def test_text_is_read_as_the_categories_it_names(dtype: Any) -> None:
    layout = learn(sizes([]))
    X = pd.DataFrame({"size": pd.Series(["large", "huge", None], dtype=dtype)})
    assert layout.encode(X)["size"].tolist() == [[2, MISSING, MISSING]]


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "category", object])
def test_numbers_are_read_as_the_categories_they_equal(dtype: str) -> None:
    layout = learn(pd.DataFrame({"size": pd.Categorical([1, 2, 5])}))
    X = pd.DataFrame({"size": pd.Series([5, 1, 7]).astype(dtype)})
    assert layout.encode(X)["size"].tolist() == [[2, 0, MISSING]]


def test_numbers_where_categories_were_words_are_refused() -> None:
    layout = learn(sizes([]), parties={"shop": ["size"]})
    with pytest.raises(UsageError, match="party 'shop', column 'size'"):
        layout.encode(pd.DataFrame({"size": [1.5, 2.5]}))


def test_categories_where_numbers_were_are_refused() -> None:
    layout = learn(pd.DataFrame({"size": [1.0, 2.0]}), parties={"shop": ["size"]})
    with pytest.raises(UsageError, match="party 'shop', column 'size' is a category, but was a number"):
        layout.encode(sizes(["small"]))


def test_categories_with_the_same_text_are_refused() -> None:
    with pytest.raises(
        UsageError, match="column 'size': two of its categories have the same text; rename one"
    ):
        learn(sizes([1, "1"], [1, "1"]))


def test_a_column_of_no_category_at_all_is_missing_throughout() -> None:
    X = sizes([None, None], [])
    assert learn(X).encode(X)["size"].tolist() == [[MISSING, MISSING]]
