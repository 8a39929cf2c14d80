"""A party's directory: its configuration, its database with its keys, and its audit log.

`node.inviting` makes them.
"""

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
from revfrf.transport.letters import Sealing
from revfrf.transport.passport import PartyId, Passport
from revfrf.transport.tls import TlsIdentity

CONFIG, DATABASE, AUDIT, PUBLIC_KEY = "revfrf.toml", "party.db", "audit.log", "kgc.pub"
_STORES: dict[str, type[Store]] = {CS: CoordinatorStore, PARTICIPANT: ParticipantStore}
_MOMENT = 1.0
_LOOKS = 0.2
"""Seconds: that a database may be in use, and between two looks at whether a process runs."""


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
            made = "give the party's with -d; `revfrf join TOKEN` makes one, or `revfrf kgc init`"
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
    store: Store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Home":
        """The directory of a party that was founded or has joined. Raises ConfigError and StorageError."""
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
        """The party."""
        return PartyId(self.config.party.role, self.config.party.name)

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
            return SigningKey.from_fields(self.store.expect("signing", dict[str, str]))
        return self.identity().signing_key

    @hides_locals
    def tls(self) -> TlsIdentity:
        """By what others know the party."""
        return TlsIdentity.from_fields(self.store.expect("tls", dict[str, str]))

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
    """Whether CS no longer accepts the participant. Raises StorageError of kind `in-use` while it runs."""
    with closing(Home.open(path)) as home:
        return bool(home.store.read("left", bool))


def wait_until_left(directory: Path) -> None:
    """Until a participant's process has ended because CS no longer accepts it.

    Raises RevFRFError if it has ended otherwise.
    """
    while (left := _has_left(directory)) is None:
        time.sleep(_LOOKS)
    if not left:
        raise RevFRFError(
            f"KGC has the request, but the process in {directory} has ended before CS refused it; "
            "`revfrf history` at CS says whether it has left",
            kind="absent",
        )


def _has_left(directory: Path) -> bool | None:
    """See `has_left`; None while a process runs there, if only to its end."""
    try:
        return None if is_running(directory / CONTROL) else has_left(directory)
    except StorageError as error:
        if error.kind != "in-use":
            raise
        return None


class Pins:
    """Who has come by which certificate. A token is good for one: of two who come with it, the first counts,
    until KGC has invited anew.
    """

    def __init__(self, store: Store) -> None:
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


def days_left(passport: Passport) -> int:
    """Until a certificate ends."""
    return (passport.not_after - datetime.now(UTC)).days
