"""A party's directory, which `node.invitations` creates: configuration, database with keys, audit log."""

import os
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock

from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey
from revfrf.errors import PassportError, RevFRFError, StorageError
from revfrf.io.files import check_writable_by_owner_alone
from revfrf.names import CS, KGC, PARTICIPANT
from revfrf.node.audit_log import AuditLog
from revfrf.node.config import Config, load_config
from revfrf.node.control import CONTROL, is_running
from revfrf.protocols.common.identity import Identity, IdentityRecord
from revfrf.record import Record
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, Store
from revfrf.storage.sqlite import Database
from revfrf.transport.join_token import TlsIdentity
from revfrf.transport.letters import Sealing
from revfrf.transport.passport import PartyId, Passport

CONFIG, DATABASE, AUDIT, PUBLIC_KEY = "revfrf.toml", "party.db", "audit.log", "kgc.pub"
_STORES: dict[str, type[Store]] = {CS: CoordinatorStore, PARTICIPANT: ParticipantStore}
IN_USE_SECONDS = 1.0  # to wait for a command that uses the database
POLL_SECONDS = 0.2  # between checks whether a process runs


class Pin(Record, frozen=True):
    """The TLS certificate by which a party came: the number of its invitation, and its keys."""

    serial: int
    key: bytes
    verify_key: bytes


def look(path: Path) -> Config:
    """Return the configuration of the party whose directory this is; a process may run in it.

    Raises ConfigError, and StorageError if it is not a party's directory, or others could change it.
    """
    try:
        if not (path / CONFIG).exists():
            what = f"no {CONFIG}" if path.is_dir() else "it does not exist"
            remedy = "pass one with -d, or create one with `revfrf join TOKEN` or `revfrf kgc init`"
            raise StorageError(f"{path} is not a party directory ({what}); {remedy}", kind="missing")
        for each in (path, path / CONFIG):
            check_writable_by_owner_alone(each)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", kind="io") from None
    return load_config(path / CONFIG)


def _database(home: Path) -> Database:
    """Open the party's database. Wait a moment for a command that uses it."""
    until = time.monotonic() + IN_USE_SECONDS
    while True:
        try:
            return Database(home / DATABASE)
        except StorageError as error:
            if error.kind != "in-use":
                raise
        if time.monotonic() > until:
            what = "`revfrf serve` or another command is running there; stop it, or wait"
            raise StorageError(f"{home}: {what}", kind="in-use")
        time.sleep(0.05)


@dataclass
class Home:
    """An open directory. Only one process can have it open."""

    path: Path
    config: Config
    store: Store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Home":
        """Open the directory of a party. Raises ConfigError and StorageError."""
        home = Path(path).expanduser().absolute()
        config = look(home)
        database = _database(home)
        try:
            return cls(home, config, _STORES.get(config.party.role, Store)(database))
        except BaseException:
            database.close()
            raise

    @property
    def who(self) -> PartyId:
        return PartyId(self.config.party.role, self.config.party.name)

    @property
    def allow_insecure(self) -> bool:
        return bool(self.store.read("insecure", bool))

    @cached_property
    def audit(self) -> AuditLog:
        """The party's audit log, open from its first use until the directory is closed."""
        party = self.config.party
        return AuditLog(self.path / AUDIT, (party.federation, party.role, party.name))

    @hides_locals
    def identity(self) -> Identity:
        return self.store.expect("identity", IdentityRecord).identity(self.allow_insecure)

    @hides_locals
    def signing(self) -> SigningKey:
        if self.who.role == KGC:
            return SigningKey.from_bytes(self.store.expect("signing", bytes))
        return self.identity().signing_key

    @hides_locals
    def tls(self) -> TlsIdentity:
        return TlsIdentity.from_fields(self.store.expect("tls", dict[str, str]))

    @hides_locals
    def sealing(self) -> Sealing:
        return Sealing(self.tls(), self.signing())

    def close(self) -> None:
        if "audit" in vars(self):
            self.audit.close()
        self.store.close()


def has_left(path: Path) -> bool:
    """Return whether CS no longer accepts the participant. Raises StorageError (`in-use`) while it runs."""
    with closing(Home.open(path)) as home:
        return bool(home.store.read("left", bool))


def wait_until_left(directory: Path) -> None:
    """Wait until CS's refusal has ended a participant's process. Raises RevFRFError if it ended otherwise."""
    while True:
        while is_running(directory / CONTROL):
            time.sleep(POLL_SECONDS)
        try:
            if has_left(directory):
                return
            what = f"KGC has the request, but the process in {directory} ended before CS refused it"
            raise RevFRFError(f"{what}; `revfrf history` at CS shows whether it has left", kind="absent")
        except StorageError as error:  # it is just ending, or just starting
            if error.kind != "in-use":
                raise


class Pins:
    """The TLS certificate by which each party first came: a token is valid once. A later one replaces it."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()
        self._known = store.read("pins", dict[str, Pin]) or {}

    @property
    def verify_keys(self) -> dict[str, bytes]:
        return {name: pin.verify_key for name, pin in self._known.items()}

    def admit(self, passport: Passport) -> None:
        """Raise PassportError for a party that came after another of the same name."""
        name, found = passport.who.name, Pin(passport.serial, passport.key_digest, passport.verify_key)
        with self._lock:
            known = self._known.get(name)
            if known == found:
                return
            if known is not None and known.serial >= found.serial:
                what = f"another party called {name!r} came before with another TLS certificate"
                raise PassportError(what, kind="replaced")
            self._store.write(pins=self._known | {name: found})
            self._known = self._known | {name: found}


def days_left(passport: Passport) -> int:
    """Return the days until a TLS certificate expires."""
    return (passport.not_after - datetime.now(UTC)).days
