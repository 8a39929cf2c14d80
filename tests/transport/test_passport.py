"""Passports: a chain proves who a party is, and everything that is not such a chain is refused."""

from base64 import b64encode, encodebytes
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError, PassportError, UsageError
from revfrf.transport.join_token import Authority, Token, join
from revfrf.transport.passport import (
    _EXTENSION,
    MAX_CHAIN,
    Bearer,
    Invitation,
    PartyId,
    issue,
    read_passport,
    to_pem,
)
from tests.transport.parties import (
    ADDRESS,
    BANK,
    CS,
    DAY,
    NOW,
    TELCO,
    VERIFY_KEY,
    authority,
    dates_of,
    forged,
    form_of,
    joined,
    new_key,
    split,
    token_for,
    with_other,
    without,
)

CA = authority().certificate_pem
TOKEN = token_for(BANK, serial=7)
HONEST = joined(TOKEN)
FACES = "\N{GRINNING FACE}" * 100


def refused(chain: bytes, ca: bytes = CA, now: datetime | None = None) -> str:
    with pytest.raises(PassportError) as caught:
        read_passport(ca, chain, now)
    assert caught.value.peer_message == "rejected"
    return caught.value.kind


def test_a_chain_says_who_it_is_for_and_by_which_key_it_signs() -> None:
    passport = read_passport(CA, HONEST.chain_pem)
    assert (passport.who, passport.serial) == (BANK, 7)
    assert passport.verify_key == VERIFY_KEY
    assert passport.not_after == TOKEN._invitation.not_valid_after_utc
    assert passport == HONEST.passport
    assert passport.key_digest != joined(TOKEN).passport.key_digest


@pytest.mark.parametrize("name", ["x", "a, O=other", "*", "Универзитет", FACES, '"' * 100, "\\" * 100])
def test_any_printable_name_travels_whole(name: str) -> None:
    for who in (PartyId("participant", name), PartyId("requester", name)):
        token = Authority.new(name).invite(who, ADDRESS, VERIFY_KEY, 1)
        identity = joined(Token.parse(token.text()))
        assert (read_passport(token.ca_pem, identity.chain_pem).who, token.federation) == (who, name)
        assert len(identity.chain_pem) < MAX_CHAIN
        assert len(token.text()) < 4096  # what a terminal takes as one line


@given(st.tuples(st.text("aAbB", min_size=1, max_size=2), st.sampled_from(["CS", "cs", "KGC"])), st.data())
def test_no_two_parties_share_a_dns_name(one: tuple[str, str], data: st.DataObject) -> None:
    name, role = data.draw(st.sampled_from(["a", "A", "aa", "b"])), data.draw(st.sampled_from(["CS", "cs"]))
    first, second = PartyId(one[1], one[0]), PartyId(role, name)
    assert (first.dns == second.dns) == (first == second)


@pytest.mark.parametrize(
    ("role", "name"), [("", "x"), ("a.b", "x"), ("a" * 21, "x"), ("CS", ""), ("CS", "a\nb")]
)
def test_what_has_no_role_or_name_is_no_party(role: str, name: str) -> None:
    with pytest.raises(UsageError, match=r"name|role"):
        PartyId(role, name)


# -- others' authority --------------------------------------------------------------------------------


def test_a_foreign_authority_proves_nothing() -> None:
    foreign = Authority.new("breast cancer")
    chain = joined(foreign.invite(BANK, ADDRESS, VERIFY_KEY, 1)).chain_pem
    assert refused(chain) == "authority"
    assert refused(HONEST.chain_pem, foreign.certificate_pem) == "authority"


def test_own_word_is_no_proof() -> None:
    key, form = new_key(), form_of(BANK)
    alone = issue(form, key.public_key(), form.subject, key, dates_of(split(CA)[0]))
    assert refused(to_pem(alone, alone)) == "authority"
    assert refused(to_pem(alone, split(CA)[0])) == "malformed"
    assert refused(to_pem(alone, TOKEN._invitation)) == "authority"


def test_an_invitation_that_its_bearer_has_made_is_none() -> None:
    key, form = new_key(), Invitation(TELCO.role, TELCO.name, 1).form("breast cancer")
    own = issue(form, key.public_key(), split(CA)[0].subject, key, dates_of(TOKEN._invitation))
    leaf = issue(form_of(TELCO), key.public_key(), own.subject, key, dates_of(own))
    assert refused(to_pem(leaf, own)) == "authority"


def test_a_party_certifies_nobody() -> None:
    key = new_key()
    [leaf, _] = split(forged(TOKEN, form_of(BANK), key))
    below = issue(form_of(BANK), key.public_key(), leaf.subject, key, dates_of(leaf))
    assert refused(to_pem(below, leaf)) == "authority"
    assert refused(to_pem(below, TOKEN._invitation)) == "authority"


def test_an_invitation_invites_nobody_else() -> None:
    key, form = new_key(), Invitation(TELCO.role, TELCO.name, 1).form("breast cancer")
    second = issue(form, key.public_key(), TOKEN._invitation.subject, TOKEN._key, dates_of(TOKEN._invitation))
    leaf = issue(form_of(TELCO), key.public_key(), second.subject, key, dates_of(second))
    assert refused(to_pem(leaf, second)) == "authority"
    assert refused(to_pem(leaf, second, TOKEN._invitation)) == "malformed"


# -- others' names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [TELCO, CS, PartyId("requester", "bank"), PartyId("CS", "bank")], ids=str)
def test_an_invitation_for_one_party_makes_no_passport_for_another(other: PartyId) -> None:
    chain = forged(TOKEN, form_of(other), new_key())
    assert refused(chain) == "name"
    [leaf, _] = split(chain)
    assert refused(to_pem(leaf, token_for(other)._invitation)) == "authority"
    mixed = with_other(form_of(BANK), x509.SubjectAlternativeName([x509.DNSName(other.dns)]))
    assert refused(forged(TOKEN, mixed, new_key())) == "name"
    assert refused(forged(TOKEN, replace(form_of(BANK), subject=form_of(other).subject), new_key())) == "name"


def test_a_second_name_is_one_too_many() -> None:
    for second in (x509.DNSName(CS.dns), x509.DNSName("x." + BANK.dns), x509.RFC822Name("a@b.example")):
        names = x509.SubjectAlternativeName([x509.DNSName(BANK.dns), second])
        assert refused(forged(TOKEN, with_other(form_of(BANK), names), new_key())) == "name"
    assert refused(forged(TOKEN, without(form_of(BANK), x509.SubjectAlternativeName), new_key())) == "name"


def test_a_certificate_of_another_federation_by_name_is_refused() -> None:
    form = Bearer(VERIFY_KEY).form("lung cancer", BANK)
    assert refused(forged(TOKEN, form, new_key())) == "name"


# -- other forms --------------------------------------------------------------------------------------


def test_a_certificate_without_our_extension_is_no_passport() -> None:
    assert (
        refused(forged(TOKEN, without(form_of(BANK), x509.UnrecognizedExtension), new_key())) == "malformed"
    )


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{}",
        b'{"type":"authority","federation":"breast cancer"}',
        b'{"type":"bearer","verify_key":"AAAA"}',
        pytest.param(
            b'{"type":"bearer","verify_key":"%s","seal_key":"AAAA"}' % b64encode(VERIFY_KEY), id="more"
        ),
        b"[" * 3000,
        b'{"x":' + b"[" * 3000,
        b'{"type":' + b"[" * 3000,
    ],
)
def test_what_the_extension_cannot_say_is_refused(said: bytes) -> None:
    form = with_other(form_of(BANK), x509.UnrecognizedExtension(_EXTENSION, said))
    assert refused(forged(TOKEN, form, new_key())) == "malformed"


def test_the_same_said_in_another_way_is_refused() -> None:
    [said] = [v.value for v, _ in form_of(BANK).extensions if isinstance(v, x509.UnrecognizedExtension)]
    for other in (said + b" ", said.replace(b",", b", ", 1), said[:-1] + b',"type":"bearer"}'):
        form = with_other(form_of(BANK), x509.UnrecognizedExtension(_EXTENSION, other))
        assert refused(forged(TOKEN, form, new_key())) == "malformed"


def test_a_certificate_that_may_do_more_than_ours_is_refused() -> None:
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    for more in (x509.BasicConstraints(ca=True, path_length=None), server):
        assert refused(forged(TOKEN, with_other(form_of(BANK), more), new_key())) == "malformed"
    added = [*form_of(BANK).extensions, (x509.OCSPNoCheck(), False)]
    assert refused(forged(TOKEN, replace(form_of(BANK), extensions=added), new_key())) == "malformed"


@pytest.mark.parametrize(
    "make",
    [
        lambda: rsa.generate_private_key(65537, 2048).public_key(),
        lambda: ed25519.Ed25519PrivateKey.generate().public_key(),
        lambda: ec.generate_private_key(ec.SECP384R1()).public_key(),
    ],
    ids=["RSA", "Ed25519", "P-384"],
)
def test_other_kinds_of_keys_are_refused(make: Callable[[], ec.EllipticCurvePublicKey]) -> None:
    above = TOKEN._invitation
    leaf = issue(form_of(BANK), make(), above.subject, TOKEN._key, dates_of(above))
    assert refused(to_pem(leaf, above)) == "malformed"


def test_other_signature_algorithms_are_refused() -> None:
    above, key = TOKEN._invitation, new_key().public_key()
    builder = x509.CertificateBuilder(above.subject, form_of(BANK).subject, key, 1, *dates_of(above))
    for value, critical in form_of(BANK).completed(key, TOKEN._key.public_key()):
        builder = builder.add_extension(value, critical)
    assert refused(to_pem(builder.sign(TOKEN._key, hashes.SHA512()), above)) == "malformed"
    assert read_passport(CA, to_pem(builder.sign(TOKEN._key, hashes.SHA256()), above)).who == BANK


@pytest.mark.parametrize(
    "verify_key",
    [bytes(32), VERIFY_KEY[:31], VERIFY_KEY + b"x"],
    ids=["of small order", "too short", "too long"],
)
def test_keys_that_protect_nothing_are_refused(verify_key: bytes) -> None:
    with pytest.raises(FormatError):
        join(TOKEN, verify_key)
    said = b'{"type":"bearer","verify_key":"%s"}' % b64encode(verify_key)
    form = with_other(form_of(BANK), x509.UnrecognizedExtension(_EXTENSION, said))
    assert refused(forged(TOKEN, form, new_key())) == "malformed"


def test_a_chain_is_two_certificates_in_order() -> None:
    leaf, above = split(HONEST.chain_pem)
    assert refused(to_pem(above, leaf)) == "authority"
    for wrong in ((leaf,), (above,), (leaf, above, split(CA)[0]), (leaf, leaf, above), (above, above)):
        assert refused(to_pem(*wrong)) in ("malformed", "authority")
    assert refused(HONEST.chain_pem, HONEST.chain_pem) == "malformed"
    assert refused(HONEST.chain_pem, to_pem(above)) == "authority"
    assert refused(HONEST.chain_pem, b"") == "malformed"


# -- time ---------------------------------------------------------------------------------------------


def test_whatever_has_expired_in_a_chain_expires_the_whole() -> None:
    assert refused(HONEST.chain_pem, now=NOW + 366 * DAY) == "expired"
    assert refused(HONEST.chain_pem, now=NOW - DAY) == "expired"
    brief = Authority.new("breast cancer", days=2)
    chain = joined(brief.invite(BANK, ADDRESS, VERIFY_KEY, 1)).chain_pem
    assert read_passport(brief.certificate_pem, chain, NOW + DAY).not_after <= NOW + 3 * DAY
    assert refused(chain, brief.certificate_pem, NOW + 3 * DAY) == "expired"


def test_a_bearer_lives_no_longer_than_its_invitation() -> None:
    old = token_for(BANK, days=2, ago=10 * DAY)
    long = forged(old, form_of(BANK), new_key(), (NOW - 10 * DAY, NOW + 1000 * DAY))
    assert refused(long, old.ca_pem) == "expired"
    assert read_passport(old.ca_pem, long, NOW - 9 * DAY).not_after == NOW - 8 * DAY
    brief = forged(TOKEN, form_of(BANK), new_key(), (NOW - 2 * DAY, NOW - DAY))
    assert refused(brief) == "expired"


def test_clocks_may_differ_a_little() -> None:
    assert read_passport(CA, HONEST.chain_pem, NOW - DAY / 48).who == BANK


# -- noise --------------------------------------------------------------------------------------------


def test_what_is_too_long_is_not_even_parsed() -> None:
    assert refused(HONEST.chain_pem + b"\n" * MAX_CHAIN) == "malformed"


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_every_signed_byte_counts() -> None:
    leaf, above = split(HONEST.chain_pem)
    whole, signed = leaf.public_bytes(Encoding.DER), leaf.tbs_certificate_bytes
    begin = whole.index(signed)
    for at in range(begin, begin + len(signed)):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        assert refused(as_pem(changed) + to_pem(above)) in ("malformed", "authority")


def as_pem(der: bytes | bytearray) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + encodebytes(der) + b"-----END CERTIFICATE-----\n"


def test_the_digest_is_that_of_the_tls_key() -> None:
    [leaf, _] = split(HONEST.chain_pem)
    public = leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert HONEST.passport.key_digest == sha256(public).digest()
