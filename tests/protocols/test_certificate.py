"""Revocation certificates: they hold for everybody who has KGC's key, and for nothing else than happened."""

import base64
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.embedded.federation import Federation
from revfrf.errors import CertificateError
from revfrf.messages.base import Done
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS, KGC
from revfrf.protocols import certificate as certificate_module
from revfrf.protocols.certificate import (
    FORMAT,
    MAX_SIZE,
    RevocationCertificate,
    shown_by,
    sign_report,
    sign_revocation,
)
from revfrf.protocols.common.epoch import certificate_digest, sign_certificate
from revfrf.protocols.common.identity import Identity
from revfrf.testing.federations import Case, ignore, later_keys, random_case, train
from revfrf.testing.refusals import refusal_kind, refused
from tests.protocols.frf_revoc.leaving import begin_epoch

CASE = random_case(71)
changed = msgspec.structs.replace


@dataclass(frozen=True)
class Left:
    """A revocation that has happened: its certificate, KGC's key, and the whole federation."""

    certificate: RevocationCertificate
    key: VerifyKey
    federation: Federation
    signing: SigningKey


def leave(federation: Federation, levels: dict[str, RevocationLevel]) -> RevocationCertificate:
    """Each of these leaves at a level of its own."""
    for number, (party, level) in enumerate(levels.items()):
        request = federation.participants[party].leave(level)
        federation.network.channel(party).call(KGC, request, Done)
        assert len(federation.kgc.state.leaving) == number + 1
    for party in levels:
        del federation.network.roles[party]
    second = max(levels.values()) == 2
    begin_epoch(federation, later_keys()[federation.kgc.current.epoch % 2] if second else None)
    for party in levels:
        del federation.participants[party]
    return federation.coordinator.revoke(ignore)


def case_of_four() -> Case:
    codes = CASE.codes | {"casino": CASE.codes["shop"][:, ::-1]}
    return Case(codes, CASE.y, CASE.n_classes)


KINDS: dict[str, list[dict[str, RevocationLevel]]] = {
    "level 1": [{"bank": 1}],
    "level 2": [{"bank": 2}],
    "two at level 1": [{"bank": 1, "shop": 1}],
    "two at level 2": [{"telco": 2, "bank": 2}],
    "two at different levels": [{"telco": 2, "bank": 1}],
    "second epoch, 1 after 1": [{"bank": 1}, {"shop": 1}],
    "second epoch, 2 after 1": [{"bank": 1}, {"shop": 2}],
    "second epoch, 1 after 2": [{"bank": 2}, {"shop": 1}],
    "third epoch, 2 after 2 after 1": [{"bank": 1}, {"shop": 2}, {"telco": 2}],
}


@lru_cache
def left(kind: str) -> Left:
    federation = train(case_of_four())
    for levels in KINDS[kind]:
        certificate = leave(federation, levels)
    assert federation.kgc.keys is not None
    signing = federation.kgc.keys.signing
    return Left(certificate, signing.verify_key, federation, signing)


@pytest.fixture(params=KINDS)
def any_left(request: pytest.FixtureRequest) -> Left:
    return left(request.param)


@pytest.fixture(params=["level 1", "two at level 2"])
def some_left(request: pytest.FixtureRequest) -> Left:
    return left(request.param)


def kind_of(certificate: RevocationCertificate, key: VerifyKey) -> str:
    """What `verify` finds wrong."""
    return refusal_kind(lambda: certificate.verify(key))


# -- certificates that hold -------------------------------------------------------------------------


def test_certificate_holds_and_says_what_happened(any_left: Left) -> None:
    certificate = any_left.certificate
    certificate.verify(any_left.key)
    before, after = certificate.epoch_before, certificate.epoch_after
    assert after.epoch == before.epoch + 1
    assert set(certificate.leavers) == set(after.revoked) - set(before.revoked)
    assert certificate.report.epoch == certificate_digest(after)
    assert certificate.report.digest_after == any_left.federation.coordinator.digest()
    assert (before.dtpkc != after.dtpkc) == after.erases == (certificate.level == 2)


def test_a_time_that_no_calendar_has_is_shown_all_the_same(any_left: Left) -> None:
    certificate = any_left.certificate
    asked = shown_by(certificate)["asked"]
    assert asked.keys() == {*certificate.leavers}
    assert all(time.endswith(" UTC") for time in asked.values())
    claimed = tuple(changed(request, time=2**53) for request in certificate.requests)
    asked = shown_by(changed(certificate, requests=claimed))["asked"]
    assert {*asked.values()} == {f"{2**53} seconds after 1970"}


def test_certificate_comes_back_from_a_file_and_needs_nothing_but_a_key(
    any_left: Left, tmp_path: Path
) -> None:
    for path in (tmp_path / "certificate.json", str(tmp_path / "again.json")):
        any_left.certificate.save(path)
        read = RevocationCertificate.load(path)
        assert read == any_left.certificate
        assert read.to_json() == Path(path).read_bytes()
        read.verify(VerifyKey(any_left.key.raw))


def test_file_is_json_that_people_can_read_and_may_be_written_in_another_way(any_left: Left) -> None:
    text = any_left.certificate.to_json().decode("utf-8")
    assert text.endswith("}\n")
    content = json.loads(text)
    assert content["format"] == FORMAT
    assert content["leavers"] == list(any_left.certificate.leavers)
    assert max(map(len, text.splitlines())) < 1000
    for other in (json.dumps(content), json.dumps(content, indent=8, sort_keys=True)):
        certificate = RevocationCertificate.from_json(other.encode())
        certificate.verify(any_left.key)
        assert certificate == any_left.certificate


def test_certificate_has_no_secrets(any_left: Left) -> None:
    data = any_left.certificate.to_json()
    numbers = [any_left.federation.coordinator.identity.share.value.reveal()]
    numbers += [role.identity.weak.sk.reveal() for role in any_left.federation.participants.values()]
    seeds = [number.to_bytes(-(-number.bit_length() // 8), "big") for number in numbers]
    seeds += [role.secret for role in any_left.federation.participants.values()]
    seeds += [any_left.signing.export(), any_left.federation.seed]
    for seed in seeds:
        assert base64.b64encode(seed) not in data
        assert seed.hex().encode() not in data


# -- every change is found --------------------------------------------------------------------------

Place = tuple[str | int, ...]


def leaves(content: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of a JSON text that is no list and no object."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            yield from leaves(value, (*place, key))
    else:
        yield place, content


def with_value(content: Any, place: Place, value: Any) -> bytes:
    copy = json.loads(json.dumps(content))
    inside = copy
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return json.dumps(copy).encode()


def holds(data: bytes, key: VerifyKey) -> bool:
    try:
        RevocationCertificate.from_json(data).verify(key)
    except CertificateError:
        return False
    return True


WALKED = ["level 1", "two at different levels", "third epoch, 2 after 2 after 1"]
TEXT = {"format", "type", "federation", "party", "name", "role"}
TEXT |= {"forest_protocol", "digest_before", "digest_after"}


def other_values(place: Place, value: Any) -> list[Any]:
    if isinstance(value, int):
        return [value + 1, value - 1, 3 - value, None, str(value), value + 0.5, 2**70, True]
    text = place[-1] in TEXT or "leavers" in place or "revoked" in place
    if text:
        return [value + "x", value[:-1], value.swapcase(), value[::-1] + "y", "", None, 1, "bank", "telco"]
    raw = base64.b64decode(value)
    others = [bytes(len(raw)), raw[::-1] + b"\0", raw + b"\0", raw[:-1], b"\0" + raw, b""]
    if raw:
        flipped = bytearray(raw)
        flipped[len(raw) // 2] ^= 1
        others.append(bytes(flipped))
    return [*(base64.b64encode(other).decode() for other in others), "?", None, 7]


@pytest.mark.parametrize("kind", WALKED)
def test_every_value_that_is_changed_is_found(kind: str) -> None:
    """All of them, one at a time, by everything that could stand in their place."""
    happened = left(kind)
    content = json.loads(happened.certificate.to_json())
    tried = 0
    for place, value in leaves(content):
        for other in other_values(place, value):
            if other == value and type(other) is type(value):
                continue
            data = with_value(content, place, other)
            assert not holds(data, happened.key), f"{place} may be {other!r} instead of {value!r}"
            tried += 1
    assert tried > 200


@pytest.mark.parametrize("kind", WALKED)
def test_every_part_that_is_left_out_added_or_moved_is_found(kind: str) -> None:
    happened = left(kind)
    content = json.loads(happened.certificate.to_json())

    def parts(inside: Any) -> Iterator[Any]:
        if isinstance(inside, dict | list):
            yield inside
            for value in inside.values() if isinstance(inside, dict) else inside:
                yield from parts(value)

    total = len(list(parts(content)))
    for number in range(total):
        for change in (dropped, doubled, reversed_):
            copy = json.loads(json.dumps(content))
            part = list(parts(copy))[number]
            if not change(part):
                continue
            assert not holds(json.dumps(copy).encode(), happened.key), f"{change.__name__}: {part!r}"


def dropped(part: Any) -> bool:
    if not part:
        return False
    if isinstance(part, dict):
        del part[next(key for key in part if key != "type")]  # a tag that only repeats what is expected
    else:
        del part[0]
    return True


def doubled(part: Any) -> bool:
    if isinstance(part, dict):
        part["more"] = 1
    else:
        part.append(part[0] if part else "bank")
    return True


def reversed_(part: Any) -> bool:
    if isinstance(part, dict) or len(part) < 2:
        return False
    part.reverse()
    return True


# -- each kind of tampering by its name -------------------------------------------------------------

Lies = Callable[[Left], Iterable[RevocationCertificate]]


def replaced(part: str, **fields: Any) -> Lies:
    """The first of these parts, or the only one, with each of these fields."""

    def lies(happened: Left) -> Iterator[RevocationCertificate]:
        found = getattr(happened.certificate, part)
        for name, value in fields.items():
            if isinstance(found, tuple):
                other = (changed(found[0], **{name: value}), *found[1:])
            else:
                other = changed(found, **{name: value})
            if other != found:
                yield changed(happened.certificate, **{part: other})

    return lies


def other(field: str, *values: Any) -> Lies:
    return lambda happened: [changed(happened.certificate, **{field: value}) for value in values]


def reported(happened: Left, identity: Identity, **fields: Any) -> RevocationCertificate:
    """With a report that this party has signed."""
    report = sign_report(identity, changed(happened.certificate.report, **fields))
    return changed(happened.certificate, report=report)


def request_of_who_stays(happened: Left) -> Iterator[RevocationCertificate]:
    """Signed, but by somebody who has not left."""
    certificate, staying = happened.certificate, happened.federation.participants["casino"].identity
    request = sign_revocation(staying, certificate.report.forest, certificate.level)
    assert request.epoch != certificate.epoch_before.epoch
    yield changed(certificate, requests=(request, *certificate.requests[1:]))


def fewer_and_more_requests(happened: Left) -> Iterator[RevocationCertificate]:
    requests = happened.certificate.requests
    for others in ((), requests[1:], (*requests, requests[0])):
        yield changed(happened.certificate, requests=others)


def swapped_epochs(happened: Left) -> Iterator[RevocationCertificate]:
    c = happened.certificate
    for before, after in product((c.epoch_before, c.epoch_after), repeat=2):
        if (before, after) != (c.epoch_before, c.epoch_after):
            yield changed(c, epoch_before=before, epoch_after=after)


def epochs_that_do_not_follow(happened: Left) -> Iterator[RevocationCertificate]:
    """KGC itself has signed them. `key_setup.test_epochs` has all ways in which they may not follow."""
    after = happened.certificate.epoch_after
    for fields in ({"previous": bytes(32)}, {"revoked": ()}, {"members": after.members[1:]}):
        signed = sign_certificate(happened.signing, changed(after, **fields))
        yield changed(happened.certificate, epoch_after=signed)


EPOCHS: dict[str, Any] = {
    "epoch": 9,
    "forest_protocol": "shares",
    "notes_key": bytes(32),
    "dtpkc": None,
    "previous": b"x",
    "signature": bytes(64),
}
FOUND: dict[str, tuple[str, Lies]] = {
    "a changed request": (
        "request",
        replaced("requests", party="nobody", time=0, nonce=bytes(16), epoch=2, signature=bytes(64)),
    ),
    "a request at another level": (
        "request",
        lambda happened: replaced("requests", level=3 - happened.certificate.requests[0].level)(happened),
    ),
    "a request of another": ("request", request_of_who_stays),
    "missing and doubled requests": ("leaver", fewer_and_more_requests),
    "other leavers": (
        "leaver",
        other("leavers", (), ("casino",), ("bank", "casino"), ("bank", "bank"), ("telco",), ("CS",)),
    ),
    "another level": ("leaver", lambda happened: other("level", 3 - happened.certificate.level)(happened)),
    "a changed report": (
        "report",
        replaced("report", digest_after="0" * 64, kept=10**6, epoch=bytes(32), signature=bytes(64)),
    ),
    "a report that CC has signed": (
        "report",
        lambda happened: [reported(happened, happened.federation.compute.identity)],
    ),
    "another report that CS has signed": (  # it may sign what it likes, but KGC has certified one report
        "signature",
        lambda happened: [
            reported(happened, happened.federation.coordinator.identity, digest_after="0" * 64)
        ],
    ),
    "a report of another forest": (  # the leavers' requests name the forest that they leave
        "request",
        lambda happened: [reported(happened, happened.federation.coordinator.identity, forest=bytes(16))],
    ),
    "a changed epoch before": ("epoch", replaced("epoch_before", **EPOCHS)),
    "a changed epoch after": ("epoch", replaced("epoch_after", **EPOCHS)),
    "an epoch of another federation": (
        "epoch",
        lambda happened: other("epoch_after", left("level 2").certificate.epoch_after)(happened),
    ),
    "swapped epochs": ("succession", swapped_epochs),
    "epochs that do not follow each other": ("succession", epochs_that_do_not_follow),
    "another signature": (
        "signature",
        lambda happened: other(
            "signature", b"", bytes(64), bytes(63), happened.certificate.epoch_after.signature
        )(happened),
    ),
    "another version": (
        "version",
        other("format", "", "revfrf revocation certificate v2", FORMAT + " ", FORMAT.upper()),
    ),
}


@pytest.mark.parametrize("lie", FOUND)
def test_lie_is_found_and_named(some_left: Left, lie: str) -> None:
    kind, lies = FOUND[lie]
    assert {kind_of(certificate, some_left.key) for certificate in lies(some_left)} == {kind}


def test_key_of_another_key_centre_verifies_nothing(any_left: Left) -> None:
    assert kind_of(any_left.certificate, SigningKey.generate().verify_key) == "epoch"


def test_receipts_that_are_missing_or_not_for_these_keys_are_found() -> None:
    happened, level_1 = left("level 2"), left("level 1")
    first, second, *others = happened.certificate.receipts
    for receipts in ((), (second, *others), (changed(first, erased=bytes(32)), second, *others)):
        assert kind_of(changed(happened.certificate, receipts=receipts), happened.key) == "receipt"
    assert kind_of(changed(level_1.certificate, receipts=(first,)), level_1.key) == "receipt"
    swapped = changed(happened.certificate, receipts=(second, first, *others))
    assert kind_of(swapped, happened.key) == "signature"


@pytest.mark.parametrize("number", [0, 2])
def test_epochs_with_no_coordinator_or_two_do_not_hold(number: int) -> None:
    """Even if KGC has signed them."""
    happened = left("level 1")
    before, after = happened.certificate.epoch_before, happened.certificate.epoch_after
    [cs] = [member for member in after.members if member.role == CS]
    servers = tuple(changed(cs, name=f"CS {i}") for i in range(number))
    others = [tuple(m for m in epoch.members if m.role != CS) for epoch in (before, after)]
    first = sign_certificate(happened.signing, changed(before, members=others[0] + servers))
    second = changed(after, members=others[1] + servers, previous=certificate_digest(first))
    second = sign_certificate(happened.signing, second)
    with pytest.raises(CertificateError):
        changed(happened.certificate, epoch_before=first, epoch_after=second).verify(happened.key)


def test_what_kgc_has_not_certified_is_found_even_if_every_part_is_signed() -> None:
    happened, first = left("two at level 2"), left("second epoch, 1 after 1")
    swapped = changed(happened.certificate, requests=happened.certificate.requests[::-1])
    assert kind_of(swapped, happened.key) == "signature"
    foreign = left("level 1").certificate.signature
    assert kind_of(changed(first.certificate, signature=foreign), first.key) == "signature"


# -- files ------------------------------------------------------------------------------------------


def load_kind(path: Path | str) -> str:
    with pytest.raises(CertificateError) as caught:
        RevocationCertificate.load(path)
    assert str(path) in str(caught.value)
    return caught.value.kind


def test_file_that_cannot_be_read_or_written_is_named(some_left: Left, tmp_path: Path) -> None:
    """`io.test_files` has all reasons."""
    assert load_kind(tmp_path / "nothing.json") == "missing"
    with pytest.raises(CertificateError) as caught:
        some_left.certificate.save(tmp_path)
    assert caught.value.kind == "io"


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "empty object": b"{}",
    "text": b"hello",
    "zeros": bytes(1000),
    "not UTF-8": b'{"format": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "deep object": b'{"format":' * 50_000,
    "random": random.Random(0).randbytes(5000),
    "long number": b'{"level": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_no_certificate(name: str, tmp_path: Path) -> None:
    path = tmp_path / "garbage.json"
    path.write_bytes(GARBAGE[name])
    assert load_kind(path) == "malformed"


def test_truncated_or_extended_certificate_is_none(some_left: Left) -> None:
    data = some_left.certificate.to_json().rstrip()
    cut = [data[:end] for end in range(0, len(data), 7)]
    for other in (*cut, data + b"x", data + b"{}", data + data):
        with refused("malformed"):
            RevocationCertificate.from_json(other)


def test_huge_file_is_not_read_to_its_end(
    some_left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_SIZE <= 2**28
    monkeypatch.setattr(certificate_module, "MAX_SIZE", 10_000)
    path = tmp_path / "huge.json"
    path.write_bytes(some_left.certificate.to_json().rstrip()[:-1] + b" " * 10_000 + b"}")
    assert load_kind(path) == "too-large"


def test_first_fault_that_is_told_names_the_party() -> None:
    happened = left("two at level 2")
    first, *others = happened.certificate.requests
    lie = changed(happened.certificate, requests=(changed(first, time=0), *others))
    with pytest.raises(CertificateError, match=repr(first.party)):
        lie.verify(happened.key)
    receipts = happened.certificate.receipts
    assert {receipt.party for receipt in receipts} == {CS, CC, "shop", "casino"}
    lie = changed(happened.certificate, receipts=(changed(receipts[0], erased=bytes(32)), *receipts[1:]))
    with pytest.raises(CertificateError, match=repr(receipts[0].party)):
        lie.verify(happened.key)
