"""Files of rows, labels and answers: CSV and Parquet say the same, and what is wrong is named."""

import errno
import os
import re
import warnings
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from revfrf.crypto.encoding import bound, missing
from revfrf.errors import RangeError, UsageError
from revfrf.io import party_data
from revfrf.io.files import write_text
from revfrf.io.party_data import csv_text, read_labels, read_rows
from revfrf.messages.fle_expan import Column

MISSING = missing(32)


@pytest.fixture
def csv(tmp_path: Path) -> Any:
    def write(content: str | bytes, name: str = "bank.csv") -> Path:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


@pytest.fixture
def table(tmp_path: Path) -> Any:
    def write(columns: Mapping[str, Any], name: str = "bank.parquet") -> Path:
        parquet.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return write


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all examples of a test."""
    return tmp_path_factory.mktemp("place") / "t.csv"


BANK = "id,age,job,balance\n17,41,clerk,1.5\n4,,driver,-2\nx9,30,clerk,1e3\n"


# -- columns and codes ------------------------------------------------------------------------------


def test_columns_are_numbers_if_all_their_values_are(csv: Any) -> None:
    rows = read_rows(csv(BANK), "id")
    assert rows.ids == ("17", "4", "x9")
    assert rows.columns == (
        Column("age", 0, 32, None),
        Column("job", 0, 32, ("clerk", "driver")),
        Column("balance", 1, 32, None),
    )
    assert rows.codes(rows.columns).tolist() == [
        [41, MISSING, 30],
        [0, 1, 0],
        [15, -20, 10_000],
    ]


def test_csv_and_parquet_of_the_same_rows_are_alike(csv: Any, table: Any) -> None:
    columns = {
        "id": pa.array([17, 4, 9]),
        "age": pa.array([41, None, 30]),
        "job": pa.array(["clerk", "driver ", None]).dictionary_encode(),
        "balance": pa.array([1.5, float("nan"), 1000]),
        "member": pa.array([True, False, None]),
        "rate": pa.array([Decimal("0.25"), None, Decimal("-1.00")]),
        "nothing": pa.nulls(3),
    }
    lines = "17,41,clerk,1.5,True,0.25,\n4,,driver , NaN ,False,NA,null\n9,30,,1e3,,-1,\n"
    mine = read_rows(table(columns), "id")
    theirs = read_rows(csv(f"id,age,job,balance,member,rate,nothing\n{lines}"), "id")
    assert mine.ids == theirs.ids == ("17", "4", "9")
    assert mine.columns == theirs.columns
    assert (mine.codes(mine.columns) == theirs.codes(mine.columns)).all()


@given(
    values=st.lists(
        st.none()
        | st.integers(-(10**12), 10**12)
        | st.floats(-1e12, 1e12)
        | st.integers(2**53, 2**55).map(lambda n: n // 2**20),
        min_size=1,
        max_size=20,
    )
)
def test_numbers_of_mixed_types_are_encoded_exactly(place: Path, values: list[int | float | None]) -> None:
    lines = (f"r{i},{'' if v is None else repr(v)}\n" for i, v in enumerate(values))
    place.write_text("".join(["id,x\n", *lines]))
    rows = read_rows(place, "id", decimals=3)
    absent = missing(rows.columns[0].ring)
    exact = [absent if v is None else round(Decimal(v) * 1000) for v in values]
    assert rows.codes(rows.columns).tolist() == [exact]


def test_integers_beyond_floats_keep_their_last_digit(csv: Any, table: Any) -> None:
    large = 2**53 + 1
    for path in (
        csv(f"id,n\na,{large}\nb,\nc,0.5\n"),
        table({"id": ["a", "b"], "n": pa.array([large, None])}),
    ):
        rows = read_rows(path, "id", decimals=0)
        assert rows.codes(rows.columns)[0, :2].tolist() == [large, missing(64)]


def test_overrides(csv: Any) -> None:
    path = csv("id,zip,age,mail\na,01234,1,x@y\nb,99,2,z@y\nc,1.0,3,\n")
    rows = read_rows(path, "id", categories=["zip"], drop={"mail"}, decimals={"age": 2})
    assert rows.columns == (Column("zip", 0, 32, ("01234", "1", "99")), Column("age", 2, 32, None))
    assert read_rows(path, "id", decimals=0, drop=["mail", "zip"]).columns == (Column("age", 0, 32, None),)
    assert rows.codes(rows.columns[::-1]).tolist() == [[100, 200, 300], [0, 2, 1]]


@pytest.mark.parametrize("option", [{"categories": ["agee"]}, {"drop": ["agee"]}, {"decimals": {"agee": 2}}])
def test_an_override_for_a_column_that_is_not_there_publishes_nothing(csv: Any, option: Any) -> None:
    with pytest.raises(UsageError, match=r"bank.csv: there is no column 'agee'; its columns are 'id', 'age'"):
        _ = read_rows(csv(BANK), "id", **option).columns


@pytest.mark.parametrize("option", [{"categories": "a"}, {"drop": "a"}])
def test_one_name_is_not_a_list_of_names(csv: Any, option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="lists of column names"):
        read_rows(csv("id,a\n1,2\n"), "id", **option)


@pytest.mark.parametrize("decimals", [19, -1])
def test_decimals_that_are_none_are_refused(csv: Any, decimals: int) -> None:
    with pytest.raises(UsageError, match="decimals"):
        _ = read_rows(csv(BANK), "id", decimals=decimals).columns


def test_rows_that_come_later_are_encoded_by_what_was_published(csv: Any, table: Any) -> None:
    published = read_rows(csv(BANK), "id", decimals=1).columns
    later = csv("balance,when,job,id,age\n2.25,2024-01-01,pilot,n1,7\n,x,clerk,n2,8\n", "later.csv")
    expected = [[70, 80], [MISSING, 0], [22, MISSING]]
    assert read_rows(later, "id").codes(published).tolist() == expected
    columns = {"id": ["n1", "n2"], "age": [7.0, 8.0], "job": ["pilot", "clerk"], "balance": [2.25, None]}
    later = table({**columns, "when": [date(2024, 1, 1)] * 2})
    assert read_rows(later, "id").codes(published).tolist() == expected


def test_later_numbers_outside_the_range_are_clamped_only_if_asked(csv: Any) -> None:
    published = read_rows(csv(BANK), "id", drop=["job"]).columns
    later = read_rows(csv("id,age,balance\na,1e300,-5e9\nb,3,0.5\n", "later.csv"), "id")
    largest = bound(32) - 1
    assert later.codes(published, clamp=True).tolist() == [[largest, 3], [-largest, 5]]
    with pytest.raises(RangeError, match=r"later.csv, line 2, column 'age': 1e\+300 is outside"):
        later.codes(published)


def test_numbers_that_do_not_fit_are_named_before_anything_is_published(csv: Any) -> None:
    path = csv("id,x\na,1\nb,5e12\n")
    with pytest.raises(RangeError, match=r"bank.csv, line 3, column 'x': .*lower `decimals`"):
        _ = read_rows(path, "id", decimals=6).columns
    assert read_rows(path, "id").columns == (Column("x", 0, 64, None),)


def test_values_that_merge_are_named_by_file_and_column(csv: Any) -> None:
    with pytest.warns(UserWarning, match=r"bank.csv, column 'x': 2 distinct values become 1 .*rescale"):
        _ = read_rows(csv("id,x\na,4e-25\nb,5e-25\n"), "id").columns


def test_a_published_column_that_is_missing_or_of_another_kind_is_named(csv: Any, table: Any) -> None:
    age, job = Column("age", 6, 32, None), Column("job", 0, 32, ("clerk", "driver"))
    cases = [
        (csv("id,x\na,1\n"), age, "bank.csv: there is no column 'age'; its columns are 'id', 'x'"),
        (csv("id,age\na,1\nb,old\n", "b.csv"), age, r"b.csv, line 3, column 'age': 'old' is not a number"),
        (table({"id": ["a"], "age": ["x"]}), age, r"bank.parquet, row 1, column 'age': 'x' is not a number"),
        (csv("id,job\na,1\nb,2\n", "c.csv"), job, "c.csv, column 'job' is a number here"),
        (table({"id": ["a"], "job": [3]}, "d.parquet"), job, "d.parquet, column 'job' is a number here"),
    ]
    for path, column, message in cases:
        with pytest.raises(UsageError, match=message):
            read_rows(path, "id").codes([column])


def test_numbers_may_be_published_categories(csv: Any, table: Any) -> None:
    column = Column("n", 0, 32, ("1", "2"))
    for path in (csv("id,n\na,2.0\nb,1\nc,3\n"), table({"id": list("abc"), "n": [2.0, 1.0, 3.0]})):
        assert read_rows(path, "id").codes([column]).tolist() == [[1, 0, MISSING]]


def test_a_known_category_is_taken_as_it_is_even_if_it_reads_as_nothing(csv: Any) -> None:
    rows = read_rows(csv("id,c\na,NA\nb, none\nc,1.0\n"), "id")
    assert rows.codes([Column("c", 0, 32, ("1.0", "NA"))]).tolist() == [[1, MISSING, 0]]


def test_a_column_of_unknown_categories_warns(csv: Any) -> None:
    rows = read_rows(csv("id,c\na,green\nb,\n"), "id")
    with pytest.warns(UserWarning, match="column 'c': no value is among its categories 'red'"):
        assert (rows.codes([Column("c", 0, 32, ("red",))]) == MISSING).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (read_rows(csv("id,c\na,\n"), "id").codes([Column("c", 0, 32, ("red",))]) == MISSING).all()


def test_one_wrong_number_does_not_publish_a_column_of_numbers(csv: Any) -> None:
    for wrong in ("12k", "inf", "1_0", "?"):
        path = csv(f"id,income\na,1200\nb,\nc,{wrong}\nd,3.5\n")
        message = re.escape(f"column 'income', line 4: '{wrong}': not a finite number")
        with pytest.raises(UsageError, match=message):
            _ = read_rows(path, "id").columns
        assert read_rows(path, "id", categories=["income"]).columns[0].categories is not None


def test_some_numbers_among_text_are_categories(csv: Any) -> None:
    rows = read_rows(csv("id,size\na,1\nb,3+\nc,many\n"), "id")
    assert rows.columns == (Column("size", 0, 32, ("1", "3+", "many")),)


def test_a_column_of_names_is_not_published_unless_that_is_meant(csv: Any) -> None:
    path = csv("id,mail\n" + "".join(f"{i},x{i}@y\n" for i in range(101)))
    with pytest.raises(UsageError, match="column 'mail': 101 categories in 101 values would"):
        _ = read_rows(path, "id").columns
    assert len(read_rows(path, "id", categories=["mail"]).columns[0].categories or ()) == 101


UNFIT = {
    "date": pa.array([date(2024, 1, 1)]),
    "timestamp": pa.array([0], pa.timestamp("s")),
    "list": pa.array([[1]]),
    "binary": pa.array([b"x"]),
    "struct": pa.array([{"a": 1}]),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_other_types_of_parquet_are_refused_unless_dropped(table: Any, kind: str) -> None:
    path = table({"id": ["a"], "x": UNFIT[kind], "y": [1]})
    with pytest.raises(UsageError, match=rf"bank.parquet, column 'x': a {kind}.* or drop it"):
        _ = read_rows(path, "id").columns
    assert read_rows(path, "id", drop=["x"]).columns == (Column("y", 0, 32, None),)


@pytest.mark.parametrize("value", ["1e300", "5e12", "-5000000000000"])
def test_a_number_out_of_range_is_named_with_its_line(csv: Any, value: str) -> None:
    rows = read_rows(csv(f"id,x\na,1\nb,\n\nc,{value}\nd,1e300\n"), "id", decimals=6)
    with pytest.raises(RangeError, match=r"bank.csv, line 5, column 'x': \S+ is outside the fixed-point"):
        rows.codes(rows.columns)


def test_an_infinite_number_in_parquet_is_named_with_its_row(table: Any) -> None:
    rows = read_rows(table({"id": ["a", "b"], "x": [1.0, float("-inf")]}), "id")
    with pytest.raises(RangeError, match=r"bank.parquet, row 2, column 'x': -inf is not finite"):
        rows.codes(rows.columns)


def test_names_of_columns_and_categories_print(csv: Any) -> None:
    for content in ("id,\na,1\n", "id,a\x07b\na,1\n", "id," + "x" * 201 + "\na,1\n", "id,x\na,b\x07\n"):
        with pytest.raises(UsageError, match="print"):
            _ = read_rows(csv(content), "id").columns


def test_no_columns_and_too_many_are_refused(csv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that a test would take long to read them; here fewer are too many."""
    assert party_data.MAX_COLUMNS == 2**16 - 1
    monkeypatch.setattr(party_data, "MAX_COLUMNS", 2**6 - 1)
    with pytest.raises(UsageError, match="0 columns besides the ids"):
        _ = read_rows(csv("id\na\n"), "id").columns
    wide = "id," + ",".join(f"c{i}" for i in range(2**6)) + "\na" + ",1" * 2**6 + "\n"
    with pytest.raises(UsageError, match="64 columns besides the ids; a participant has 1 to 63"):
        _ = read_rows(csv(wide), "id").columns
    assert len(read_rows(csv(wide), "id", drop=["c7"]).columns) == 2**6 - 1


def test_rows_do_not_print_what_is_in_them(csv: Any, table: Any) -> None:
    for path in (csv(BANK), table({"id": ["x9"], "job": ["clerk"]})):
        assert not re.search("x9|clerk", repr(read_rows(path, "id")))


# -- ids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([17, 2**63], pa.uint64()),
        pa.array(["17", str(2**63)]),
        pa.array(["17", str(2**63)], pa.large_string()),
        pa.array(["17", str(2**63)]).dictionary_encode(),
        pa.array([Decimal(17), Decimal(2**63)], pa.decimal128(20, 0)),
    ],
    ids=lambda ids: str(ids.type),
)
def test_ids_of_every_type_are_the_same_text(csv: Any, table: Any, ids: Any) -> None:
    assert read_rows(table({"id": ids}), "id").ids == read_rows(csv(f"id\n17\n{2**63}\n"), "id").ids


def test_ids_are_taken_as_they_are(csv: Any) -> None:
    ids = ("017", "17", "a b", "Zoë", "1e5", "-3", "A", "a", "1.2.3")
    assert read_rows(csv("\ufeffid\r\n" + "\r\n".join(ids)), "id").ids == ids


WRONG_IDS = {
    "missing": ("id,x\na,1\n,2\nb,3\nNaN,4\n", "no id in line 3, 5; every row"),
    "many missing": ("id,x\n" + " ,1\n" * 7, "no id in line 2, 3, 4, 5, 6 and 2 more"),
    "line break": ('id,x\na,1\n"b\n",2\n', "line 3: 'b\\\\n': ids with whitespace"),
    "whitespace": ("id,x\na,1\nb ,2\n", "line 3: 'b ': ids with whitespace"),
    "duplicates": ("id,x\na,1\nb,2\na,3\nb,4\na,5\n", "'a' in line 2, 4, 6; 'b' in line 3, 5"),
    "many duplicates": (
        "id,x\n" + "".join(f"{i % 7},1\n" for i in range(14)),
        "'0' in line 2, 9; .*'4' in line 6, 13; and 2 more",
    ),
    "floats": ("id,x\n17.0,1\n4,2\n3.0,2\n", "line 2, 4: '17.0', '3.0': ids that are floats"),
    "after a quoted line break": ('id,x\na,"1\n2"\n,3\n', "no id in line 4"),
}


@pytest.mark.parametrize("name", WRONG_IDS)
def test_wrong_ids_are_shown_with_their_lines(csv: Any, name: str) -> None:
    content, message = WRONG_IDS[name]
    with pytest.raises(UsageError, match=f"bank.csv, column 'id'.*{message}"):
        read_rows(csv(content), "id")
    with pytest.raises(UsageError, match=message):
        read_labels(csv(content), "id", "x", "numbers")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (pa.array([17.0, 4.0]), "'17.0', '4.0': ids that are floats"),
        (pa.array([1.5, 1e20]), "'1.5', '1e\\+20': ids that are floats"),
        (pa.array([17.0], pa.float32()), "'17.0': ids that are floats"),
        (pa.array([True, False]), "'True', 'False': ids that are floats or booleans"),
        (pa.array([17, None, 4, None]), "no id in row 2, 4"),
        (pa.array(["a", "b", "a"]), "'a' in row 1, 3"),
        (pa.array([b"a"]), "a binary is neither"),
        (pa.array([Decimal(0), Decimal(1)], pa.decimal128(12, 9)), "'0E-9', .*: ids that are floats"),
        (pa.array([date(2024, 1, 1)]), "a date.* is neither"),
    ],
    ids=["floats", "not whole", "short floats", "booleans", "missing", "twice", "binary", "decimal", "date"],
)
def test_wrong_ids_in_parquet_are_shown_with_their_rows(table: Any, ids: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"bank.parquet, column 'id'.*{message}"):
        read_rows(table({"id": ids}), "id")


# -- files ------------------------------------------------------------------------------------------


FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("t.csv", b"", "there are no rows"),
    "only names": ("t.csv", b"id,x\n", "there are no rows"),
    "empty Parquet": ("t.parquet", b"", "not a Parquet file"),
    "no Parquet": ("t.parquet", BANK.encode(), "not a Parquet file"),
    "not UTF-8": ("t.csv", "id,x\na,é\n".encode("latin-1"), "line 2: byte 0xe9: not a CSV file in UTF-8"),
    "ragged": ("t.csv", b'id,x\n"a\nb",1\nc,1,2\n', "line 4: 3 values in 2 columns"),
    "open quote": ("t.csv", b'id,x\na,"1\n', "not a CSV file in UTF-8"),
    "names twice": ("t.csv", b"id,x,x\na,1,2\n", "two columns are called 'x'"),
    "no id": ("t.csv", b"Id,x\na,1\n", "there is no column 'id'; its columns are 'Id', 'x'"),
    "semicolons": ("t.csv", b"id;x\na;1\n", "are its columns separated by commas?"),
    "other suffix": ("t.xlsx", b"", "ends in .csv or .parquet"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_none_are_refused_by_name(csv: Any, name: str) -> None:
    file, content, message = FILES[name]
    with pytest.raises(UsageError, match=f"{file}.*{re.escape(message)}"):
        read_rows(csv(content, file), "id")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_that_cannot_be_opened_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / f"t.{suffix}"
    with pytest.raises(UsageError, match=f"t.{suffix}: there is no such file"):
        read_rows(path, "id")
    path.mkdir()
    with pytest.raises(UsageError, match=f"t.{suffix}: cannot be read: Is a directory"):
        read_rows(path, "id")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=f"t.{suffix}: cannot be read: Permission denied"):
        read_rows(path, "id")


def test_parquet_that_is_damaged_anywhere_is_refused_or_read(table: Any, tmp_path: Path) -> None:
    whole = table({"id": ["a", "b"], "x": [1.5, 2.5], "c": ["u", "v"]}).read_bytes()
    broken = tmp_path / "broken.parquet"
    refused = 0
    for size in range(0, len(whole), 97):
        broken.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="not a Parquet file, or damaged"):
            read_rows(broken, "id")
    for place in range(0, len(whole), 13):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            rows = read_rows(broken, "id")
            rows.codes(rows.columns)
        except UsageError:
            refused += 1
    assert refused > 3


@given(
    content=st.binary(max_size=80)
    | st.text(alphabet='id,x\n\r"1a \0é', max_size=60).map(lambda t: ("id," + t).encode())
)
def test_any_bytes_are_read_or_refused(place: Path, content: bytes) -> None:
    place.write_bytes(content)
    named = ""
    try:
        rows = read_rows(place, "id")
        shape = rows.codes(rows.columns).shape
    except UsageError as error:
        named = str(error)
    assert str(place) in named if named else shape == (len(rows.columns), len(rows.ids))


def test_text_in_parquet_that_is_no_utf_8_is_refused(table: Any) -> None:
    path = table({"id": ["a"], "x": pa.array([b"\xff"]).view(pa.string())})
    with pytest.raises(UsageError, match=r"bank.parquet: not a Parquet file, or damaged: .*UTF8"):
        read_rows(path, "id")


def test_column_in_parquet_whose_name_is_no_utf_8_is_refused(table: Any) -> None:
    path = table({"id": ["a"], "age": [1]})
    path.write_bytes(path.read_bytes().replace(b"age", b"\xff\xff\xff"))
    with pytest.raises(UsageError, match=r"bank.parquet: not a Parquet file, or damaged: .*utf-8"):
        read_rows(path, "id")


# -- labels -----------------------------------------------------------------------------------------


def test_labels_are_the_same_text_in_every_type(csv: Any, table: Any) -> None:
    expected = {"a": "1", "b": "0"}
    for y in ([1, 0], [1.0, 0.0], ["1", "0"], ["1.0", " 0"], pa.array(["1", "0"]).dictionary_encode()):
        assert read_labels(table({"id": ["a", "b"], "y": y}), "id", "y", "classes") == expected
    assert read_labels(csv("y,id,z\n1.0,a,\n0,b,\n"), "id", "y", "classes") == expected
    assert read_labels(csv("id,y\na,yes\nb,No\n"), "id", "y", "classes") == {"a": "yes", "b": "No"}


def test_labels_that_are_numbers_are_floats(csv: Any, table: Any) -> None:
    expected = {"a": 1.5, "b": -2.0}
    found = read_labels(csv("id,y\na,1.5\nb,-2\n"), "id", "y", "numbers")
    assert found == expected
    assert {*map(type, found.values())} == {float}
    for y in ([1.5, -2.0], [Decimal("1.5"), Decimal("-2.0")]):
        assert read_labels(table({"id": ["a", "b"], "y": y}), "id", "y", "numbers") == expected


def test_numbers_most_of_which_differ_are_not_taken_for_classes(csv: Any, table: Any) -> None:
    def labels(values: list[Any]) -> str:
        return "id,y\n" + "".join(f"r{row},{value}\n" for row, value in enumerate(values))

    numbers = [row / 8 for row in range(101)]
    refused = r"column 'y': 101 different numbers in 101 rows.*`task = \"numbers\"`.*--task numbers"
    with pytest.raises(UsageError, match=refused):
        read_labels(csv(labels(numbers)), "id", "y", "classes")
    with pytest.raises(UsageError, match=refused):
        read_labels(table({"id": [f"r{row}" for row in range(101)], "y": numbers}), "id", "y", "classes")
    assert len(read_labels(csv(labels(numbers)), "id", "y", "numbers")) == 101
    assert len(read_labels(csv(labels(numbers)), "id", "y", "classes", settled=True)) == 101
    names = [f"c{number}" for number in numbers]
    for classes in (names, numbers[:-1], [*numbers, *numbers], [*numbers[:-1], "none of them"]):
        assert len(read_labels(csv(labels(classes)), "id", "y", "classes")) == len(classes)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_missing_labels_are_shown_with_their_lines(csv: Any, table: Any, task: Any) -> None:
    with pytest.raises(UsageError, match=r"bank.csv, column 'y': no label in line 3, 4; add them"):
        read_labels(csv("id,y\na,1\nb,\nc,NaN\n"), "id", "y", task)
    for y in ([1, None], [1.0, float("nan")]):
        with pytest.raises(UsageError, match=r"bank.parquet, column 'y': no label in row 2"):
            read_labels(table({"id": ["a", "b"], "y": y}), "id", "y", task)


def test_wrong_labels_are_refused_by_line(csv: Any) -> None:
    for value, message in (
        ("high", "'high' is not a number"),
        ("inf", "not finite"),
        ("1" * 400, "too large"),
    ):
        with pytest.raises(UsageError, match=f"line 3, column 'y': .*{message}"):
            read_labels(csv(f"id,y\na,1\nb,{value}\n"), "id", "y", "numbers")
    with pytest.raises(UsageError, match="line 2: characters that do not print"):
        read_labels(csv("id,y\na,x\0\n"), "id", "y", "classes")
    with pytest.raises(UsageError, match="there is no column 'z'"):
        read_labels(csv("id,y\na,1\n"), "id", "z", "classes")
    with pytest.raises(UsageError, match="both the id and the label column"):
        read_labels(csv("id,y\na,1\n"), "id", "id", "classes")


# -- answers ----------------------------------------------------------------------------------------


def test_answers_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    third = 1 / 3
    columns = {"answer": np.array(["yes", 'n"o']), "p": np.array([third, 1.0])}
    write_text(path, csv_text(["a", "b,"], columns, id_column="customer"))
    rows = read_rows(path, "customer", decimals=18)
    assert rows.ids == ("a", "b,")
    assert rows.columns[0].categories == ('n"o', "yes")
    assert float(rows.table.column("p")[0]) == third
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.csv"]
