"""Private set intersection: right, bound to its place, and silent about everything else."""

import hashlib
import threading
import time
from collections.abc import Sequence
from typing import TypedDict

import private_set_intersection.python as psi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto import psi as matching
from revfrf.crypto.canonical import digest
from revfrf.crypto.psi import POINT_BYTES, TAG_BYTES, Query, answer
from revfrf.errors import FormatError, ProtocolError, RejectedError, SecretError, UsageError
from tests.conftest import all_that_an_error_shows


class Place(TypedDict):
    federation: str
    table: str


HERE = Place(federation="hospitals", table="training")
IDS = [f"customer {i}" for i in range(8)]
POINT = b"\2" + bytes(32)
"""On the curve, and nobody's id."""
NO_POINT = b"\2" + bytes(31) + b"\1"
"""33 bytes with the right beginning, and no point of the curve: 1 - 3 + b is no square."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
id_lists = st.lists(texts, min_size=1, max_size=12, unique=True)


def matched(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    asking = Query(ours, **HERE)
    return asking.common(*answer(theirs, asking.request, 1000, **HERE))


def tag(what: str, *answered: bytes) -> bytes:
    return matching._tag(what, (HERE["federation"], HERE["table"]), *answered)


def points(message: bytes) -> list[bytes]:
    return [message[i : i + POINT_BYTES] for i in range(TAG_BYTES, len(message), POINT_BYTES)]


def forged(asking: Query, setup: Sequence[bytes], response: Sequence[bytes]) -> tuple[bytes, bytes]:
    """A participant's messages with the right tags and any content: tags are no secret."""
    setup_message = tag("setup", asking.request) + b"".join(setup)
    return setup_message, tag("response", asking.request, setup_message) + b"".join(response)


# -- what comes out ---------------------------------------------------------------------------------


@given(ours=id_lists, theirs=id_lists, shared=id_lists)
def test_what_is_common_is_the_intersection_in_our_order(
    ours: list[str], theirs: list[str], shared: list[str]
) -> None:
    ours, theirs = list(dict.fromkeys(ours + shared)), list(dict.fromkeys(shared[::2] + theirs))
    assert matched(ours, theirs) == [one for one in ours if one in set(theirs)]


def test_ids_that_look_alike_do_not_match() -> None:
    assert matched(["17", "é", "Zoë 😀", "a"], ["17.0", " 17", "e\u0301", "Zoë 😀", "A", ""]) == ["Zoë 😀"]


def test_more_ids_than_one_part_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_AT_A_TIME", 7)
    ours, theirs = [str(i) for i in range(50)], [str(i) for i in range(90, 20, -1)]
    for n_jobs in (1, 3):
        asking = Query(ours, **HERE, n_jobs=n_jobs)
        assert asking.common(*answer(theirs, asking.request, 50, **HERE, n_jobs=n_jobs)) == ours[21:]


@pytest.mark.parametrize(
    ("ids", "message"), [([], "no ids"), (["a", "b", "a"], "twice"), (["\ud800"], "UTF-8")]
)
def test_ids_that_cannot_be_matched_are_refused_on_both_sides(ids: list[str], message: str) -> None:
    request = Query(IDS, **HERE).request
    with pytest.raises(UsageError, match=message):
        Query(ids, **HERE)
    with pytest.raises(UsageError, match=message):
        answer(ids, request, 1000, **HERE)


# -- what the other side sees -----------------------------------------------------------------------


def test_messages_hold_neither_ids_nor_their_hashes() -> None:
    asking = Query(IDS, **HERE)
    sent = asking.request + b"".join(answer(IDS, asking.request, 8, **HERE))
    unkeyed = psi.server.CreateFromKey(bytes(31) + b"\1", True)  # its points are H(id) itself
    for one in IDS:
        hashed = matching._hashed([one], HERE["federation"], HERE["table"])[0]
        plain = unkeyed.CreateSetupMessage(1e-9, 1, [hashed], psi.DataStructure.RAW).raw.encrypted_elements[0]
        alone = hashlib.sha256(one.encode()).digest()
        for shown in (one.encode(), hashed, plain[1:], alone, digest(matching._DOMAIN, "id", one)):
            assert shown[:12] not in sent


def test_sizes_tell_how_many_ids_there_are_and_nothing_else() -> None:
    for ours, theirs in ((["a"], ["b", "c"]), (["long " * 99], ["b", "c" * 999])):
        asking = Query(ours, **HERE)
        setup, response = answer(theirs, asking.request, 1, **HERE)
        sizes = [(len(m) - TAG_BYTES) / POINT_BYTES for m in (asking.request, setup, response)]
        assert sizes == [1, 2, 1]


def test_the_order_of_the_participants_rows_is_not_in_its_answer() -> None:
    request = Query(["x"], **HERE).request
    for ids in (IDS, IDS[::-1]):
        sent = points(answer(ids, request, 1, **HERE)[0])
        assert sent == sorted(sent)
        assert len(set(sent)) == len(IDS)


def test_the_order_of_the_coordinators_rows_is_not_in_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    key = psi.client.CreateWithNewKey(True)
    monkeypatch.setattr(psi.client, "CreateWithNewKey", lambda _: key)
    ids = [str(i) for i in range(30)]
    first, second = (points(Query(ids, **HERE).request) for _ in range(2))
    assert sorted(first) == sorted(second)
    assert first != second


def test_every_question_and_every_answer_has_a_key_of_its_own() -> None:
    asking = Query(IDS, **HERE)
    assert not set(points(asking.request)) & set(points(Query(IDS, **HERE).request))
    once, again = (answer(IDS, asking.request, 8, **HERE) for _ in range(2))
    for one, other in zip(once, again, strict=True):
        assert not set(points(one)) & set(points(other))


def test_a_question_does_not_print_pickle_or_show_its_ids_in_errors() -> None:
    asking = Query(IDS, **HERE)
    assert IDS[3] not in f"{asking!r} {asking}"
    with pytest.raises(SecretError):
        asking.__reduce_ex__(4)
    assert IDS[3] not in all_that_an_error_shows(lambda: asking.common(b"", b""), FormatError)
    assert IDS[3] not in all_that_an_error_shows(lambda: answer(IDS, b"", 8, **HERE), FormatError)


# -- what comes from outside ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there",
    [Place(federation="banks", table="training"), Place(federation="hospitals", table="test")],
    ids=["federation", "table"],
)
def test_messages_of_another_federation_or_table_are_refused(there: Place) -> None:
    asking, elsewhere = Query(IDS, **HERE), Query(IDS, **there)
    with pytest.raises(ProtocolError, match="another federation") as caught:
        answer(IDS, elsewhere.request, 8, **HERE)
    assert caught.value.kind == "request"
    with pytest.raises(ProtocolError):
        asking.common(*answer(IDS, elsewhere.request, 8, **there))


def test_an_answer_to_another_question_is_refused() -> None:
    asking, other = Query(IDS, **HERE), Query(IDS, **HERE)
    setup, response = answer(IDS, asking.request, 8, **HERE)
    setup_2, response_2 = answer(IDS, asking.request, 8, **HERE)
    for caller, messages in (
        (other, (setup, response)),
        (asking, (setup_2, response)),
        (asking, (setup, response_2)),
        (asking, (response, setup)),
        (asking, (asking.request, response)),
    ):
        with pytest.raises(ProtocolError) as caught:
            caller.common(*messages)
        assert caught.value.kind == "request"


def test_a_request_about_too_many_ids_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Query(IDS, **HERE).request
    assert answer(IDS, request, 8, **HERE)
    monkeypatch.setattr(matching, "_points", None)
    with pytest.raises(ProtocolError, match="more than 7") as caught:
        answer(IDS, request, 7, **HERE)
    assert caught.value.kind == "too-large"


REQUESTS: dict[str, tuple[list[bytes], str]] = {
    "about nothing": ([], "malformed"),
    "twice about one": ([POINT, POINT], "malformed"),
    "no point": ([POINT, NO_POINT], "out-of-range"),
    "beyond the field": ([b"\3" + b"\xff" * 32], "out-of-range"),
    "infinity": ([bytes(33)], "malformed"),
    "uncompressed": ([b"\4" + bytes(32)], "malformed"),
    "a byte more": ([POINT, b"\2"], "length"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_is_none_is_refused(name: str) -> None:
    content, kind = REQUESTS[name]
    with pytest.raises(FormatError) as caught:
        answer(IDS, tag("request") + b"".join(content), 100, **HERE)
    assert caught.value.kind == kind


@given(content=st.binary(max_size=150) | st.lists(st.binary(min_size=32, max_size=32)).map(b"\2".join))
def test_any_bytes_for_a_request_are_answered_or_rejected(content: bytes) -> None:
    for request in (content, tag("request") + content):
        try:
            setup, response = answer(IDS[:1], request, 4, **HERE)
        except RejectedError:
            continue
        assert (len(response), len(setup)) == (len(request), TAG_BYTES + POINT_BYTES)


@given(data=st.data())
def test_any_bytes_for_an_answer_give_some_of_our_ids_or_are_rejected(data: st.DataObject) -> None:
    asking = Query(IDS[:3], **HERE)
    some = st.sampled_from([POINT, NO_POINT, *points(asking.request)]) | st.binary(max_size=34)
    lists = st.lists(some, max_size=4)
    for messages in (
        forged(asking, sorted(data.draw(lists)), data.draw(lists)),
        (data.draw(st.binary(max_size=90)), data.draw(st.binary(max_size=90))),
    ):
        try:
            assert set(asking.common(*messages)) <= set(IDS[:3])
        except RejectedError:
            continue


def test_every_truncated_or_changed_answer_is_rejected_or_gives_fewer_ids() -> None:
    asking = Query(IDS[:2], **HERE)
    setup, response = answer(IDS[:2], asking.request, 2, **HERE)
    for size in (*range(0, len(setup), 9), len(setup) - POINT_BYTES):
        for messages in ((setup[:size], response), (setup, response[:size])):
            with pytest.raises(RejectedError):
                asking.common(*messages)
    for place in range(0, len(response), 5):
        changed = bytearray(response)
        changed[place] ^= 0x40
        try:
            assert len(asking.common(setup, bytes(changed))) < 2
        except RejectedError:
            continue


def test_a_setup_of_another_structure_does_not_reach_the_library() -> None:
    """The library ends the process on a malformed Golomb set, and is never given one."""
    asking = Query(IDS, **HERE)
    evil = psi.ServerSetup()
    evil.gcs.SetInParent()
    for content in (evil.SerializeToString(), evil.SerializeToString() * 100):
        with pytest.raises(RejectedError):
            asking.common(*forged(asking, [content], points(asking.request)))


def test_a_participant_that_sends_no_points_has_nothing_in_common() -> None:
    asking = Query(IDS, **HERE)
    assert asking.common(*forged(asking, [], points(asking.request))) == []
    with pytest.raises(FormatError, match="ascending"):
        asking.common(*forged(asking, [POINT, POINT], points(asking.request)))
    with pytest.raises(FormatError, match="9 points to 8 ids"):
        asking.common(*forged(asking, [POINT], [POINT] * 9))


def test_other_threads_run_while_the_library_works() -> None:
    """If it kept them waiting, they would run a few times before and after it."""
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            time.sleep(0.001)
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    Query([str(i) for i in range(matching._AT_A_TIME)], **HERE, n_jobs=1)
    done.set()
    thread.join()
    assert ticks > 20
