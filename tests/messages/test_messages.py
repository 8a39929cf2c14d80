"""Messages cross as bytes: strictly, within their caps, and in no other way."""

import importlib
import pkgutil
from functools import reduce
from operator import getitem
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf import messages
from revfrf.errors import FormatError, UsageError
from revfrf.messages import bins, events, frf_predict, frf_revoc, frf_test, key_setup
from revfrf.messages.alignment import Align, Drop, MatchReply, MatchRequest, NumberedRows, SchemaRequest
from revfrf.messages.base import MIB, Done, Message, array, number, of_number
from revfrf.messages.fle_expan import Column, LevelReply, LevelRequest, NodeRows, OpenForest, Schema
from revfrf.messages.registry import MESSAGES
from revfrf.testing.federations import with_rules
from revfrf.transport import codec
from revfrf.transport.codec import VERSION, decode, encode

MEMBER = key_setup.Member("clinic", "requester", b"1", bytes(32))
ADMISSION = key_setup.Admission(federation="f", epoch=1, member=MEMBER, signature=bytes(64))
REQUEST = frf_predict.Request(ADMISSION, bytes(16), bytes(16), 2**16 - 1, "soft", True, bytes(32), bytes(64))
ROWS = NumberedRows.of(np.array([4, 7, 2**63 - 1]), ("a", "", "bänk"))
NODES = NodeRows(bytes(8), bytes(16), (1).to_bytes(4, "little") * 2, b"\0\5")
OPENING = OpenForest(
    federation="f",
    epoch=1,
    forest=bytes(16),
    nonce=bytes(16),
    rules=with_rules(n_trees=100, max_depth=62, n_candidates=255, n_sampled=2**20),
)
DTPKC = key_setup.DtpkcParameters(b"\x09", b"\x04", 2**32 - 1)
LINE = bins.FeatureLine("bank/age", 1, 0, 32, 0, bytes(32), bytes(32), 4, None, False, bytes(32), bytes(64))
LEAVING = frf_revoc.RevocationRequest(
    federation="f",
    forest=bytes(16),
    epoch=1,
    party="bänk",
    level=2,
    nonce=bytes(16),
    time=2**53,
    signature=bytes(64),
)
FIRST_EPOCH = key_setup.EpochCertificate(
    federation="f",
    epoch=1,
    forest_protocol="shares",
    notes_key=bytes(32),
    dtpkc=None,
    members=(key_setup.Member("CS", "CS", None, bytes(32)),),
    revoked=(),
    requests=(),
    erases=False,
    previous=b"",
    signature=bytes(64),
)
INPUTS = events.CertifiedInputs(bytes(32), bytes(32), bytes(32), bytes(32), 2**32 - 1, (LINE,))
REPORT = events.Report(
    epoch=bytes(32),
    forest=bytes(16),
    inputs_before=INPUTS,
    inputs_after=INPUTS,
    digest_before=bytes(32),
    digest_after=b"\xff" * 32,
    destroyed=2**32 - 1,
    rebuilt=7,
    kept=0,
    waits_for=("bank",),
    signature=bytes(64),
)
NEXT_EPOCH = msgspec.structs.replace(FIRST_EPOCH, epoch=2, revoked=("bänk",), requests=(LEAVING,))
FIRST_REPORT = msgspec.structs.replace(REPORT, inputs_before=None, digest_before=None, waits_for=())
CREATION = events.Event("version 1", "creation", None, FIRST_EPOCH, FIRST_REPORT, None, 2**53, bytes(64))
EVENT = events.Event("version 1", "leaving", FIRST_EPOCH, NEXT_EPOCH, REPORT, 0, 1, bytes(64))
USED = events.UsedCutsReceipt("bank", bytes(32), (events.UsedColumn("bank/age", 1, 8, bytes(32)),), bytes(64))
ERASURE = events.ErasureReceipt("bank", bytes(32), bytes(64))
RECEIPTS: tuple[events.Receipt, ...] = (
    USED,
    ERASURE,
    events.CompletionReceipt("CS", bytes(32), bytes(32), 2**32 - 1, bytes(64)),
)
SAMPLES: tuple[Message, ...] = (
    Done(),
    key_setup.KeyDeal(federation="f", epoch=1, number=1, dtpkc=None, share=None),
    key_setup.KeyDeal(federation="f", epoch=2**32 - 1, number=2, dtpkc=DTPKC, share=b"\x07"),
    key_setup.Enrolment(name="bänk", role="participant", weak=None, verify_key=bytes(32)),
    key_setup.Enrolment(
        name="bänk",
        role="participant",
        weak=key_setup.ProvenKey(b"1", b"2", b"3"),
        verify_key=bytes(32),
    ),
    FIRST_EPOCH,
    key_setup.EpochCertificate(
        federation="f",
        epoch=1,
        forest_protocol="paper",
        notes_key=bytes(32),
        dtpkc=DTPKC,
        members=(
            key_setup.Member("CS", "CS", b"1", bytes(32)),
            key_setup.Member("bank", "participant", b"2", bytes(32)),
        ),
        revoked=("shop",),
        requests=(LEAVING,),
        erases=True,
        previous=b"",
        signature=bytes(64),
    ),
    key_setup.EpochAccepted(epoch=2**32 - 1),
    OPENING,
    Schema(columns=(Column("age", 2, 64, None), Column("sex", 0, 32, ("f", "m"))), n_rows=2**32 - 1),
    LevelRequest(
        epoch=1,
        forest=bytes(16),
        round=0,
        won_trees=bytes(4),
        won_paths=bytes(8),
        won_features=bytes(2),
        won_cuts=bytes(1),
        nodes=NODES,
        asked_nodes=bytes(4),
        asked_features=bytes(2),
    ),
    LevelReply(round=3, ciphertexts=bytes(96), signature=bytes(64), n_cuts=b"\1", bins=b"\0\1"),
    LevelReply(round=3, ciphertexts=b"", signature=None, n_cuts=b"", bins=b""),
    bins.BinsRequest(epoch=1, forest=bytes(16), table="training", rows=bytes(32), columns=bytes(2), offset=0),
    bins.BinsReply(lines=(bins.SaltedLine(LINE, bytes(32)),), data=b"\0\1\2"),
    frf_test.TestRequest(epoch=1, forest=bytes(16), table="test", nodes=NODES),
    frf_test.TestReply(bits=b"\xff\x80"),
    ADMISSION,
    frf_predict.ForestQuery(admission=ADMISSION),
    frf_predict.ForestFacts(
        epoch=1,
        opening=OPENING,
        n_votes=2,
        columns={"bank": (Column("age", 2, 64, None),), "shop": (Column("sex", 0, 32, ("f", "m")),)},
        labels=("ill", "well"),
        centre=0.5,
        vote_places=3,
        absent=("shop",),
    ),
    key_setup.SetUpRequest(),
    key_setup.SetUpReply(missing="bank", refused=None),
    key_setup.AdmissionRequest(),
    SchemaRequest(epoch=1),
    MatchRequest(epoch=1, table="training", blinded=bytes(49)),
    MatchReply(own=bytes(49), twice=bytes(49)),
    Align(epoch=1, table="training", rows=ROWS),
    Drop(epoch=1, table="test"),
    frf_predict.PredictRequest(request=REQUEST, rows=bytes(96)),
    frf_predict.PredictReply(
        votes=b"", n_voted=b"", absent=(), failure=frf_predict.Failure("bank", "refused")
    ),
    frf_predict.PredictReply(votes=bytes(16), n_voted=bytes(8), absent=("shop", "telco"), failure=None),
    frf_predict.MaskedComparisons(
        request=REQUEST, depth=61, owners=("bank", "shop"), counts=b"\3\0\0\0\5\0\0\0", packs=bytes(96)
    ),
    frf_predict.SealedResults(ciphertexts=bytes(192), masked=(b"", b"\1"), signatures=(bytes(64), bytes(64))),
    frf_predict.ShareRequest(
        request=REQUEST, depth=0, count=2**32 - 1, ciphertext=bytes(96), signature=bytes(64)
    ),
    frf_predict.ShareReply(count=2**32 - 1, share=bytes(32)),
    LEAVING,
    frf_revoc.Destroy(epoch=2, forest=bytes(16), round=4, trees=bytes(12), paths=bytes(24)),
    frf_revoc.Rekey(epoch=2, forest=bytes(16), trees=bytes(4), paths=bytes(8)),
    frf_revoc.Rekeyed(ciphertexts=bytes(96), signature=bytes(64)),
    events.EventReport(report=FIRST_REPORT),
    events.EventReport(report=REPORT),
    events.Certified(event=CREATION),
    events.Certified(event=EVENT),
    events.EventNotice(event=EVENT, used=None),
    events.EventNotice(event=EVENT, used=(events.UsedCuts("bank/age", bytes(255)),)),
    events.Countersigned(receipts=(), salt=None),
    events.Countersigned(receipts=(USED, ERASURE), salt=bytes(32)),
)
FULL = {type(sample): sample for sample in SAMPLES}


def fields_of(message: Message) -> dict[str, Any]:
    """What travels, as plain values: the type's name and every field."""
    plain: dict[str, Any] = msgspec.msgpack.decode(encode(message)[1:])
    return plain


def packed(plain: object) -> bytes:
    return bytes([VERSION]) + msgspec.msgpack.encode(plain)


def refused(data: bytes, *expected: type[Message]) -> str:
    with pytest.raises(FormatError) as caught:
        decode(data, *(expected or MESSAGES))
    return caught.value.kind


# -- what is a message ------------------------------------------------------------------------------


def test_every_message_of_the_package_is_registered_and_nothing_else() -> None:
    for module in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"revfrf.messages.{module.name}")
    defined = {kind for kind in Message.__subclasses__() if kind.__module__.startswith("revfrf.messages.")}
    assert defined == set(MESSAGES) == set(FULL)


def test_every_message_says_its_protocol_and_its_cap() -> None:
    for kind in MESSAGES:
        assert 0 < kind.max_bytes <= 2**30
        assert kind.protocol


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(message), *MESSAGES) == message
    assert decode(encode(message), type(message)) == message


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_cannot_be_changed(message: Message) -> None:
    for name in message.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(message, name, None)


class Stranger(Message, frozen=True):
    protocol = "none"


PARTS = [
    ROWS,
    NODES,
    Column("a", 0, 32, None),
    MEMBER,
    REQUEST,
    frf_predict.Failure("bank", "absent"),
    *RECEIPTS,
    INPUTS,
    EVENT,
    REPORT,
    Stranger(),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_only_listed_types_can_be_decoded(part: msgspec.Struct) -> None:
    assert refused(packed(part)) == "malformed"
    assert refused(packed(msgspec.to_builtins(part) | {"type": type(part).__name__})) == "malformed"


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_of_another_type_than_expected_is_refused(message: Message) -> None:
    data = encode(message)
    for kind in MESSAGES:
        if kind is not type(message):
            assert refused(data, kind) == ("malformed" if len(data) <= kind.max_bytes else "too-large")


# -- what is no message -----------------------------------------------------------------------------


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_that_is_cut_off_or_goes_on_is_refused(message: Message) -> None:
    data = encode(message)
    for end in range(len(data)):
        assert refused(data[:end]) == ("malformed" if end else "version")
    assert refused(data + b"\0") == "malformed"


@pytest.mark.parametrize("version", [0, 2, 255])
def test_message_of_another_version_is_refused(version: int) -> None:
    assert refused(bytes([version]) + encode(Done())[1:]) == "version"
    assert refused(b"") == "version"


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_with_an_unknown_or_a_missing_field_is_refused(message: Message) -> None:
    plain = fields_of(message)
    assert refused(packed(plain | {"labels": b"\1"})) == "malformed"
    for name in plain:
        assert refused(packed({k: v for k, v in plain.items() if k != name})) == "malformed"


RIGHT: dict[type[Message], tuple[tuple[str, object], ...]] = {
    frf_predict.ForestFacts: (("columns", {}), ("centre", 1.5), ("centre", -1), ("vote_places", -1)),
    key_setup.EpochCertificate: (("erases", True),),
}
"""What is a value of the right type after all."""


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_with_a_field_of_another_type_is_refused(message: Message) -> None:
    wrongs: list[object] = [-1, 1.5, True, {}, [None], [[]], "\0" * 300]
    plain = fields_of(message)
    for name in plain:
        for wrong in wrongs:
            if (name, wrong) not in RIGHT.get(type(message), ()):
                assert refused(packed(plain | {name: wrong})) == "malformed"


COLUMN = {"name": "a", "decimals": 0, "ring": 32, "categories": None}
OUT_OF_BOUNDS: dict[type[Message], dict[str, list[object]]] = {
    key_setup.KeyDeal: {
        "federation": ["", "x" * 201],
        "dtpkc": [
            {"n": b"\x09", "g0": b"\x04"},
            {"n": b"", "g0": b"\x04", "exponent_bits": 128},
            {"n": bytes(8193), "g0": b"\x04", "exponent_bits": 128},
            {"n": b"\x09", "g0": b"\x04", "exponent_bits": 2**32},
            {"n": b"\x09", "g0": b"\x04", "exponent_bits": 128, "p": b"\x03"},
        ],
        "share": [b""],
        "epoch": [2**32],
    },
    key_setup.Enrolment: {
        "verify_key": [bytes(31), bytes(33)],
        "weak": [{"h": b"1"}, {"h": b"", "challenge": b"2", "response": b"3"}],
    },
    key_setup.EpochCertificate: {
        "forest_protocol": ["", "none", "Paper", None],
        "notes_key": [bytes(31), None],
        "erases": [None, 0, 1],
        "signature": [bytes(63), None],
        "members": [
            [{"name": "a", "role": "b", "h": b"1"}],
            [{"name": "", "role": "b", "h": b"1", "verify_key": bytes(32)}],
        ],
        "revoked": [[""]],
    },
    key_setup.EpochAccepted: {"epoch": [2**32]},
    OpenForest: {"forest": [bytes(15), bytes(17)], "n_candidates": [0, 256], "n_sampled": [1, 2**20 + 1]},
    Schema: {
        "columns": [[COLUMN | {"decimals": 19}], [COLUMN | {"ring": 33}], [COLUMN | {"values": b"\1"}]],
        "n_rows": [2**32],
    },
    LevelRequest: {"nodes": [{"trees": b"", "paths": b"", "sizes": b""}], "round": [2**32]},
    LevelReply: {"signature": [bytes(65)]},
    frf_test.TestRequest: {"table": [""]},
    key_setup.Admission: {
        "federation": [""],
        "epoch": [2**32],
        "signature": [bytes(63)],
        "member": [{"name": "a", "role": "b", "h": b"1"}],
    },
    frf_predict.ForestFacts: {
        "forest": [bytes(17)],
        "n_trees": [2**32],
        "columns": [
            {"": []},
            {"bank": [COLUMN | {"name": ""}]},
            {"bank": [COLUMN | {"decimals": 19}]},
            {"bank": COLUMN},
        ],
    },
    frf_predict.PredictReply: {
        "absent": [[""], ["x" * 201]],
        "failure": [
            {"party": "bank", "reason": "tired"},
            {"party": "", "reason": "absent"},
            {"party": "bank"},
            {"party": "bank", "reason": "refused", "why": "quota"},
        ],
    },
    frf_predict.MaskedComparisons: {"depth": [2**32], "owners": [["bank", ""]]},
    frf_predict.SealedResults: {"masked": [["text"]], "signatures": [[bytes(63)], [bytes(64), None]]},
    frf_predict.ShareRequest: {"depth": [2**32], "count": [2**32], "signature": [bytes(65), None]},
    frf_predict.ShareReply: {"count": [2**32], "share": [b"", bytes(8193)]},
    frf_revoc.RevocationRequest: {
        "federation": [""],
        "forest": [bytes(15)],
        "epoch": [2**32],
        "party": ["x" * 201],
        "level": [0, 3, "2"],
        "nonce": [bytes(17), None],
        "time": [2**53 + 1],
        "signature": [bytes(63), None],
    },
    frf_revoc.Destroy: {"epoch": [2**32], "forest": [bytes(17)], "round": [-1, None]},
    frf_revoc.Rekey: {"epoch": [2**32], "forest": [bytes(15)]},
    frf_revoc.Rekeyed: {"signature": [bytes(65), None]},
    events.EventReport: {"report": [None]},
    events.Certified: {"event": [None, b"{}"]},
    events.EventNotice: {
        "event": [None],
        "used": [
            [{"feature": "bank/age", "cuts": b""}],
            [{"feature": "bank/age", "cuts": bytes(256)}],
            [{"feature": "", "cuts": b"\0"}],
            [{"cuts": b"\0"}],
        ],
    },
    events.Countersigned: {"salt": [bytes(31), b""]},
}


@pytest.mark.parametrize("kind", OUT_OF_BOUNDS, ids=lambda kind: kind.__name__)
def test_field_outside_its_bounds_is_refused(kind: type[Message]) -> None:
    plain = fields_of(FULL[kind])
    for name, values in OUT_OF_BOUNDS[kind].items():
        for value in values:
            assert refused(packed(plain | {name: value})) == "malformed", (name, value)


INPUTS_OUT_OF_BOUNDS: dict[str, list[object]] = {
    "rules": [bytes(31)],
    "seed": [bytes(33), None],
    "targets": [""],
    "rows": [None],
    "n_rows": [2**32],
    "features": [None, [None]],
    "salt": [bytes(32)],
}
REPORT_OUT_OF_BOUNDS: dict[str, list[object]] = {
    "epoch": [2, bytes(31)],
    "forest": [bytes(15)],
    "inputs_after": [None],
    "digest_before": ["", bytes(31), "f" * 64],
    "digest_after": [None, bytes(33)],
    "destroyed": [-1],
    "rebuilt": [2**32],
    "kept": [None],
    "waits_for": [[""], "bank"],
    "signature": [bytes(63), None],
    "leaver": ["bank"],
}
EVENT_OUT_OF_BOUNDS: dict[str, list[object]] = {
    "format": [None],
    "kind": ["", "joining", "Leaving"],
    "requests": [None, [None]],
    "epoch_after": [None],
    "report": [None],
    "asked_at": [-1, 2**53 + 1],
    "certified_at": [None, 2**53 + 1, 0.5],
    "signature": [bytes(63)],
    "receipts": [[]],
}
COLUMN_OUT_OF_BOUNDS: dict[str, list[object]] = {
    "feature": [""],
    "generation": [2**32],
    "rounds": [0, 9],
    "cuts": [bytes(31)],
    "list": [b"\0"],
}
REQUEST_OUT_OF_BOUNDS: dict[str, list[object]] = {
    "forest": [bytes(15)],
    "id": [bytes(17), None],
    "n_rows": [0, -1, 2**16, True],
    "voting": ["median", "Hard"],
    "partial": [1, None],
    "digest": [bytes(31)],
    "signature": [bytes(63), None],
    "rows": [[0, 1]],
    "admission": [None],
}
PARTS_OUT_OF_BOUNDS = [
    (events.EventReport, ("report",), REPORT_OUT_OF_BOUNDS),
    (events.EventReport, ("report", "inputs_after"), INPUTS_OUT_OF_BOUNDS),
    (events.EventReport, ("report", "inputs_before"), INPUTS_OUT_OF_BOUNDS),
    (events.Certified, ("event",), EVENT_OUT_OF_BOUNDS),
    (events.EventNotice, ("event",), EVENT_OUT_OF_BOUNDS),
    (events.Countersigned, ("receipts", 0), {"party": [""], "event": [bytes(31)], "signature": [None]}),
    (events.Countersigned, ("receipts", 0, "columns", 0), COLUMN_OUT_OF_BOUNDS),
    (events.Countersigned, ("receipts", 1), {"event": [None], "columns": [[]], "type": ["completion"]}),
    (frf_predict.PredictRequest, ("request",), REQUEST_OUT_OF_BOUNDS),
    (frf_predict.MaskedComparisons, ("request",), REQUEST_OUT_OF_BOUNDS),
    (frf_predict.ShareRequest, ("request",), REQUEST_OUT_OF_BOUNDS),
    (frf_predict.ShareRequest, ("request", "admission"), {"share": [b"\1"], "type": ["Enrolment"]}),
]


@pytest.mark.parametrize(("kind", "path", "wrong"), PARTS_OUT_OF_BOUNDS, ids=str)
def test_part_of_a_message_with_a_wrong_or_missing_field_is_refused(
    kind: type[Message], path: tuple[str | int, ...], wrong: dict[str, list[object]]
) -> None:
    def around(part: object) -> bytes:
        plain = fields_of(FULL[kind])
        inside: Any = reduce(getitem, path[:-1], plain)  # type: ignore[arg-type]
        inside[path[-1]] = part
        return packed(plain)

    right: Any = reduce(getitem, path, fields_of(FULL[kind]))  # type: ignore[arg-type]
    assert decode(around(right), kind) == FULL[kind]
    for name, values in wrong.items():
        for value in values:
            assert refused(around(right | {name: value})) == "malformed", (name, value)
    for name in right.keys() - {"type"}:
        assert refused(around({k: v for k, v in right.items() if k != name})) == "malformed"


@pytest.mark.parametrize("name", ["Message", "done", "", "LevelRequest2", "revfrf.messages.Done", "Stranger"])
def test_unknown_type_is_refused(name: str) -> None:
    assert refused(packed({"type": name})) == "malformed"


@pytest.mark.parametrize("plain", [None, 1, b"bytes", "Done", [], ["Done"], {}, {"type": None}, {1: 2}])
def test_whatever_is_no_object_is_refused(plain: object) -> None:
    assert refused(packed(plain)) == "malformed"


@pytest.mark.parametrize(
    "body",
    [
        b"\x81\xa4type\xa1\xff",
        msgspec.msgpack.encode(fields_of(FULL[key_setup.KeyDeal])).replace(b"\xa1f", b"\xa1\xff"),
        msgspec.msgpack.encode(fields_of(FULL[key_setup.Enrolment])).replace("bänk".encode(), b"b\xff\xffnk"),
    ],
    ids=["type", "name", "inside a name"],
)
def test_text_that_is_no_text_is_refused(body: bytes) -> None:
    assert refused(bytes([VERSION]) + body) == "malformed"


def test_list_that_claims_to_be_huge_is_refused_without_making_room_for_it() -> None:
    body = b"\x83\xa4type\xa6Schema\xa6n_rows\x01\xa7columns\xdd\xff\xff\xff\xff"
    assert refused(bytes([VERSION]) + body) == "malformed"


def test_deep_nesting_is_refused() -> None:
    body = b"\x83\xa4type\xa6Schema\xa6n_rows\x01\xa7columns" + b"\x91" * 200_000
    assert refused(bytes([VERSION]) + body) == "malformed"


# -- caps -------------------------------------------------------------------------------------------


def test_cap_is_checked_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(codec, "_unpacked", explode)
    assert refused(bytes([VERSION]) + bytes(Done.max_bytes), Done) == "too-large"
    assert refused(b"\x07" + bytes(key_setup.KeyDeal.max_bytes), Done, key_setup.KeyDeal) == "too-large"


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_every_message_has_a_cap_that_both_sides_keep(
    message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind = encode(message), type(message)
    monkeypatch.setattr(kind, "max_bytes", len(data))
    assert decode(encode(message), kind) == decode(data, *MESSAGES) == message
    monkeypatch.setattr(kind, "max_bytes", len(data) - 1)
    with pytest.raises(UsageError, match=r"above the limit.*fewer trees"):
        encode(message)
    assert refused(data, kind) == refused(data) == "too-large"


@pytest.mark.parametrize("kind", [k for k in MESSAGES if k.max_bytes <= MIB], ids=lambda k: k.__name__)
def test_oversize_is_refused_whatever_it_is_made_of(kind: type[Message]) -> None:
    plain = fields_of(FULL[kind])
    for stuffing in (bytes(kind.max_bytes), [None] * kind.max_bytes):
        assert refused(packed(plain | {"padding": stuffing})) == "too-large"
        for name in plain.keys() - {"type"}:
            assert refused(packed(plain | {name: stuffing})) == "too-large"


def test_what_a_request_shows_compute_partner_and_owners_is_small() -> None:
    """A cap on what CS can slip into a question to an owner: the header, and one ciphertext."""
    assert frf_predict.ShareRequest.max_bytes <= 128 * 1024
    assert frf_predict.ShareReply.max_bytes <= 16 * 1024


def test_what_a_leaver_and_a_member_in_a_new_epoch_can_tell_is_small() -> None:
    assert frf_revoc.RevocationRequest.max_bytes == 64 * 1024
    assert key_setup.EpochAccepted.max_bytes == 1024


# -- arrays and numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "<u2", "<u4", "<u8"])
def test_array_of_any_other_length_is_refused(dtype: str) -> None:
    data = np.arange(5, dtype=dtype).tobytes()
    assert array(data, dtype).tolist() == array(data, dtype, 5).tolist() == [0, 1, 2, 3, 4]
    for length in (0, 4, 6, 2**40):
        with pytest.raises(FormatError):
            array(data, dtype, length)


def test_array_of_broken_numbers_is_refused() -> None:
    for length in (None, 1, 2):
        with pytest.raises(FormatError):
            array(bytes(7), "<u4", length)


@given(st.integers(0, 2**2100))
def test_number_comes_back(value: int) -> None:
    assert of_number(number(value)) == value


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0\1", bytes(40)])
def test_number_with_leading_zeros_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        of_number(data)


# -- what messages say of themselves ----------------------------------------------------------------


def test_names_of_categories_are_counted_wherever_they_travel() -> None:
    for kind in (Schema, frf_predict.ForestFacts):
        assert FULL[kind].discloses()["names of categories"] == 2
