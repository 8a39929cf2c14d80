"""A party's directory: its configuration, its database with its keys, and its audit log.

KGC founds a federation and invites; whoever has a token joins. Both work offline, and a party's keys are made
where they stay.
"""

import os
import secrets
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from revfrf.auditlog import AuditLog
from revfrf.config import Config, load_config, new_config, write_config
from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import PassportError, RevFRFError, StorageError, UsageError
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER, check_name
from revfrf.node.control import CONTROL, runs
from revfrf.protocols.identity import Identity, IdentityRecord
from revfrf.publickey import save_verify_key
from revfrf.record import Record
from revfrf.roles.kgc import KeyCentreState
from revfrf.storage.database import Database
from revfrf.storage.ownership import check_writable_by_owner_alone
from revfrf.storage.sqlite import SqliteCoordinatorStore, SqliteParticipantStore, SqliteStore
from revfrf.transport.passport import Passport, Who
from revfrf.transport.sealed import Sealing
from revfrf.transport.tls import Authority, TlsIdentity, Token, join

CONFIG, DATABASE, AUDIT, PUBLIC_KEY = "revfrf.toml", "party.db", "audit.log", "kgc.pub"
_STORES: dict[str, type[SqliteStore]] = {CS: SqliteCoordinatorStore, PARTICIPANT: SqliteParticipantStore}
_DAYS = 365
_MOMENT = 1.0
_LOOKS = 0.2
"""Seconds: that a database may be in use, and between two looks at whether a process runs."""

_OWN_SERIAL = 1
"""The number of KGC's invitation to itself; others have higher ones, each once."""

_inviting = Lock()
"""Whoever reads and writes whom KGC has invited holds it."""


class Invited(Record, frozen=True):
    """Whom KGC has invited, as what, and with which numbers: the first one that counts, and the last."""

    role: str
    first: int
    serial: int


class Pin(Record, frozen=True):
    """By which certificate a party has come: the number of its invitation, and the keys made with it."""

    serial: int
    key: bytes
    verify_key: bytes


def look(path: Path) -> Config:
    """Whose directory this is, by its configuration; a process may run in it.

    Raises ConfigError, and StorageError if it is no party's, or others could change it.
    """
    try:
        if not (path / CONFIG).exists():
            what = f"it has no {CONFIG}" if path.is_dir() else "there is no such directory"
            made = "`revfrf join TOKEN` makes one, or `revfrf kgc init`"
            raise StorageError(f"{path}: no directory of a party: {what}; {made}", kind="missing")
        for each in (path, path / CONFIG):
            check_writable_by_owner_alone(each)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", kind="io") from None
    return load_config(path / CONFIG)


def _database(home: Path) -> Database:
    """The party's database. A command that has it for a moment is waited for."""
    until = time.monotonic() + _MOMENT
    while True:
        try:
            return Database(home / DATABASE)
        except StorageError as error:
            if error.kind != "in-use":
                raise
        if time.monotonic() > until:
            what = "`revfrf serve` runs there already, or another command; stop it, or wait"
            raise StorageError(f"{home}: {what}", kind="in-use")
        time.sleep(0.05)


@dataclass
class Home:
    """An open directory; one process has it at a time."""

    path: Path
    config: Config
    store: SqliteStore

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Home":
        """The directory of a party that was founded or has joined. Raises ConfigError and StorageError."""
        home = Path(path).expanduser().absolute()
        config = look(home)
        database = _database(home)
        try:
            return cls(home, config, _STORES.get(config.party.role, SqliteStore)(database))
        except BaseException:
            database.close()
            raise

    @property
    def who(self) -> Who:
        """The party."""
        return Who(self.config.party.role, self.config.party.name)

    @property
    def allow_insecure(self) -> bool:
        """Whether keys may be too short to protect anything."""
        return bool(self.store.read("insecure", bool))

    @cached_property
    def audit(self) -> AuditLog:
        """What this party has done, open from its first use until the directory is closed."""
        party = self.config.party
        return AuditLog(self.path / AUDIT, (party.federation, party.role, party.name))

    @hides_locals
    def identity(self) -> Identity:
        """What the party knows of itself."""
        return self.store.expect("identity", IdentityRecord).identity(self.allow_insecure)

    @hides_locals
    def signing(self) -> SigningKey:
        """The key by which the party signs."""
        if self.who.role == KGC:
            return SigningKey.from_fields(self.store.expect("signing", dict[str, str]), self.allow_insecure)
        return self.identity().signing_key

    @hides_locals
    def tls(self) -> TlsIdentity:
        """By what others know the party."""
        return TlsIdentity.from_fields(self.store.expect("tls", dict[str, str]), self.allow_insecure)

    @hides_locals
    def sealing(self) -> Sealing:
        """What the party seals and opens letters with."""
        return Sealing(self.tls(), self.signing())

    def close(self) -> None:
        """What was not written has not happened."""
        if "audit" in vars(self):
            self.audit.close()
        self.store.close()


def has_left(path: Path) -> bool:
    """Whether CS lets the participant in no more. Raises StorageError of kind `in-use` while it runs."""
    with closing(Home.open(path)) as home:
        return bool(home.store.read("left", bool))


def wait_until_left(directory: Path) -> None:
    """Until a participant's process has ended because CS lets it in no more.

    Raises RevFRFError if it has ended otherwise.
    """
    while (left := _has_left(directory)) is None:
        time.sleep(_LOOKS)
    if not left:
        raise RevFRFError(
            f"KGC has the request, but the process in {directory} has ended before CS let it in no more; "
            "`revfrf history` at CS says whether it has left",
            kind="absent",
        )


def _has_left(directory: Path) -> bool | None:
    """See `has_left`; None while a process runs there, if only to its end."""
    try:
        return None if runs(directory / CONTROL) else has_left(directory)
    except StorageError as error:
        if error.kind != "in-use":
            raise
        return None


class Pins:
    """Who has come by which certificate. A token is good for one: of two who come with it, the first counts,
    until KGC has invited anew.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._lock = store, Lock()
        self._known = store.read("pins", dict[str, Pin]) or {}

    @property
    def verify_keys(self) -> dict[str, bytes]:
        """By which key each of them signs."""
        return {name: pin.verify_key for name, pin in self._known.items()}

    def admit(self, passport: Passport) -> None:
        """Raise PassportError for somebody who has come after another of the same name."""
        name, found = passport.who.name, Pin(passport.serial, passport.key_digest, passport.verify_key)
        with self._lock:
            known = self._known.get(name)
            if known == found:
                return
            if known is not None and known.serial >= found.serial:
                raise PassportError(f"{name!r} has come by another certificate before", kind="replaced")
            self._store.write(pins=self._known | {name: found})
            self._known = self._known | {name: found}


# -- making directories -----------------------------------------------------------------------------


def _create(path: Path, config: Config, kgc: VerifyKey, facts: Mapping[str, Any]) -> None:
    """A new directory with these facts in its database."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{path} is not empty; give another directory")
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", kind="io") from None
    check_writable_by_owner_alone(path)
    store = SqliteStore(Database(path / DATABASE, create=True))
    try:
        store.write(**facts)
    finally:
        store.close()
    save_verify_key(path / PUBLIC_KEY, kgc)
    write_config(path / CONFIG, config)  # last: a directory without it is none


@hides_locals
def found(path: str | os.PathLike[str], federation: str, coordinator: str, **keys: Any) -> None:
    """KGC: a new federation, whose coordinator will listen at this address."""
    check_name("federation", federation)
    home = Path(path).expanduser().absolute()
    config = new_config(federation=federation, role=KGC, name=KGC, coordinator=coordinator, **keys)
    signing, authority = SigningKey.generate(), Authority.new(federation)
    token = authority.invite(Who(KGC, KGC), coordinator, signing.verify_key.raw, _OWN_SERIAL, 3650)
    tls = join(token, signing.verify_key.raw)
    facts = {
        "signing": signing.to_fields(),
        "authority": authority.to_fields(),
        "tls": tls.to_fields(),
        "insecure": config.keys is not None and config.keys.allow_insecure,
        "state": KeyCentreState(),
        "invited": {},
        "serial": _OWN_SERIAL,
    }
    _create(home, config, signing.verify_key, facts)


def invite(home: Home, role: str, name: str, days: int = _DAYS) -> Token:
    """KGC: a token by which a party joins, or, if it has joined before, gets a new certificate."""
    with _inviting:
        return _invite(home, role, name, days)


@hides_locals
def _invite(home: Home, role: str, name: str, days: int) -> Token:
    if home.who.role != KGC:
        raise UsageError(f"{home.path} is the directory of {home.who.name!r}; KGC alone invites")
    if role in (CS, CC):
        if name not in ("", role):
            raise UsageError(f"{role} is called {role} in every federation; leave {name!r} out")
        name = role
    elif role in (PARTICIPANT, REQUESTER):
        if not name:
            raise UsageError(f"a {role} needs a name: revfrf kgc invite {role} NAME")
        check_name(role, name)
    else:
        raise UsageError(f"role {role!r}: give {CS}, {CC}, {PARTICIPANT} or {REQUESTER}, and then the name")
    invited = home.store.expect("invited", dict[str, Invited])
    for known in invited.keys() - {name}:
        if known.casefold() == name.casefold():
            raise UsageError(f"{name!r} is too like {known!r}, who is invited already; give another name")
    before = invited.get(name)
    state = home.store.expect("state", KeyCentreState)
    if before is not None and before.role != role:
        raise UsageError(f"{name!r} is invited as {before.role} already; give another name")
    if state.certificates and name in state.certificates[-1].revoked:
        raise UsageError(f"{name!r} has left, and its name with it; give another name")
    if state.certificates and before is None and role != REQUESTER:
        raise UsageError("the federation is set up: nobody can join it any more but requesters")
    serial = home.store.expect("serial", int) + 1
    authority = Authority.from_fields(home.store.expect("authority", dict[str, str]), home.allow_insecure)
    address = home.config.network.coordinator or ""
    token = authority.invite(Who(role, name), address, home.signing().verify_key.raw, serial, days)
    first = serial if before is None else before.first
    with home.store.transaction():
        home.store.write(invited=invited | {name: Invited(role, first, serial)}, serial=serial)
        home.audit.append("invited", role=role, name=name, serial=serial, first=first)
    return token


def uninvite(home: Home, name: str) -> None:
    """KGC: take an invitation back; of members of a federation that is set up it is too late for that."""
    with _inviting:
        invited = home.store.expect("invited", dict[str, Invited])
        if name not in invited:
            raise UsageError(f"{name!r} is not invited; invited are {', '.join(sorted(invited)) or 'none'}")
        certified = home.store.expect("state", KeyCentreState).certificates
        if certified and invited[name].role != REQUESTER:
            raise UsageError("the federation is set up; whoever is in it leaves by itself: `revfrf revoke`")
        with home.store.transaction():
            home.store.write(invited={known: who for known, who in invited.items() if known != name})
            home.audit.append("uninvited", name=name)


@hides_locals
def join_federation(path: str | os.PathLike[str], text: str, *, allow_insecure: bool = False) -> Who:
    """Make a party's keys and directory; in the directory that it has, a new certificate for its keys.

    `allow_insecure` is settled when a party first joins.
    """
    token = Token.parse(text)
    home = Path(path).expanduser().absolute()
    if (home / CONFIG).exists():
        if allow_insecure:
            raise UsageError(
                f"{home} has joined before, and whether short keys will do was settled then; leave "
                "--allow-insecure out, and its certificate is renewed"
            )
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
    tls = join(token, signing.verify_key.raw)
    facts: dict[str, Any] = {
        "identity": Identity(name, role, kgc, signing, allow_insecure),
        "tls": tls.to_fields(),
        "insecure": allow_insecure,
    }
    if role == PARTICIPANT:
        facts["secret"] = secrets.token_bytes(32)
    _create(home, config, kgc, facts)
    return token.who


@hides_locals
def _renew(path: Path, token: Token) -> None:
    home = Home.open(path)
    try:
        if home.who != token.who or home.config.party.federation != token.federation:
            raise UsageError(
                f"{path} is the directory of {home.who.name!r}; the token is for {token.who.name!r}"
            )
        if token.ca_pem != home.tls().ca_pem:
            raise UsageError("the token is of another federation with the same name")
        if token.serial <= home.tls().passport.serial:
            raise UsageError(
                f"{path} has a certificate by this token, or a newer one; ask KGC for a new token"
            )
        tls = join(token, home.signing().verify_key.raw)
        with home.store.transaction():
            home.store.write(tls=tls.to_fields())
            home.audit.append("certificate renewed", serial=token.serial)
        home.store.scrub()
    finally:
        home.close()


def days_left(passport: Passport) -> int:
    """Until a certificate ends."""
    return (passport.not_after - datetime.now(UTC)).days
