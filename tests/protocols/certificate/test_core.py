"""The core of an event certificate holds for all who have KGC's key, and for nothing else than happened."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import msgspec
import pytest

from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import CertificateError
from revfrf.messages.bins import FeatureLine
from revfrf.names import CS
from revfrf.protocols import bins
from revfrf.protocols.certificate import FORMAT, EventCertificate, certify, shown_by
from revfrf.protocols.common.epoch import certificate_digest, sign_certificate
from revfrf.protocols.common.signed import sign
from revfrf.protocols.events import salted_digest
from tests.protocols.happened import (
    KINDS,
    OF_PAPER,
    Happened,
    changed,
    completed,
    happened,
    kind_of,
    waiting,
)


@pytest.fixture(params=[*KINDS, *OF_PAPER])
def any_event(request: pytest.FixtureRequest) -> Happened:
    return happened(request.param)


LEAVING = ["level 1", "two at level 2", "paper, level 1"]
some_leaving = pytest.mark.parametrize("kind", LEAVING)

# -- certificates that hold -------------------------------------------------------------------------


def test_certificate_holds_and_says_what_happened(any_event: Happened) -> None:
    certificate, core, cs = any_event.certificate, any_event.core, any_event.federation.coordinator
    certificate.verify(any_event.key)
    before, after = core.epoch_before, core.epoch_after
    assert core.report.epoch == certificate_digest(after)
    assert certificate.digest_after == salted_digest(cs.record.salt, cs.digest())
    assert certificate.n_nodes == cs.side.n_nodes
    assert not certificate.unsigned
    if before is None:
        assert (core.kind, core.requests, certificate.level, core.asked_at) == ("creation", (), None, None)
        return
    assert (core.kind, after.epoch) == ("leaving", before.epoch + 1)
    assert set(certificate.leavers) == set(after.revoked) - set(before.revoked)
    assert after.erases == (certificate.level == 2)
    assert core.asked_at is not None
    assert max(request.time for request in core.requests) <= core.asked_at <= core.certified_at


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_named_before_and_after_and_only_the_leavers_columns_go(kind: str) -> None:
    report, leavers = happened(kind).core.report, happened(kind).certificate.leavers
    before, after = report.inputs_before, report.inputs_after
    lines = happened(kind).federation.coordinator.store.bins.values()
    assert {line.feature for line in after.features} == {held.line.feature for held in lines}
    if before is not None:
        gone = {line.feature.partition("/")[0] for line in set(before.features) - set(after.features)}
        assert gone == set(leavers)
        assert set(after.features) < set(before.features)


def test_certificates_follow_one_another_and_keep_seed_and_targets() -> None:
    chain = happened("third epoch, 2 after 2 after 1").federation.coordinator.certificates
    assert len(chain) == 4
    for before, after in pairwise(chain):
        old, new = before.core.report, after.core.report
        assert (new.inputs_before, new.digest_before) == (old.inputs_after, old.digest_after)
        columns = new.inputs_after.features
        assert new.inputs_after == changed(old.inputs_after, features=columns)
        assert set(columns) < set(old.inputs_after.features)


def test_same_forest_has_another_digest_in_every_certificate() -> None:
    first, second = (happened(kind).core.report for kind in ("level 1", "level 2"))
    digests = {happened(kind).federation.coordinator.digest() for kind in ("level 1", "level 2")}
    assert len(digests) == 1
    assert first.digest_after != second.digest_after
    assert first.inputs_after.seed != second.inputs_after.seed


def test_certificate_has_no_secrets(any_event: Happened) -> None:
    data, federation = any_event.certificate.to_json(), any_event.federation
    secrets = [any_event.signing.export(), federation.seed, federation.coordinator.record.salt]
    secrets += [role.secret for role in federation.participants.values()]
    for role in federation.with_policies.values():
        if role.identity.keys is not None:
            sk = role.identity.weak.sk.reveal()
            secrets.append(sk.to_bytes(-(-sk.bit_length() // 8), "big"))
    secrets += federation.coordinator.store.used_salts.values()
    secrets += [bytes.fromhex(federation.coordinator.digest())]
    for secret in secrets:
        assert base64.b64encode(secret) not in data
        assert secret.hex().encode() not in data


@some_leaving
def test_a_time_that_no_calendar_has_is_shown_all_the_same(kind: str) -> None:
    event = happened(kind)
    asked = shown_by(event.certificate)["asked"]
    assert asked.keys() == {*event.certificate.leavers}
    assert all(time.endswith(" UTC") for time in asked.values())
    claimed = tuple(changed(request, time=2**53) for request in event.core.requests)
    after = changed(event.core.epoch_after, requests=claimed)
    assert {*shown_by(event.with_core(epoch_after=after))["asked"].values()} == {
        f"{2**53} seconds after 1970"
    }


def test_what_is_shown_of_a_creation_has_no_leavers() -> None:
    shown = shown_by(happened("creation").certificate)
    assert (shown["event"], shown["epoch"], shown["waits_for"]) == ("creation", 1, [])
    assert shown["receipts"] == {"used cuts": ["bank", "casino", "shop", "telco"]}
    assert not {"leavers", "level", "asked", "received"} & shown.keys()


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


def written(content: Any) -> bytes:
    """As certificates are, so that it is not the form that is refused."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def with_value(content: Any, place: Place, value: Any) -> bytes:
    copy = json.loads(json.dumps(content))
    inside = copy
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return written(copy)


def holds(data: bytes, key: VerifyKey) -> bool:
    try:
        EventCertificate.from_json(data).verify(key)
    except CertificateError:
        return False
    return True


WALKED: dict[str, Callable[[], Happened]] = {
    "creation": lambda: happened("creation"),
    "two at different levels": lambda: happened("two at different levels"),
    "completed": completed,
    "paper": lambda: happened("paper, level 1"),
}
TEXT = {"format", "type", "federation", "party", "name", "role", "kind", "forest_protocol", "feature"}


def other_values(place: Place, value: Any) -> list[Any]:
    if value is None or isinstance(value, bool | int):
        number = 0 if value is None else int(value)
        return [number + 1, number - 1, 3 - number, not number, None, str(number), number + 0.5, 2**70]
    text = place[-1] in TEXT or {"revoked", "waits_for"} & set(place)
    if text:
        return [value + "x", value[:-1], value.swapcase(), "", None, 1, "bank", "telco", "leaving"]
    raw = base64.b64decode(value)
    others = [bytes(len(raw)), raw + b"\0", raw[:-1], b""]
    if raw:
        flipped = bytearray(raw)
        flipped[len(raw) // 2] ^= 1
        others.append(bytes(flipped))
    return [*(base64.b64encode(other).decode() for other in others), "?", None]


@pytest.mark.parametrize("kind", WALKED)
def test_every_value_that_is_changed_is_found(kind: str) -> None:
    """One at a time. What else could stand there is tried in turn."""
    event = WALKED[kind]()
    content = json.loads(event.certificate.to_json())
    assert holds(written(content), event.key)
    tried = 0
    for number, (place, value) in enumerate(leaves(content)):
        kinds = (type(value), bool)
        others = [o for o in other_values(place, value) if o != value or type(o) not in kinds]
        for turn in (number, number + len(others) // 2):
            other = others[turn % len(others)]
            assert not holds(with_value(content, place, other), event.key), f"{place} may be {other!r}"
            tried += 1
    assert tried > 150


def parts(inside: Any) -> Iterator[Any]:
    """Every list and object in a JSON text."""
    if isinstance(inside, dict | list):
        yield inside
        for value in inside.values() if isinstance(inside, dict) else inside:
            yield from parts(value)


@pytest.mark.parametrize("kind", WALKED)
def test_every_part_that_is_left_out_added_or_moved_is_found(kind: str) -> None:
    """But for receipts, which may be missing, and come in any order."""
    event = WALKED[kind]()
    content = json.loads(event.certificate.to_json())
    for number in range(len(list(parts(content)))):
        for change in (dropped, doubled, reversed_):
            copy = json.loads(json.dumps(content))
            part = list(parts(copy))[number]
            if change(part) and not (part is copy["receipts"] and change is not doubled):
                assert not holds(written(copy), event.key), f"{change.__name__}: {part!r}"


def dropped(part: Any) -> bool:
    if not part:
        return False
    if isinstance(part, dict):
        del part[next(iter(part))]
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

Lies = Callable[[Happened], Iterable[EventCertificate]]


def of_core(**values: Sequence[Any]) -> Lies:
    """The core with each of these values of its fields."""
    return lambda event: [
        event.with_core(**{name: value}) for name, found in values.items() for value in found
    ]


def replaced(part: str, **fields: Any) -> Lies:
    """The first of these parts, or the only one, with each of these fields."""

    def lies(event: Happened) -> Iterator[EventCertificate]:
        found = getattr(event.core, part)
        for name, value in fields.items():
            if isinstance(found, tuple):
                other = (changed(found[0], **{name: value}), *found[1:])
            else:
                other = changed(found, **{name: value})
            assert other != found
            yield event.with_core(**{part: other})

    return lies


def swapped_epochs(event: Happened) -> Iterator[EventCertificate]:
    core = event.core
    for before, after in product((core.epoch_before, core.epoch_after), repeat=2):
        if (before, after) != (core.epoch_before, core.epoch_after):
            yield event.with_core(epoch_before=before, epoch_after=after)


def epochs_that_do_not_follow(event: Happened) -> Iterator[EventCertificate]:
    """KGC itself has signed them. `key_setup.test_epochs` has all ways in which they may not follow."""
    after = event.core.epoch_after
    request, *others = after.requests
    wrong: list[dict[str, Any]] = [
        {"previous": bytes(32)},
        {"revoked": ()},
        {"members": after.members[1:]},
        {"erases": not after.erases},
        {"requests": ()},
        {"requests": (*after.requests, request)},
        {"requests": (changed(request, level=3 - request.level), *others)},
        {"requests": (changed(request, time=0), *others)},
    ]
    for fields in wrong:
        yield event.with_core(epoch_after=sign_certificate(event.signing, changed(after, **fields)))


EPOCHS: dict[str, Any] = {
    "federation": "x",
    "epoch": 9,
    "notes_key": bytes(32),
    "members": (),
    "revoked": ("nobody",),
    "previous": b"x",
    "signature": bytes(64),
}
FOUND: dict[str, tuple[str, Lies]] = {
    "another version": (
        "version",
        of_core(format=["", "revfrf event certificate v2", FORMAT + " ", FORMAT.upper()]),
    ),
    "a leaving that is called a creation": ("request", of_core(kind=["creation"])),
    "a leaving with no epoch before": ("request", of_core(epoch_before=[None])),
    "a request that came at no time": ("request", of_core(asked_at=[None])),
    "a changed epoch before": ("epoch", replaced("epoch_before", **EPOCHS)),
    "a changed epoch after": ("epoch", replaced("epoch_after", **EPOCHS, requests=())),
    "swapped epochs": ("succession", swapped_epochs),
    "epochs that do not follow each other": ("succession", epochs_that_do_not_follow),
    "a changed report": (
        "report",
        replaced(
            "report",
            digest_before=bytes(32),
            digest_after=bytes(32),
            inputs_before=None,
            destroyed=7**7,
            rebuilt=7**7,
            kept=7**7,
            epoch=bytes(32),
            waits_for=("casino",),
            signature=bytes(64),
        ),
    ),
    "a report that CC has signed": ("report", lambda event: [event.with_core(report=event.reported("CC"))]),
    "a report of another forest": (  # the leavers' requests name the forest that they leave
        "request",
        lambda event: [event.with_core(report=event.reported(forest=bytes(16)))],
    ),
    "another report that CS has signed": (  # it may sign what it likes, but KGC has certified one report
        "signature",
        lambda event: [event.with_core(report=event.reported(digest_after=bytes(32)))],
    ),
    "other times": ("signature", of_core(asked_at=[0, 2**53], certified_at=[0, 2**53])),
    "another signature": (
        "signature",
        lambda event: of_core(signature=[bytes(64), event.core.epoch_after.signature])(event),
    ),
}


@some_leaving
@pytest.mark.parametrize("lie", FOUND)
def test_lie_is_found_and_named(kind: str, lie: str) -> None:
    expected, lies = FOUND[lie]
    event = happened(kind)
    assert {kind_of(certificate, event.key) for certificate in lies(event)} == {expected}


def test_creation_that_somebody_asked_for_is_found() -> None:
    event = happened("creation")
    for fields in ({"kind": "leaving"}, {"asked_at": 1}, {"kind": "leaving", "asked_at": 1}):
        assert kind_of(event.with_core(**fields), event.key) == "request"
    before = event.core.epoch_after
    assert kind_of(event.with_core(epoch_before=before), event.key) == "request"


@pytest.mark.parametrize("kind", [*KINDS, *OF_PAPER])
def test_key_of_another_key_centre_verifies_nothing(kind: str) -> None:
    assert kind_of(happened(kind).certificate, SigningKey.generate().verify_key) == "epoch"


# -- what KGC does not certify ----------------------------------------------------------------------


def signed_by(event: Happened, party: str, line: FeatureLine, **fields: Any) -> FeatureLine:
    """A line of other content, which this party has signed."""
    identity = event.federation.participants[party].identity
    return sign(
        identity.signing_key,
        bins._LINE,
        changed(line, **fields),
        identity.federation,
        event.core.report.forest,
    )


def inputs(event: Happened, **fields: Any) -> dict[str, Any]:
    """What is changed about a report with these changes of its inputs."""
    return {"inputs_after": changed(event.core.report.inputs_after, **fields)}


def with_line(event: Happened, *lines: FeatureLine) -> dict[str, Any]:
    """The report's inputs with other lines in place of the first."""
    return inputs(event, features=(*lines, *event.core.report.inputs_after.features[1:]))


def first_line(event: Happened) -> FeatureLine:
    return event.core.report.inputs_after.features[0]


Changes = Callable[[Happened], dict[str, Any]]
LIES_OF_CS: dict[str, tuple[str, Changes]] = {
    "other rules": ("inputs", lambda event: inputs(event, rules=bytes(32))),
    "other rows": ("inputs", lambda event: inputs(event, rows=bytes(32))),
    "another number of rows": ("inputs", lambda event: inputs(event, n_rows=7)),
    "a column less": ("inputs", with_line),
    "a column twice": ("inputs", lambda event: with_line(event, first_line(event), first_line(event))),
    "no columns": ("inputs", lambda event: inputs(event, features=())),
    "columns in another order": (
        "inputs",
        lambda event: inputs(event, features=event.core.report.inputs_after.features[::-1]),
    ),
    "a leaver's column": (
        "inputs",
        lambda event: inputs(event, features=event.core.report.inputs_before.features),  # type: ignore[union-attr]
    ),
    "a column with other bins": (
        "inputs",
        lambda event: with_line(event, changed(first_line(event), bins=bytes(32))),
    ),
    "a column that another has signed": (
        "inputs",
        lambda event: with_line(event, signed_by(event, "shop", first_line(event))),
    ),
    "a column that its owner has signed since": (
        "inputs",
        lambda event: with_line(event, signed_by(event, "casino", first_line(event), generation=9)),
    ),
    "a column of other rows": (
        "inputs",
        lambda event: with_line(event, signed_by(event, "casino", first_line(event), rows=bytes(32))),
    ),
    "no inputs before, and a digest": ("inputs", lambda _: {"inputs_before": None}),
    "inputs before, and no digest": ("inputs", lambda _: {"digest_before": None}),
    "somebody to wait for who has left": ("report", lambda _: {"waits_for": ("bank",)}),
    "a server to wait for": ("report", lambda _: {"waits_for": ("CC",)}),
    "another epoch": ("report", lambda _: {"epoch": bytes(32)}),
    "another forest": ("request", lambda _: {"forest": bytes(16)}),
}


@pytest.mark.parametrize("lie", LIES_OF_CS)
def test_kgc_certifies_no_report_with(lie: str) -> None:
    expected, changes = LIES_OF_CS[lie]
    event = happened("level 1")
    report = event.reported(**changes(event))
    core = event.core
    with pytest.raises(CertificateError) as caught:
        certify(event.signing, core.epoch_before, core.epoch_after, report, core.asked_at)
    assert caught.value.kind == expected
    assert kind_of(event.certified(report=report), event.key) == expected  # nor would it help CS if it did


def test_kgc_certifies_columns_that_nobody_has_signed_under_the_paper_protocol_alone() -> None:
    event, shares = happened("paper, level 1"), happened("level 1")
    lines = shares.core.report.inputs_after.features
    assert not event.core.report.inputs_after.features
    report = event.reported(**inputs(event, features=lines))
    assert kind_of(event.certified(report=report), event.key) == "inputs"


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("kind", ["creation", "level 1"])
def test_epochs_with_no_coordinator_or_two_do_not_hold(kind: str, number: int) -> None:
    """Even if KGC has signed them."""
    event = happened(kind)
    before, after = event.core.epoch_before, event.core.epoch_after
    [cs] = [member for member in after.members if member.role == CS]
    servers = tuple(changed(cs, name=f"CS {i}") for i in range(number))

    def of(epoch: Any, **fields: Any) -> Any:
        others = tuple(member for member in epoch.members if member.role != CS)
        return sign_certificate(event.signing, changed(epoch, members=others + servers, **fields))

    first = None if before is None else of(before)
    second = of(after) if first is None else of(after, previous=certificate_digest(first))
    report = event.reported(epoch=certificate_digest(second))
    with pytest.raises(CertificateError):
        event.with_core(epoch_before=first, epoch_after=second, report=report).verify(event.key)


def test_forest_that_waits_says_for_whom() -> None:
    event = waiting()
    event.certificate.verify(event.key)
    assert event.certificate.waits_for == ("telco",)
    assert completed().certificate.waits_for == ()
