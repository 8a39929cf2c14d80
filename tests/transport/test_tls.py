"""TLS lets nobody in who has not joined, and calls nobody but the coordinator: tried with gRPC itself."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from revfrf.errors import PassportError, RejectedError, UsageError
from revfrf.transport.grpc import channel_credentials, grpc, peer_passport, server_credentials
from revfrf.transport.join_token import Authority, TlsIdentity, Token
from revfrf.transport.passport import PartyId, to_pem
from tests.transport.links import SOON
from tests.transport.parties import (
    ADDRESS,
    BANK,
    CS,
    DAY,
    NOW,
    TELCO,
    VERIFY_KEY,
    authority,
    forged,
    form_of,
    joined,
    key_pem,
    new_key,
    run,
    token_for,
    with_other,
    without,
)

TOKEN = token_for(BANK, serial=3)
KGC = PartyId("KGC", "KGC")


Shown = tuple[bytes, bytes]
"""What somebody shows in a handshake, whatever it is: a key, and a chain."""


def shown(identity: TlsIdentity) -> Shown:
    return identity.key_pem, identity.chain_pem


def forgery(token: Token, form: Any) -> Shown:
    key = new_key()
    return key_pem(key), forged(token, form, key)


@contextmanager
def listening(credentials: Any) -> Iterator[tuple[int, list[Any]]]:
    """A port that answers b'pong', and what its handler was told about its callers."""
    callers: list[Any] = []

    def answer(_: bytes, context: Any) -> bytes:
        callers.append(context.auth_context())
        return b"pong"

    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"call": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("revfrf.test", handlers),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port, callers
    finally:
        server.stop(None).wait()


def dial(port: int, credentials: Any, options: Any) -> bytes:
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        reply: bytes = channel.unary_unary("/revfrf.test/call")(b"ping", timeout=SOON)
        return reply


def dial_as(port: int, client: Shown | tuple[None, None]) -> bytes:
    _, options = channel_credentials(joined(TOKEN))
    return dial(port, grpc.ssl_channel_credentials(authority().certificate_pem, *client), options)


def turned_away(port: int, client: Shown | tuple[None, None]) -> None:
    """The handshake of this client fails."""
    with pytest.raises(grpc.RpcError) as caught:
        dial_as(port, client)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.fixture(scope="module")
def coordinator() -> Iterator[tuple[int, list[Any]]]:
    with listening(server_credentials(joined(token_for(CS)))) as served:
        yield served


@pytest.mark.parametrize(
    "who", [BANK, KGC, PartyId("CC", "CC"), PartyId("requester", "ü" * 100), CS], ids=lambda w: w.role
)
def test_the_coordinator_learns_who_calls(coordinator: tuple[int, list[Any]], who: PartyId) -> None:
    port, callers = coordinator
    identity = joined(token_for(who, serial=5))
    assert dial(port, *channel_credentials(identity)) == b"pong"
    assert peer_passport(authority().certificate_pem, callers[-1]) == identity.passport
    with pytest.raises(PassportError):
        peer_passport(Authority.new("breast cancer").certificate_pem, callers[-1])
    with pytest.raises(PassportError):
        peer_passport(authority().certificate_pem, {"ssl_tls_version": [b"TLSv1.3"]})


def test_nobody_without_a_passport_gets_through(coordinator: tuple[int, list[Any]]) -> None:
    port, callers = coordinator
    before = len(callers)
    foreign = joined(Authority.new("breast cancer").invite(BANK, ADDRESS, VERIFY_KEY, 1))
    expired = joined(token_for(BANK, days=2, ago=10 * DAY), NOW - 9 * DAY)
    honest = joined(TOKEN)
    turned_away(port, (None, None))
    turned_away(port, shown(foreign))
    turned_away(port, shown(expired))
    turned_away(port, (key_pem(new_key()), honest.chain_pem))
    turned_away(port, (honest.key_pem, honest.chain_pem[:1200]))
    turned_away(port, (key_pem(TOKEN._key), to_pem(TOKEN._invitation)))
    assert len(callers) == before
    assert dial(port, *channel_credentials(honest)) == b"pong"


def dns(*names: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.DNSName(name) for name in names])


FORGERIES = {
    "another party": form_of(TELCO),
    "another role": form_of(PartyId("requester", "bank")),
    "the coordinator": form_of(CS),
    "two names": with_other(form_of(BANK), dns(BANK.dns, CS.dns)),
    "a pattern": with_other(form_of(BANK), dns("*.participant.revfrf.internal")),
}


@pytest.mark.parametrize("form", FORGERIES.values(), ids=FORGERIES)
def test_tls_itself_turns_away_who_certifies_another_name(
    coordinator: tuple[int, list[Any]], form: Any
) -> None:
    port, callers = coordinator
    before = len(callers)
    turned_away(port, forgery(TOKEN, form))
    assert len(callers) == before


def test_what_tls_lets_through_the_passport_still_stops(coordinator: tuple[int, list[Any]]) -> None:
    """TLS knows nothing of our extension, and allows names below one's own."""
    port, callers = coordinator
    below = with_other(form_of(BANK), dns("x." + BANK.dns))
    silent = without(form_of(BANK), x509.UnrecognizedExtension)
    for form, kind in ((below, "name"), (silent, "malformed")):
        assert dial_as(port, forgery(TOKEN, form)) == b"pong"
        with pytest.raises(PassportError) as caught:
            peer_passport(authority().certificate_pem, callers[-1])
        assert caught.value.kind == kind


def as_server(token: Token, form: Any) -> Any:
    """A port of somebody who certifies itself as it likes."""
    return grpc.ssl_server_credentials([forgery(token, form)])


SECOND = PartyId("CS", "another")
BOTH = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
BARE = replace(
    without(form_of(BANK), x509.SubjectAlternativeName),
    subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CS.dns)]),
)
IMPOSTORS = {
    "itself": form_of(BANK),
    "the coordinator": form_of(CS),
    "the coordinator by its common name": with_other(BARE, BOTH),
    "the coordinator, for any purpose": without(form_of(CS), x509.ExtendedKeyUsage),
}


@pytest.mark.parametrize("invited", [BANK, SECOND], ids=str)
@pytest.mark.parametrize("form", IMPOSTORS.values(), ids=IMPOSTORS)
def test_a_client_calls_nobody_but_the_coordinator(form: Any, invited: PartyId) -> None:
    """Not even one whose invitation is for servers."""
    with listening(as_server(token_for(invited), form)) as (port, callers):
        turned_away(port, shown(joined(TOKEN)))
        assert callers == []


def test_a_client_refuses_a_server_that_the_authority_does_not_call_coordinator() -> None:
    with listening(as_server(token_for(SECOND), form_of(SECOND))) as (port, callers):
        turned_away(port, shown(joined(TOKEN)))
    foreign = Authority.new("breast cancer").invite(CS, ADDRESS, VERIFY_KEY, 1)
    with listening(as_server(foreign, form_of(CS))) as (port, others):
        turned_away(port, shown(joined(TOKEN)))
    assert callers == others == []
    with listening(as_server(token_for(CS), form_of(CS))) as (port, _):
        assert dial(port, *channel_credentials(joined(TOKEN))) == b"pong"


def test_only_the_coordinator_serves() -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        server_credentials(joined(TOKEN))


# -- TLS 1.3 ------------------------------------------------------------------------------------------


def test_tls_1_3_is_spoken(coordinator: tuple[int, list[Any]]) -> None:
    port, callers = coordinator
    dial(port, *channel_credentials(joined(TOKEN)))
    assert callers[-1]["ssl_tls_version"] == [b"TLSv1.3"]
    untold = {name: value for name, value in callers[-1].items() if name != "ssl_tls_version"}
    for version in ({"ssl_tls_version": [b"TLSv1.2"]}, {"ssl_tls_version": list[bytes]()}, {}):
        with pytest.raises(RejectedError) as caught:
            peer_passport(authority().certificate_pem, {**untold, **version})
        assert caught.value.kind == "tls-version"


def test_tls_1_2_is_spoken_by_nobody() -> None:
    """In a process of its own, where nobody else has loaded gRPC."""
    assert run("import tests.transport.old_tls as t; t.main()").splitlines() == [
        "our server, TLS 1.2: refused",
        "our server, TLS 1.3: TLSv1.3",
        "our client, TLS 1.2: refused",
        "our client, TLS 1.3: TLSv1.3",
    ]


def test_loading_leaves_the_environment_as_it_was() -> None:
    name = "GRPC_SSL_CIPHER_SUITES"
    code = f"import os; {{}}; import revfrf.transport.grpc; print(os.environ.get({name!r}))"
    assert run(code.format("pass")) == "None"
    assert run(code.format(f"os.environ[{name!r}] = 'x'")) == "x"
