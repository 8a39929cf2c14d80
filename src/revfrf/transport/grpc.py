"""Links over gRPC: one bidirectional stream with mutual TLS for each party, dialled to CS.

CS alone listens. A stream that breaks is dialled again, after ever longer pauses.

gRPC has no setting for the version of TLS. It reads a list of ciphers when it is loaded, which is for TLS 1.2
alone. With none in it for keys on elliptic curves, only TLS 1.3 is left to us. If it was loaded before, only
`peer_passport` refuses a peer that speaks an older version.
"""

import logging
import os
import random
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread, Timer
from typing import Any

from revfrf.errors import ProtocolError, RejectedError, RevFRFError, UsageError
from revfrf.names import CS
from revfrf.transport.calls import Endpoint
from revfrf.transport.connections import Link
from revfrf.transport.frames import MAX_FRAME
from revfrf.transport.join_token import TlsIdentity
from revfrf.transport.passport import PartyId, Passport, read_passport

log = logging.getLogger(__name__)

_SERVICE, _METHOD = "revfrf.Coordinator", "Stream"
_NONCE, _CHAIN, _SIGNATURE = "revfrf-nonce-bin", "revfrf-chain-bin", "revfrf-signature-bin"
"""What a party sends when it dials, and what CS answers first: a proof that it is this federation's."""

_NONCE_BYTES = 32
_LEFT = "left"  # what CS says to somebody who has left, and to no other whom it refuses
MAX_LINKS = 512

_REMEDY = (
    "its log says why. If a token was used twice, or the TLS certificate has expired, ask KGC for a new "
    "token, and `revfrf join` it"
)

_OPTIONS = [("grpc.max_send_message_length", MAX_FRAME), ("grpc.max_receive_message_length", MAX_FRAME)]


def _load_grpc() -> Any:
    name = "GRPC_SSL_CIPHER_SUITES"
    before = os.environ.get(name)
    os.environ[name] = "ECDHE-RSA-AES128-GCM-SHA256"
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # links say themselves what is wrong
    try:
        import grpc
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
    return grpc


grpc = _load_grpc()


def server_credentials(identity: TlsIdentity) -> Any:
    """For the coordinator's port: nobody without certificates of this federation gets through."""
    if identity.who.role != CS:
        raise UsageError(f"{identity.who} cannot listen: only {CS} does")
    return grpc.ssl_server_credentials(
        [(identity.key_pem, identity.chain_pem)], root_certificates=identity.ca_pem, require_client_auth=True
    )


def channel_credentials(identity: TlsIdentity) -> tuple[Any, list[tuple[str, str]]]:
    """For dialling: credentials, and options by which a channel refuses anybody but the coordinator."""
    credentials = grpc.ssl_channel_credentials(identity.ca_pem, identity.key_pem, identity.chain_pem)
    return credentials, [("grpc.ssl_target_name_override", PartyId(CS, CS).dns)]


def peer_passport(ca_pem: bytes, auth_context: Mapping[str, Sequence[bytes]]) -> Passport:
    """Who is on the other side, by what a gRPC handler's `context.auth_context()` says.

    Raises PassportError, and RejectedError of kind `tls-version` unless the peer is known to speak TLS 1.3.
    """
    if list(auth_context.get("ssl_tls_version", [])) != [b"TLSv1.3"]:
        raise RejectedError("the peer does not speak TLS 1.3", kind="tls-version")
    # The certificates above the first: servers are not told the first one among them, clients are.
    above = b"".join(auth_context.get("x509_pem_cert_chain", []))
    first = b"".join(auth_context.get("x509_pem_cert", []))
    return read_passport(ca_pem, above if above.startswith(first) else first + above)


def _carry(endpoint: Endpoint, link: Link, incoming: Any) -> None:
    """Hand on what comes over a link until it ends."""
    try:
        for data in incoming:
            endpoint.received(link, data)
    except RejectedError as error:
        log.warning("closing the link to %s: %s", link.who.name, error)
    except grpc.RpcError:
        log.info("the link to %s is down", link.who.name)
    finally:
        endpoint.disconnected(link)
        link.close()


class Server:
    """CS: everybody's links come in here."""

    def __init__(self, endpoint: Endpoint, tls: TlsIdentity, address: str) -> None:
        self._endpoint, self._tls = endpoint, tls
        self._threads = ThreadPoolExecutor(MAX_LINKS, thread_name_prefix="link")
        options = [*_OPTIONS, ("grpc.so_reuseport", 0)]
        self._server = grpc.server(self._threads, options=options, maximum_concurrent_rpcs=MAX_LINKS)
        handlers = {_METHOD: grpc.stream_stream_rpc_method_handler(self._stream)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        try:
            self.port: int = self._server.add_secure_port(address, server_credentials(tls))
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise UsageError(f"cannot listen on {address}: the port is in use, or you may not use it")
        self._server.start()

    def _stream(self, incoming: Any, context: Any) -> Iterator[bytes]:
        try:
            passport = peer_passport(self._tls.ca_pem, context.auth_context())
            nonce = dict(context.invocation_metadata()).get(_NONCE, b"")
            if len(nonce) != _NONCE_BYTES:
                raise ProtocolError(f"{passport.who} dialled without a nonce", kind="order")
            link = Link(passport.who, self._endpoint.limits.silence)
            link.hang_up = context.cancel  # also a stream whose other end does not read
            self._endpoint.connected(link, passport)
        except RevFRFError as error:
            log.warning("refused a link: %s", error)
            told = _LEFT if error.kind == "revoked" else error.peer_message
            context.abort(grpc.StatusCode.PERMISSION_DENIED, told)
        log.info("%s is connected", link.who.name)
        context.add_callback(link.close)
        # first, since it takes the link down also if the welcome fails
        Thread(target=_carry, args=(self._endpoint, link, incoming), daemon=True).start()
        chain, signature = self._endpoint.sealing.welcome(nonce, passport)
        context.send_initial_metadata(((_CHAIN, chain), (_SIGNATURE, signature)))
        yield from link.outgoing()

    def close(self) -> None:
        self._endpoint.close()
        self._server.stop(grace=0.5).wait()
        self._threads.shutdown(wait=False)


class Dialler:
    """A party's link to CS, dialled again whenever it breaks, until it is closed."""

    FIRST_PAUSE, LONGEST_PAUSE, STEADY = 0.1, 15.0, 3.0
    """Seconds: the pauses grow, until a link has held for some time."""

    def __init__(self, endpoint: Endpoint, tls: TlsIdentity, address: str) -> None:
        self._endpoint, self._tls, self._address = endpoint, tls, address
        self._closed = Event()
        self._link: Link | None = None
        self.problem, self.left = "", False
        self._thread = Thread(target=self._dial, name="dialler", daemon=True)
        self._thread.start()

    def _dial(self) -> None:
        pause = self.FIRST_PAUSE
        while not self._closed.is_set():
            started = time.monotonic()
            try:
                self._one_link()
            except Exception:
                log.exception("a link failed")
            if time.monotonic() - started > self.STEADY:
                pause = self.FIRST_PAUSE
            self._closed.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(2 * pause, self.LONGEST_PAUSE)

    def _one_link(self) -> None:
        """A link until it breaks, if there is one."""
        patience = self._endpoint.limits.silence
        credentials, options = channel_credentials(self._tls)
        with grpc.secure_channel(self._address, credentials, [*_OPTIONS, *options]) as channel:
            self._link = link = Link(PartyId(CS, CS), patience)
            stream, nonce = channel.stream_stream(f"/{_SERVICE}/{_METHOD}"), secrets.token_bytes(_NONCE_BYTES)
            incoming = stream(link.outgoing(), metadata=((_NONCE, nonce),))
            link.hang_up = incoming.cancel
            if self._closed.is_set():
                link.close()
            timer = Timer(patience, link.close)
            timer.daemon = True
            timer.start()
            try:
                told = dict(incoming.initial_metadata())  # waits until we are let in, or not
                if {_CHAIN, _SIGNATURE} <= told.keys():
                    host = self._endpoint.sealing.welcomed(nonce, told[_CHAIN], told[_SIGNATURE])
                    self._endpoint.connected(link, host)
                    timer.cancel()
                    self.problem, self.left = "", False
                    _carry(self._endpoint, link, incoming)
                elif incoming.code() == grpc.StatusCode.PERMISSION_DENIED:
                    self.left = incoming.details() == _LEFT
                    reason = "this party has left the federation" if self.left else _REMEDY
                    self.problem = f"{self._address} refuses us: {reason}"
                else:
                    self.problem = f"{self._address} does not answer, or is not our coordinator"
            except RejectedError as error:
                self.problem = f"{self._address} is not the coordinator that we know: {error}"
            finally:
                timer.cancel()
                link.close()

    def close(self) -> None:
        self._closed.set()
        self._endpoint.close()
        if (link := self._link) is not None:
            link.close()
        self._thread.join(self._endpoint.limits.heartbeat)
