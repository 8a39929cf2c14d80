"""How parties are created: KGC creates a federation and invites parties, which join with a token.

All of it works offline, and a party's keys are created where they stay.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import StorageError, UsageError
from revfrf.io.files import check_writable_by_owner_alone
from revfrf.io.public_key import save_verify_key
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER, check_name
from revfrf.node.config import Config, new_config, write_config
from revfrf.node.home import CONFIG, DATABASE, PUBLIC_KEY, Home
from revfrf.protocols.common.identity import Identity
from revfrf.record import Record
from revfrf.roles.kgc import KeyCentreKeys, KeyCentreRecord
from revfrf.storage.memory import Store
from revfrf.storage.sqlite import Database
from revfrf.transport.join_token import Authority, Token, join
from revfrf.transport.passport import PartyId

_OWN_SERIAL = 1  # of KGC's invitation to itself; each other invitation has a higher one
_inviting = Lock()  # held while the list of invitations is read and written


class Invited(Record, frozen=True):
    """An invited party: its role, and the numbers of its first valid invitation and its last."""

    role: str
    first: int
    serial: int


def _create(path: Path, config: Config, kgc: VerifyKey, facts: Mapping[str, Any]) -> None:
    """Create a directory with these facts in its database."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{path} is not empty; give another directory")
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", kind="io") from None
    check_writable_by_owner_alone(path)
    with closing(Store(Database(path / DATABASE, create=True))) as store:
        store.write(**facts)
    save_verify_key(path / PUBLIC_KEY, kgc)
    write_config(path / CONFIG, config)  # last: without it, this is not a party directory


@hides_locals
def create_federation(path: str | os.PathLike[str], federation: str, coordinator: str, **keys: Any) -> None:
    """Create KGC's directory of a new federation, whose coordinator will listen at this address."""
    check_name("federation", federation)
    home = Path(path).expanduser().absolute()
    config = new_config(federation=federation, role=KGC, name=KGC, coordinator=coordinator, **keys)
    own, authority = KeyCentreKeys.generate(), Authority.new(federation)
    verify_key = own.signing.verify_key
    token = authority.invite(PartyId(KGC, KGC), coordinator, verify_key.raw, _OWN_SERIAL, 3650)
    facts = own.export() | {
        "authority": authority.to_fields(),
        "tls": join(token, verify_key.raw).to_fields(),
        "insecure": config.keys.allow_insecure,
        "state": KeyCentreRecord(),
        "invited": {},
        "serial": _OWN_SERIAL,
    }
    _create(home, config, verify_key, facts)


@hides_locals
def invite(home: Home, role: str, name: str, days: int = 365) -> Token:
    """Return a token by which a party joins or, if it has joined before, renews its TLS certificate."""
    name = _named(role, name)
    with _inviting:
        invited = home.store.expect("invited", dict[str, Invited])
        _check_invitation(invited, home.store.expect("state", KeyCentreRecord), role, name)
        serial = home.store.expect("serial", int) + 1
        authority = Authority.from_fields(home.store.expect("authority", dict[str, str]))
        address = home.config.network.coordinator or ""
        token = authority.invite(PartyId(role, name), address, home.signing().verify_key.raw, serial, days)
        first = invited[name].first if name in invited else serial
        with home.store.transaction():
            home.store.write(invited=invited | {name: Invited(role, first, serial)}, serial=serial)
            home.audit.append("invited", role=role, name=name, serial=serial, first=first)
    return token


def _named(role: str, name: str) -> str:
    """Return the party's name. Raises UsageError."""
    if role in (CS, CC):
        if name not in ("", role):
            raise UsageError(f"{role} is always called {role}; leave {name!r} out")
        return role
    if role not in (PARTICIPANT, REQUESTER):
        raise UsageError(f"role {role!r}: give {CS}, {CC}, {PARTICIPANT} or {REQUESTER}, then the name")
    if not name:
        raise UsageError(f"a {role} needs a name: revfrf kgc invite {role} NAME")
    check_name(role, name)
    return name


def _check_invitation(invited: Mapping[str, Invited], state: KeyCentreRecord, role: str, name: str) -> None:
    """Raise UsageError if no party of this role and name can be invited."""
    for known in invited.keys() - {name}:
        if known.casefold() == name.casefold():
            what = f"{name!r} is too similar to {known!r}, which is already invited"
            raise UsageError(f"{what}; give another name")
    before = invited.get(name)
    if before is not None and before.role != role:
        raise UsageError(f"{name!r} is already invited as {before.role}; give another name")
    if state.certificates and name in state.certificates[-1].revoked:
        raise UsageError(f"{name!r} has left, and its name cannot be used again; give another name")
    if state.certificates and before is None and role != REQUESTER:
        raise UsageError("the federation is set up: only requesters can join it now")


def uninvite(home: Home, name: str) -> None:
    """Cancel an invitation. Members of a federation that is set up cannot be uninvited."""
    with _inviting:
        invited = home.store.expect("invited", dict[str, Invited])
        if name not in invited:
            raise UsageError(f"{name!r} is not invited (invited: {', '.join(sorted(invited)) or 'none'})")
        certified = home.store.expect("state", KeyCentreRecord).certificates
        if certified and invited[name].role != REQUESTER:
            raise UsageError("the federation is set up; a member leaves by its own `revfrf revoke`")
        with home.store.transaction():
            home.store.write(invited={known: who for known, who in invited.items() if known != name})
            home.audit.append("uninvited", name=name)


@hides_locals
def join_federation(path: str | os.PathLike[str], text: str, *, allow_insecure: bool = False) -> PartyId:
    """Create a party's keys and directory or, if it has one, renew the TLS certificate of its keys.

    `allow_insecure` is settled when a party first joins.
    """
    token = Token.parse(text)
    home = Path(path).expanduser().absolute()
    if (home / CONFIG).exists():
        if allow_insecure:
            what = f"{home} has joined before, and short keys were allowed or not then"
            raise UsageError(f"{what}; leave --allow-insecure out to renew its TLS certificate")
        _renew(home, token)
        return token.who
    role, name = token.who.role, token.who.name
    own = {"coordinator": token.address}
    if role == CS:
        host, _, port = token.address.rpartition(":")
        open_to = host if host in ("127.0.0.1", "localhost", "[::1]") else "0.0.0.0"  # noqa: S104
        own = {"listen": f"{open_to}:{port}", "target": "label", "task": "classes"}
    config = new_config(federation=token.federation, role=role, name=name, **own)
    kgc, signing = VerifyKey(token.kgc_verify_key), SigningKey.generate()
    facts: dict[str, Any] = {
        "identity": Identity(name, role, kgc, signing, allow_insecure),
        "tls": join(token, signing.verify_key.raw).to_fields(),
        "insecure": allow_insecure,
    }
    if role == PARTICIPANT:
        facts["secret"] = secrets.token_bytes(32)
    _create(home, config, kgc, facts)
    return token.who


@hides_locals
def _renew(path: Path, token: Token) -> None:
    with closing(Home.open(path)) as home:
        if home.who != token.who or home.config.party.federation != token.federation:
            whose = f"{path} is the directory of {home.who.name!r}"
            raise UsageError(f"{whose}; the token is for {token.who.name!r}")
        if token.ca_pem != home.tls().ca_pem:
            raise UsageError("the token belongs to another federation with the same name")
        if token.serial <= home.tls().passport.serial:
            raise UsageError(f"{path} has already used this token, or a newer one; ask KGC for a new token")
        tls = join(token, home.signing().verify_key.raw)
        with home.store.transaction():
            home.store.write(tls=tls.to_fields())
            home.audit.append("TLS certificate renewed", serial=token.serial)
        home.store.scrub()
