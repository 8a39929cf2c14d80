"""gRPC with TLS 1.3 between certified parties. This module alone imports gRPC.

gRPC has no setting for the version of TLS. It reads a list of ciphers when it is loaded, which is for TLS 1.2
alone. With none in it for keys on elliptic curves, only TLS 1.3 is left to us. So other modules take `grpc`
from here. If it was loaded before, only `peer_passport` refuses a peer that speaks an older version.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from revfrf.errors import RejectedError, UsageError
from revfrf.names import CS
from revfrf.transport.join_token import TlsIdentity
from revfrf.transport.passport import PartyId, Passport, read_passport

_TLS = b"TLSv1.3"


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
    if list(auth_context.get("ssl_tls_version", [])) != [_TLS]:
        raise RejectedError("the peer does not speak TLS 1.3", kind="tls-version")
    # The certificates above the first: servers are not told the first one among them, clients are.
    above = b"".join(auth_context.get("x509_pem_cert_chain", []))
    first = b"".join(auth_context.get("x509_pem_cert", []))
    return read_passport(ca_pem, above if above.startswith(first) else first + above)
