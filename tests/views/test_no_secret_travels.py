"""What must not travel: every message of a run is searched for every secret in it."""

from collections import Counter

import msgspec
import numpy as np

from revfrf.messages import alignment, frf_test, registry
from revfrf.messages.bins import BinsReply, BinsRequest
from revfrf.messages.fle_expan import LevelReply, NodeRows
from revfrf.messages.frf_predict import ShareRequest
from revfrf.messages.key_setup import AdmissionRequest, SetUpReply, SetUpRequest
from revfrf.names import CC, CS, KGC
from revfrf.transport.codec import encode
from tests.views.overheard import ASKING, LEAVER, OWNED, STAYING, Run, compared, of_kind


def test_run_is_worth_watching(run: Run) -> None:
    kinds = {sent.plain["type"] for sent in run.watch.sent}
    matching = {kind for kind in registry.MESSAGES if kind.__module__ == alignment.__name__}
    elsewhere = {*matching, SetUpRequest, SetUpReply, AdmissionRequest}  # between machines
    elsewhere |= {BinsRequest, BinsReply}  # under the shares protocol
    assert kinds == {kind.__name__ for kind in {*registry.MESSAGES} - elsewhere}
    splits = run.before.splits
    assert {split.owner for split in splits.values()} == set(OWNED)
    assert len(run.watch.exponents) >= len(splits) + 5
    assert sum(len(sent.data) for sent in run.sent) > 100_000
    comparisons = sum(level.total() for asked in run.requests for level in compared(run, asked))
    assert len(run.watch.masks) == len(run.watch.read) == len(run.watch.path_bits) == comparisons > 1000
    masked = [bits for sent in of_kind(run, "SealedResults") for bits in sent.plain["masked"]]
    assert any(masked)
    assert not all(masked)
    trained = {int(code) for table in run.case.codes.values() for code in table.ravel()}
    for asked in run.requests:
        assert not trained & {value for row in range(asked.n_rows) for value in asked.row(row).values()}


def test_nothing_secret_travels_but_the_strong_shares_to_their_owners(run: Run) -> None:
    scanner = run.scanner
    seen = [
        (s.plain["type"], s.sender, s.recipient, what)
        for s in run.watch.sent
        for what in scanner.found(s.data)
    ]
    assert sorted(seen) == [
        ("KeyDeal", KGC, CC, "the new strong share of CC"),
        ("KeyDeal", KGC, CC, "the strong share of CC"),
        ("KeyDeal", KGC, CS, "the new strong share of CS"),
        ("KeyDeal", KGC, CS, "the strong share of CS"),
    ]


def test_scanner_finds_every_canary_wherever_it_is_put(run: Run) -> None:
    scanner = run.scanner
    kinds = Counter[str]()
    for known in scanner.patterns.values():
        for pattern, what in known.items():
            kinds[what] += 1
            if kinds[what] <= 40:
                data = encode(frf_test.TestReply(bits=b"\x07\x00" + pattern + b"\xff"))
                assert what in scanner.found(data)
    for party in OWNED:
        assert {f"a feature of {party}", f"the secret of {party}"} <= set(kinds)
    for name in (CS, CC, *OWNED, "requester", "clinic"):
        assert {f"the weak key of {name}", f"the signing seed of {name}"} <= set(kinds)
    for name in (CS, CC, *STAYING):
        assert f"the new weak key of {name}" in kinds
    for name in ASKING:
        assert f"a value of {name}'s request" in kinds
    assert {"labels", "a cut", "the forest's seed", "the strong share of CC"} <= set(kinds)
    assert {"a mask", "a masked difference", "a key that seals bits"} <= set(kinds)
    assert {"coins", "bits as CC reads them", "path bits"} <= set(kinds)
    assert ("weights" in kinds) == bool(run.case.n_classes)
    assert scanner.found(encode(frf_test.TestReply(bits=bytes(1000)))) == set()


def test_scanner_sees_a_participant_that_sends_its_column(run: Run) -> None:
    codes = run.case.codes["shop"][0]
    for leak in (codes.tobytes(), codes.byteswap().tobytes(), np.array(run.raw["shop"][0]).tobytes()):
        reply = LevelReply(round=0, ciphertexts=b"", signature=None, n_cuts=b"\1", bins=leak)
        assert "a feature of shop" in run.scanner.found(encode(reply))


def test_scanner_sees_labels_in_a_question(run: Run) -> None:
    labels = [int(y) for y in run.case.y]
    leak = bytes(labels) if run.case.n_classes else np.array(run.case.y).tobytes()
    request = frf_test.TestRequest(
        epoch=1, forest=bytes(16), table="t", nodes=NodeRows(trees=b"", paths=b"", sizes=b"", rows=leak)
    )
    assert run.scanner.found(encode(request)) == {"labels"}


def test_scanner_sees_bits_however_they_are_packed(run: Run) -> None:
    coins = [mask.coin for mask in run.watch.masks]
    for bits, what in ((coins, "coins"), (run.watch.path_bits, "path bits")):
        some = np.array(bits[5:])
        leaks = (
            some.tobytes(),
            np.packbits(some).tobytes(),
            np.packbits(some, bitorder="little").tobytes(),
            msgspec.msgpack.encode(some.tolist()),
        )
        for leak in leaks:
            assert what in run.scanner.found(encode(frf_test.TestReply(bits=leak)))


def test_scanner_sees_a_value_of_a_request_in_a_question_to_an_owner(run: Run) -> None:
    good = msgspec.msgpack.decode(of_kind(run, "ShareRequest")[0].data[1:], type=ShareRequest)
    for asked in run.requests:
        leak = asked.codes["telco"][:, 0].tobytes()
        bad = msgspec.structs.replace(good, ciphertext=good.ciphertext + leak)
        assert run.scanner.found(encode(bad)) == {f"a value of {asked.requester}'s request"}
    assert run.scanner.found(encode(good)) == set()


def test_only_kgc_and_the_coordinator_start_or_end_a_message(run: Run) -> None:
    """A star: participants, requesters and CC never hear of each other but through what KGC has signed."""
    enrolling = {"KeyDeal", "Enrolment", "EpochCertificate", "EpochAccepted", "Admission", "Done"}
    happening = {"RevocationRequest", "EventReport", "Certified"}
    for sent in run.watch.sent:
        assert {sent.sender, sent.recipient} & {CS, KGC}
        if KGC in (sent.sender, sent.recipient):
            assert sent.plain["type"] in enrolling | happening


def test_only_kgc_and_the_coordinator_ask_and_requesters_the_coordinator_and_who_leaves(run: Run) -> None:
    started = {(sender, kind) for sender, _, kind in run.watch.questions if sender not in (KGC, CS)}
    asking = {(name, kind) for name in ASKING for kind in ("ForestQuery", "PredictRequest")}
    assert started == asking | {(LEAVER, "RevocationRequest")}
    assert {recipient for sender, recipient, _ in run.watch.questions if sender in ASKING} == {CS}
    assert not any(sender == CC for sender, _, _ in run.watch.questions)


def test_key_centre_hears_nothing_of_requests_but_who_may_ask(run: Run) -> None:
    heard = Counter((sent.sender, sent.plain["type"]) for sent in run.sent if sent.recipient == KGC)
    for name in ("requester", "clinic"):
        assert (heard[name, "Enrolment"], heard[name, "Done"]) == (1, 1)
    assert (heard["bank", "Enrolment"], heard["bank", "EpochAccepted"], heard["bank", "Done"]) == (1, 1, 1)
    assert {kind for _, kind in heard} == {"Enrolment", "EpochAccepted", "Done", "EventReport"}
    assert heard[CS, "EventReport"] == 1  # of the forest's creation
