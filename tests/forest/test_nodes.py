from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError
from revfrf.forest.nodes import Node, Nodes, pack_rows, starts_of, unfinished, unpack_rows, with_rows

row_sets = st.lists(st.sets(st.integers(0, 400)).map(sorted), max_size=6)
wide_rows = st.sets(st.integers(0, 2**32 - 1), max_size=30).map(sorted)


def nodes_of(rows: Sequence[Sequence[int]], paths: Sequence[int] | None = None) -> Nodes:
    arrays = [np.array(r, dtype=np.uint32) for r in rows]
    return Nodes.of(range(len(rows)), paths or [1] * len(rows), arrays)


def rows_by_node(nodes: Nodes) -> list[list[int]]:
    return [part.tolist() for part in np.split(nodes.rows, nodes.starts[1:-1])] if len(nodes) else []


def leb128(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes([*out, number])


def sizes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


# -- rows as bytes ----------------------------------------------------------------------------------


@given(row_sets)
def test_packed_rows_come_back(rows: list[list[int]]) -> None:
    nodes = nodes_of(rows)
    assert unpack_rows(pack_rows(nodes), nodes.sizes, 401).tolist() == nodes.rows.tolist()


@given(wide_rows)
def test_packed_rows_are_the_gaps_in_leb128(rows: list[int]) -> None:
    gaps = [row - before - 1 for before, row in zip([-1, *rows], rows, strict=False)]
    packed = pack_rows(nodes_of([rows]))
    assert packed == b"".join(map(leb128, gaps))
    assert unpack_rows(packed, sizes(len(rows)), 2**32).tolist() == rows


@given(st.binary(max_size=12), st.lists(st.integers(0, 6), max_size=3), st.integers(0, 1000))
def test_any_bytes_are_refused_or_are_what_packing_gives(
    packed: bytes, counts: list[int], n_rows: int
) -> None:
    try:
        rows = unpack_rows(packed, sizes(*counts), n_rows)
    except FormatError:
        return
    starts = starts_of(sizes(*counts))
    nodes = Nodes(np.zeros(len(counts), np.uint32), np.ones(len(counts), np.uint64), starts, rows)
    assert pack_rows(nodes) == packed
    for own in rows_by_node(nodes):
        assert own == sorted(set(own))
        assert all(row < n_rows for row in own)


@given(row_sets.filter(lambda rows: any(rows)))
def test_truncated_rows_are_refused(rows: list[list[int]]) -> None:
    nodes = nodes_of(rows)
    packed = pack_rows(nodes)
    for end in range(len(packed)):
        with pytest.raises(FormatError):
            unpack_rows(packed[:end], nodes.sizes, 401)


@pytest.mark.parametrize(
    ("packed", "counts", "n_rows"),
    [
        pytest.param(b"\x00\x00", (1,), 10, id="bytes left over"),
        pytest.param(b"", (1,), 10, id="too few bytes"),
        pytest.param(b"\x80", (1,), 1000, id="a gap without its end"),
        pytest.param(b"\x80\x00", (1,), 1000, id="zero in two bytes"),
        pytest.param(b"\x85\x00", (1,), 1000, id="five in two bytes"),
        pytest.param(b"\x0a", (1,), 10, id="row out of range"),
        pytest.param(b"\x05\x04", (2,), 10, id="second row out of range"),
        pytest.param(b"\x00", (1,), 0, id="a row of an empty table"),
        pytest.param(b"\xff\xff\xff\xff\x0f", (1,), 2**32 - 1, id="row 2^32 - 1 of 2^32 - 1"),
        pytest.param(b"\xff\xff\xff\xff\x7f", (1,), 2**32, id="a gap above 32 bits"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", (1,), 2**32, id="a gap in six bytes"),
        pytest.param(b"\x80\x80\x80\x80\x80\x01", (1,), 2**32, id="a long gap in six bytes"),
        pytest.param(b"\x00\x00", (-1, 3), 10, id="a negative size"),
        pytest.param(b"\x00\x00\x00", (3, -1), 10, id="a negative size that the others make up for"),
        pytest.param(b"\x00", (2**32 - 1,), 10, id="more rows than bytes"),
        pytest.param(b"\x00\x00", (2**62, 2**62), 10, id="sizes whose sum becomes negative"),
        pytest.param(b"\x00\x00", (2**63 - 1, 2**63 - 1, 4), 10, id="sizes whose sum overflows"),
    ],
)
def test_rows_that_packing_never_writes_are_refused(
    packed: bytes, counts: tuple[int, ...], n_rows: int
) -> None:
    with pytest.raises(FormatError):
        unpack_rows(packed, sizes(*counts), n_rows)


def test_last_row_of_the_largest_table_passes() -> None:
    assert unpack_rows(b"\xff\xff\xff\xff\x0f", sizes(1), 2**32).tolist() == [2**32 - 1]


# -- nodes ------------------------------------------------------------------------------------------


def test_roots_are_one_node_a_tree() -> None:
    nodes = Nodes.roots([np.array([0, 2], np.uint32), np.array([1], np.uint32)])
    assert nodes.names() == [(0, 1), (1, 1)]
    assert rows_by_node(nodes) == [[0, 2], [1]]


def test_no_nodes_are_nodes_too() -> None:
    nothing = Nodes.of([], [], [])
    assert (len(nothing), nothing.names(), len(nothing.rows)) == (0, [], 0)
    assert rows_by_node(nothing + nodes_of([[3]])) == [[3]]
    assert len(nothing.take(np.empty(0, np.intp))) == 0


@given(row_sets, st.data())
def test_taken_nodes_keep_their_names_and_rows(rows: list[list[int]], data: st.DataObject) -> None:
    nodes = nodes_of(rows, [j + 1 for j in range(len(rows))])
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)) if rows else st.just([]))
    taken = nodes.take(np.array(chosen, dtype=np.intp))
    assert taken.names() == [(j, j + 1) for j in chosen]
    assert rows_by_node(taken) == [rows[j] for j in chosen]


@given(row_sets, st.data())
def test_children_partition_the_rows_of_their_parent(rows: list[list[int]], data: st.DataObject) -> None:
    paths = [data.draw(st.integers(1, 2**62 - 1)) for _ in rows]
    nodes = nodes_of(rows, paths)
    right = np.array(data.draw(st.lists(st.booleans(), min_size=len(nodes.rows), max_size=len(nodes.rows))))
    chosen = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1)) if rows else st.just(set())))
    children = nodes.children(np.array(chosen, dtype=np.intp), right.astype(np.bool_))
    names: list[Node] = []
    expected: list[list[int]] = []
    for j in chosen:
        begin = int(nodes.starts[j])
        for side in (False, True):
            names.append((j, 2 * paths[j] + side))
            expected.append([row for i, row in enumerate(rows[j]) if right[begin + i] == side])
    assert children.names() == names
    assert rows_by_node(children) == expected


def test_joined_nodes_follow_each_other() -> None:
    joined = nodes_of([[1, 2], []]) + nodes_of([[0]], [7])
    assert joined.names() == [(0, 1), (1, 1), (0, 7)]
    assert rows_by_node(joined) == [[1, 2], [], [0]]
    assert joined.sizes.tolist() == [2, 0, 1]


# -- what is not grown yet --------------------------------------------------------------------------


class Split(NamedTuple):
    feature: str
    cut: int
    directions: bytes = b"\x60"


SPLITS = {(0, 1): Split("bank/x", 3), (0, 3): Split("shop/y", 0, b"\x80")}
LEAVES = {(0, 2), (0, 6), (1, 1)}


def test_nodes_that_are_neither_split_nor_leaf_get_the_rows_that_reach_them() -> None:
    assert unfinished(3, SPLITS, LEAVES) == {(0, 7), (2, 1)}
    used = [np.array(rows, np.uint32) for rows in ([0, 4, 5, 9], [1], [2, 3])]
    nodes = with_rows(used.__getitem__, SPLITS, {(0, 7), (2, 1), (0, 2)})
    rows = np.split(nodes.rows, nodes.starts[1:-1])
    assert {name: own.tolist() for name, own in zip(nodes.names(), rows, strict=True)} == {
        (2, 1): [2, 3],
        (0, 2): [0, 9],
        (0, 7): [4],
    }
    with pytest.raises(FormatError, match="directions"):
        with_rows(used.__getitem__, {(0, 1): Split("bank/x", 3, b"\x60\0")}, {(0, 2)})
