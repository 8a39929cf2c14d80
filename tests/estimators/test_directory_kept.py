"""Certificates, policies, requesters, quotas and answered requests are kept when a forest is opened again."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from revfrf import RevocableForestClassifier
from revfrf.errors import AbsentError, RefusedError, RejectedError, UsageError
from revfrf.messages.base import Done, Message
from revfrf.messages.frf_predict import MaskedComparisons, PredictRequest, ShareRequest
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import Admission
from revfrf.names import CC, CS
from revfrf.protocols.common.request import RequestPolicy
from revfrf.testing.recorders import recording
from revfrf.testing.refusals import refused
from revfrf.transport.memory import MemoryChannel
from tests.estimators.directories import LEVELS, ROWS, X, Y, again, in_memory, opened, same_answers
from tests.estimators.toys import certified
from tests.quick import quick

pytestmark = pytest.mark.usefixtures("prepared_moduli")


@pytest.mark.parametrize(("first", "second"), quick(product(LEVELS, LEVELS), [(1, 2)]))
def test_participants_leave_opened_forests_as_they_leave_others(
    directory: Path, first: RevocationLevel, second: RevocationLevel
) -> None:
    """One leaves, then another after the forest was opened again; the certificates are kept and hold."""
    memory, model = in_memory(), opened(directory)
    certified_digests = [certified(model)]
    for party, level in (("bank", first), ("shop", second)):
        certificate = model.revoke(party, level)
        memory.revoke(party, level)
        assert certificate.core.report.digest_before == certified_digests[-1]
        same_answers(model, memory)
        model = again(model)
        same_answers(model, memory)
        assert model.certificates_[-1] == certificate
        certified_digests.append(certified(model))
        assert not list(directory.glob(f"*-{party}-*"))
    assert [certificate.leavers for certificate in model.certificates_] == [(), ("bank",), ("shop",)]
    for certificate, digest in zip(model.certificates_, certified_digests, strict=True):
        certificate.verify(model.kgc_key_)
        assert certificate.digest_after == digest
    assert model.federation_.coordinator.certificates == tuple(model.certificates_)
    with pytest.raises(UsageError, match="the last participant cannot leave"):
        model.revoke("telco")


def test_preview_of_leaving_is_the_same_when_opened(directory: Path) -> None:
    model, memory = opened(directory), in_memory()
    preview, expected = (m.revocation_preview("telco", X, Y) for m in (model, memory))
    for name in ("nodes", "nodes_lost", "trees_touched", "digest_after", "score_now", "score_without"):
        assert getattr(preview, name) == getattr(expected, name)


def test_opened_forest_is_saved_and_loaded_like_others(directory: Path, tmp_path: Path) -> None:
    model = opened(directory)
    model.save(tmp_path / "file", private_keys=True)
    loaded: Any = RevocableForestClassifier.load(tmp_path / "file")
    same_answers(loaded, model)
    assert loaded.directory is None


def test_policies_are_kept(directory: Path) -> None:
    policies = {
        "bank": RequestPolicy(refuses=["insurer"], max_rows=7),
        CC: RequestPolicy(accepts=["insurer", "requester"]),
        CS: RequestPolicy(max_rows=100),
    }
    model = opened(directory)
    for party, policy in policies.items():
        model.set_policy(party, RequestPolicy(max_rows=0))
        model.set_policy(party, policy)
    for level in (None, 1, 2):
        if level is not None:
            model.revoke("shop" if level == 1 else "telco", level)
        model = again(model)
        for name, role in model.federation_.with_policies.items():
            assert role.policy == policies.get(name, RequestPolicy())
    model.enrol_requester("insurer")
    with refused(by="bank"):
        model.predict_encrypted(ROWS, "insurer")


def keys_of(model: Any) -> dict[str, tuple[object, bytes]]:
    """The public keys of requesters: their own, and those that KGC will know again."""
    kgc, requesters = model.federation_.kgc.state.requesters, model.federation_.requesters
    assert all(kgc[name] == r.identity.signing_key.verify_key.raw for name, r in requesters.items())
    return {name: (r.identity.weak.public, kgc[name]) for name, r in requesters.items()}


def test_requesters_are_kept(directory: Path) -> None:
    model, memory = opened(directory), in_memory()
    model.enrol_requester("insurer").enrol_requester("telco")
    model.predict_encrypted(ROWS)
    keys = keys_of(model)
    for _ in range(2):
        model = again(model)
        for name in ("insurer", "telco", "bank", None):
            assert model.predict_encrypted(ROWS, name).tobytes() == memory.predict(ROWS).tobytes()
        assert keys.items() <= keys_of(model).items()
        for name in ("insurer", "telco"):
            with pytest.raises(UsageError, match="is a requester already"):
                model.enrol_requester(name)
    for level in LEVELS:
        leaver = "shop" if level == 1 else "bank"
        model.revoke(leaver, level)
        memory.revoke(leaver, level)
        model = again(model)
        for name in ("insurer", "telco", None):
            assert model.predict_encrypted(ROWS, name).tobytes() == memory.predict(ROWS).tobytes()
        with pytest.raises(UsageError, match="is not a requester"):
            model.predict_encrypted(ROWS, leaver)


@pytest.mark.parametrize("reopened", [False, True])
def test_requester_whose_admission_was_lost_may_enrol_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch, reopened: bool
) -> None:
    model, call = opened(directory), MemoryChannel.call

    def losing(channel: MemoryChannel, recipient: str, request: Message, reply_type: Any) -> Any:
        if isinstance(request, Admission):
            raise AbsentError(recipient, "is gone")
        return call(channel, recipient, request, reply_type)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryChannel, "call", losing)
        for call_of, value in ((model.enrol_requester, "insurer"), (model.predict_encrypted, ROWS)):
            with pytest.raises(AbsentError):
                call_of(value)
    assert "insurer" not in model.federation_.network.roles
    assert not model.federation_.kgc.state.admitted
    assert model.leakage_.keys() >= model.parties_.keys()
    model = again(model) if reopened else model
    model.enrol_requester("insurer")
    for requester in ("insurer", None):
        assert model.predict_encrypted(ROWS, requester).tobytes() == model.predict(ROWS).tobytes()


@pytest.mark.parametrize("party", quick(["bank", CS, CC], ["bank"]))
def test_quota_is_not_reset_by_opening(directory: Path, party: str) -> None:
    """Everybody is asked about every row, for everybody has a split in every tree's way."""
    model = opened(directory)
    model.enrol_requester("insurer")
    model.set_policy(party, RequestPolicy(max_rows=8))
    model.predict_encrypted(X[:5], "insurer")
    for _ in range(2):
        model = again(model)
        with refused(by=party):
            model.predict_encrypted(X[:4], "insurer")
    model = again(model)
    assert len(model.predict_encrypted(X[5:8], "insurer")) == 3
    model = again(model)
    for n_rows in (1, 2):
        with pytest.raises(RefusedError):
            model.predict_encrypted(X[:n_rows], "insurer")
    assert len(model.predict_encrypted(X[:8], "telco")) == 8  # its quota is its own
    model.set_policy(party, RequestPolicy(max_rows=9))
    model = again(model)
    assert len(model.predict_encrypted(X[:1], "insurer")) == 1


def test_quota_begins_anew_with_an_epoch_and_not_with_its_opening(directory: Path) -> None:
    model = opened(directory)
    model.set_policy("telco", RequestPolicy(max_rows=len(ROWS)))
    for epoch, leaver in enumerate((None, "bank", "shop")):
        if leaver is not None:
            model.revoke(leaver, epoch)
            model = again(model)
        model.predict_encrypted(ROWS)
        model = again(model)
        with pytest.raises(RefusedError):
            model.predict_encrypted(ROWS[:1])


@pytest.mark.parametrize("kind", [PredictRequest, MaskedComparisons, ShareRequest])
def test_request_from_before_is_not_answered_after_opening(directory: Path, kind: type[Message]) -> None:
    """Whoever has kept the messages sends them again: to CS, to CC, to the owners."""
    model = opened(directory)
    with recording() as sent:
        model.predict_encrypted(ROWS)
    kept = [each for each in sent if isinstance(each.message, kind)]
    assert kept
    for _ in range(2):
        for each in kept:
            with pytest.raises(RefusedError) as caught:
                model.federation_.network.channel(each.sender).call(each.recipient, each.message, Done)
            assert isinstance(caught.value.__cause__, RejectedError)
            assert caught.value.__cause__.kind == "replay"
        model = again(model)
