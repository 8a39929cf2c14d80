"""Peers that speak no TLS but one version, against our server and our client; run as a process."""

import socket
import ssl
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from revfrf.transport.grpc import channel_credentials, grpc, server_credentials
from revfrf.transport.join_token import TlsIdentity
from tests.transport.parties import BANK, CS, joined, token_for

VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


def context_of(identity: TlsIdentity, protocol: int, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "pem"
        file.write_bytes(identity.key_pem + identity.chain_pem)
        context.load_cert_chain(file)
    context.load_verify_locations(cadata=identity.ca_pem.decode())
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    return context


def spoken(context: ssl.SSLContext, plain: socket.socket, **options: Any) -> str | None:
    try:
        with context.wrap_socket(plain, **options) as secure:
            return secure.version()
    except (ssl.SSLError, ConnectionError):
        return "refused"


def main() -> None:
    """Print what is spoken."""
    bank, cs = joined(token_for(BANK)), joined(token_for(CS))
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(cs))
    server.start()
    for name, version in VERSIONS.items():
        context = context_of(bank, ssl.PROTOCOL_TLS_CLIENT, version)
        plain = socket.create_connection(("127.0.0.1", port), timeout=60)
        print(f"our server, {name}: {spoken(context, plain, server_hostname=CS.dns)}")  # noqa: T201
    server.stop(None).wait()
    for name, version in VERSIONS.items():
        context = context_of(cs, ssl.PROTOCOL_TLS_SERVER, version)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(60)
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            with grpc.secure_channel(address, *channel_credentials(bank)) as channel:
                call = channel.unary_unary("/revfrf.test/call").future(b"", timeout=60)
                plain, _ = listener.accept()
                print(f"our client, {name}: {spoken(context, plain, server_side=True)}")  # noqa: T201
                call.cancel()
