"""Tokens let one party join and no other; damaged ones are told from wrong ones, and no key is shown."""

import random
from base64 import urlsafe_b64encode
from functools import partial
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError, PassportError, UsageError
from revfrf.transport.grpc import server_credentials
from revfrf.transport.join_token import (
    MAX_TOKEN,
    Authority,
    TlsIdentity,
    Token,
    _checksum,
    _scalar,
    _unwrapped,
    join,
)
from revfrf.transport.passport import read_passport
from tests.conftest import all_that_an_error_shows
from tests.transport.parties import ADDRESS, BANK, DAY, NOW, VERIFY_KEY, authority, joined, new_key, token_for

TOKEN = token_for(BANK, serial=3)
TEXT = TOKEN.text()


def refused(text: str, **rest: Any) -> str:
    with pytest.raises(UsageError) as caught:
        Token.parse(text, **rest)
    return caught.value.kind


def wrapped(body: bytes) -> str:
    """A token that says this, with the right checksum."""
    return "revfrf1-" + urlsafe_b64encode(_checksum(body) + body).decode().rstrip("=")


def test_a_token_comes_back_from_its_text() -> None:
    found = Token.parse(TEXT)
    assert (found.who, found.serial, found.federation, found.address) == (BANK, 3, "breast cancer", ADDRESS)
    assert found.kgc_verify_key == VERIFY_KEY
    assert found.ca_pem == authority().certificate_pem
    assert found.text() == TEXT
    assert TEXT.isprintable()
    assert " " not in TEXT


def test_mail_may_break_a_token_into_lines() -> None:
    lines = [TEXT[at : at + 70] for at in range(0, len(TEXT), 70)]
    assert Token.parse("  " + "\r\n ".join(lines) + "\n").who == BANK


@pytest.mark.parametrize(
    "text", ["", "hello", TEXT[1:], "revfrf-" + TEXT, "x" * 10**6, TEXT + "A" * MAX_TOKEN]
)
def test_what_is_no_token_is_called_so(text: str) -> None:
    assert refused(text) == "not-a-token"


def test_a_token_of_another_version_is_called_so() -> None:
    assert refused(TEXT.replace("revfrf1-", "revfrf2-")) == "version"


@given(st.integers(0, 2**32))
def test_a_damaged_token_is_called_so(seed: int) -> None:
    rng = random.Random(seed)
    at, body = rng.randrange(8, len(TEXT)), TEXT[8:]
    other = rng.choice([character for character in "azAZ09_-" if character != TEXT[at]])
    assert refused(TEXT[:at]) == "damaged"
    assert refused(TEXT[:at] + TEXT[at + 1 :] + "A") in ("damaged", "not-a-token")
    assert refused(TEXT + body[:at]) == "damaged"
    if at < len(TEXT) - 1:  # the last character has bits that mean nothing
        assert refused(TEXT[:at] + other + TEXT[at + 1 :]) == "damaged"


def test_an_expired_token_says_when_and_whose() -> None:
    old = token_for(BANK, days=2, ago=10 * DAY).text()
    assert refused(old) == "expired"
    assert refused(TEXT, now=NOW - DAY) == "expired"
    with pytest.raises(
        UsageError, match=rf"participant 'bank'.*expired on {NOW - 8 * DAY:%Y-%m-%d}.*ask KGC"
    ):
        Token.parse(old)
    with pytest.raises(PassportError) as caught:
        joined(Token.parse(old, now=NOW - 9 * DAY))
    assert caught.value.kind == "expired"
    assert Token.parse(old, now=NOW - 9 * DAY).who == BANK


def token_of(**changes: Any) -> str:
    """The token, changed and with the right checksum."""
    body = msgspec.msgpack.decode(_unwrapped(TEXT[8:]))
    return wrapped(msgspec.msgpack.encode({**body, **changes}))


def test_an_invitation_of_another_authority_is_refused() -> None:
    foreign = Authority.new("breast cancer")
    for other in (foreign._certificate, TOKEN._invitation):
        assert refused(token_of(authority=other.public_bytes(Encoding.DER))) == "authority"
    other_invitation = foreign.invite(BANK, ADDRESS, VERIFY_KEY, 1)._invitation
    assert refused(token_of(invitation=other_invitation.public_bytes(Encoding.DER))) == "authority"


@pytest.mark.parametrize(
    "changes",
    [
        {"key": _scalar(new_key())},
        {"key": bytes(32)},
        {"key": b""},
        {"key": b"\xff" * 32},
        {"address": "no port"},
        {"kgc_verify_key": bytes(32)},
        {"invitation": b"0"},
        {"more": 1},
    ],
    ids=["another key", "key of zeros", "no key", "key too large", "address", "KGC", "invitation", "more"],
)
def test_a_token_that_nobody_issues_is_refused(changes: dict[str, Any]) -> None:
    assert Token.parse(token_of()).who == BANK
    assert refused(token_of(**changes)) == "authority"


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":7700", "host:0", "host:65536", "a b:1", "http://host:1", "::1:7700"]
)
def test_an_invitation_needs_an_address(address: str) -> None:
    with pytest.raises(UsageError, match="host and port"):
        authority().invite(BANK, address, VERIFY_KEY, 1)


def test_addresses_may_be_numbers() -> None:
    for address in ("10.0.0.1:7700", "[::1]:7700", "localhost:1"):
        assert authority().invite(BANK, address, VERIFY_KEY, 1).address == address


def test_invitations_are_counted_and_dated() -> None:
    for serial, days in ((0, 1), (-1, 1), (2**63, 1), (1, 0), (1, 10**9)):
        with pytest.raises(UsageError, match=r"serial|days"):
            authority().invite(BANK, ADDRESS, VERIFY_KEY, serial, days)
    with pytest.raises(UsageError, match="valid from"):
        authority().invite(BANK, ADDRESS, VERIFY_KEY, 1, now=NOW + 4000 * DAY)
    brief = Authority.new("f", days=1)
    assert joined(brief.invite(BANK, ADDRESS, VERIFY_KEY, 1)).passport.not_after <= NOW + 2 * DAY
    assert [joined(token_for(BANK, serial)).passport.serial for serial in (1, 2**63 - 1)] == [1, 2**63 - 1]


def test_a_federation_has_a_name() -> None:
    for name in ("", "a\nb", "x" * 101):
        with pytest.raises(UsageError, match="federation"):
            Authority.new(name)
    with pytest.raises(FormatError):
        authority().invite(BANK, ADDRESS, bytes(32), 1)


# -- secrets ------------------------------------------------------------------------------------------


def test_nothing_that_is_printed_or_raised_shows_a_key() -> None:
    identity = joined(TOKEN)
    scalars = [_scalar(each._key) for each in (authority(), TOKEN, identity)]
    hidden = [*(scalar.hex() for scalar in scalars), *map(repr, scalars), TEXT[-60:-20]]
    shown = f"{authority()!r} {TOKEN!r} {TOKEN} {identity!r}"
    broken = {**identity.to_fields(), "chain": joined(TOKEN).to_fields()["chain"]}
    for call in (
        partial(Token.parse, TEXT[:-1]),
        partial(Token.parse, token_of(key=_scalar(new_key()))),
        partial(Token.parse, TEXT, now=NOW + 1000 * DAY),
        partial(TlsIdentity.from_fields, broken),
        partial(Authority.from_fields, {**authority().to_fields(), "certificate": "x"}),
        partial(join, TOKEN, bytes(32)),
        partial(server_credentials, identity),
    ):
        shown += all_that_an_error_shows(call)
    assert [part for part in hidden if part in shown] == []


@pytest.mark.parametrize("key", [authority(), joined(TOKEN)], ids=lambda key: type(key).__name__)
def test_fields_hold_identities(key: Authority | TlsIdentity) -> None:
    fields = key.to_fields()
    assert type(key).from_fields(fields).to_fields() == fields
    other: type[Authority | TlsIdentity] = Authority if isinstance(key, TlsIdentity) else TlsIdentity
    with pytest.raises(KeyError):
        other.from_fields(fields)


def test_a_key_and_a_certificate_must_belong_together() -> None:
    for key in (authority(), joined(TOKEN)):
        wrong = {**key.to_fields(), "key": _scalar(new_key()).hex()}
        with pytest.raises(UsageError, match="belong together"):
            type(key).from_fields(wrong)


def test_an_expired_identity_can_still_be_read() -> None:
    old = joined(token_for(BANK, days=2, ago=10 * DAY), NOW - 9 * DAY)
    assert TlsIdentity.from_fields(old.to_fields()).who == BANK
    with pytest.raises(PassportError, match="expired"):
        read_passport(old.ca_pem, old.chain_pem)
