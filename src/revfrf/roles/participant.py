"""A participant: owns columns of the rows, and keeps its thresholds to itself."""

import secrets
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from revfrf.errors import ProtocolError
from revfrf.forest.kernel import Paths
from revfrf.forest.noise import id_records, row_records
from revfrf.forest.seeds import noise_secret
from revfrf.io.party_data import Rows
from revfrf.messages.alignment import NUMBERS, Align, Drop, MatchRequest, NumberedRows, SchemaRequest
from revfrf.messages.base import Done, Message
from revfrf.messages.events import Countersigned, EventNotice
from revfrf.messages.fle_expan import Column, OpenForest, Schema
from revfrf.messages.frf_revoc import RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import Admission, EpochCertificate, KeyDeal
from revfrf.protocols.alignment import answer_align, answer_match
from revfrf.protocols.certificate import sign_revocation
from revfrf.protocols.columns import ColumnSettings, check_columns
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.noise import expect_spending
from revfrf.protocols.registry import PROTOCOLS
from revfrf.protocols.sides import TRAINING, OwnerSide
from revfrf.roles.party import PolicyParty
from revfrf.storage.memory import ParticipantStore, Spending

_TABLES = 4
"""How many tables to test on a participant holds at a time. The oldest is dropped first."""


class Participant(PolicyParty):
    """One owner of columns, in one forest.

    `secret` keys its private draws and is kept for the forest's life. `tables` are the rows it holds, as
    x̂ of shape (n_columns, n_rows), with their `numbers`: the training rows, and others that the forest is
    tested on. It is handed them, or takes them from its `rows` when CS names their ids. `policy` says whose
    encrypted requests it lets its splits be compared with.
    """

    store: ParticipantStore

    def __init__(
        self,
        identity: Identity,
        columns: Sequence[Column],
        secret: bytes,
        store: ParticipantStore,
        n_jobs: int = 1,
    ) -> None:
        super().__init__(identity, n_jobs, store)
        self.columns = tuple(columns)
        self.secret = secret
        self.settings: Mapping[str, ColumnSettings] = {}
        self.tables: dict[str, NDArray[np.int64]] = {}
        self.numbers: dict[str, NDArray[np.int64]] = {}
        self._records: dict[str, Paths] = {}
        self.side: OwnerSide | None = None
        self.rows: Rows | None = None

    def remember(self) -> None:
        """See `Party.remember`. Also writes down its columns and its secret."""
        with self.store.transaction():
            super().remember()
            self.store.write(columns=self.columns, secret=self.secret)
            if self.store.spending is None:
                self.store.put_spending(Spending(noise_secret(self.secret)))

    def set_columns(self, settings: Mapping[str, ColumnSettings]) -> None:
        """Choose what CS sees of some columns, by name; it counts for their next books. Raises UsageError."""
        check_columns(self.identity.name, self.columns, settings)
        self.store.write(settings=dict(settings))
        self.settings = settings

    def recall(self) -> None:
        """See `Party.recall`. Reads the training rows and their forest, if there are any yet."""
        super().recall()
        self.settings = self.store.read("settings", dict[str, ColumnSettings]) or {}
        if self.store.read("column 0", bytes) is not None:
            columns = (self.store.expect(f"column {i}", bytes) for i in range(len(self.columns)))
            held = [np.frombuffer(c, dtype="<i8").astype(np.int64) for c in columns]
            self.tables[TRAINING] = np.stack(held)
            numbers = self.store.expect("numbers", bytes)
            self.numbers[TRAINING] = np.frombuffer(numbers, NUMBERS).astype(np.int64)
            records = self.store.read("records", bytes)
            if records is not None:
                self._records[TRAINING] = np.frombuffer(records, "<u8").astype(np.uint64)
        opening = self.store.read("forest", OpenForest)
        if opening is not None:
            self.resume(opening)

    def hold(
        self,
        table: str,
        codes: NDArray[np.int64],
        numbers: NDArray[np.int64] | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        """Keep a table of rows to train or to test on; without numbers, the first row has number 0.

        Rows without ids are known by their values. The training rows stay for the forest's life.
        """
        numbers = np.arange(codes.shape[1]) if numbers is None else numbers
        self._records.pop(table, None)
        if ids is not None:
            self._records[table] = id_records(expect_spending(self.store).secret, ids)
        if table == TRAINING:
            columns = {f"column {i}": column.astype("<i8").tobytes() for i, column in enumerate(codes)}
            self.store.write(numbers=numbers.astype(NUMBERS).tobytes(), **columns)
            if ids is not None:
                self.store.write(records=self._records[table].astype("<u8").tobytes())
        self.numbers[table], self.tables[table] = numbers, codes

    def records(self, table: str) -> Paths:
        """Return the numbers of the records in a table that it holds, by which noise is drawn."""
        if table not in self._records:
            self._records[table] = row_records(expect_spending(self.store).secret, self.table(table))
        return self._records[table]

    def drop(self, table: str) -> None:
        """Forget a table, unless it is that of the training rows."""
        if table != TRAINING:
            self.tables.pop(table, None)
            self.numbers.pop(table, None)
            self._records.pop(table, None)

    def handle(self, sender: str, message: Message) -> Message:
        """Answer KGC and CS."""
        if isinstance(message, SchemaRequest | MatchRequest | Align | Drop):
            self.check_epoch(message.epoch)
        match message:
            case OpenForest():
                return self._open(message)
            case SchemaRequest():
                return Schema(columns=self.columns, n_rows=len(self._rows.ids))
            case MatchRequest():
                return answer_match(self._rows.ids, self.identity.federation, message, self.n_jobs)
            case Align():
                self._align(message)
                return Done()
            case Drop():
                self.drop(message.table)
                return Done()
            case KeyDeal() | EpochCertificate() | EventNotice() | Admission():
                return super().handle(sender, message)
        if self.side is None:
            raise ProtocolError("there is no forest", kind="forest")
        answered = self.side.handle(message)
        return super().handle(sender, message) if answered is None else answered

    @property
    def _rows(self) -> Rows:
        if self.rows is None:
            raise ProtocolError(f"{self.identity.name!r} has no file with rows", kind="schema")
        return self.rows

    def _align(self, message: Align) -> None:
        """Take the rows that CS names. The training rows are settled once, for the forest's life."""
        rows, table = message.rows, message.table
        known = self.store.read("ids", str) if table == TRAINING else None
        if known is not None:
            if NumberedRows(self.numbers[TRAINING].astype(NUMBERS).tobytes(), known) != rows:
                raise ProtocolError("other rows than those agreed on before", kind="schema")
            return
        numbers, codes = answer_align(self._rows, self.columns, message, clamp=table != TRAINING)
        if table == TRAINING:
            with self.store.transaction():
                self.store.write(ids=rows.ids)
                self.hold(TRAINING, codes, numbers, rows.ids.split("\n"))
            return
        others = [name for name in self.tables if name not in (TRAINING, table)]
        for oldest in others[: max(0, len(others) - _TABLES + 1)]:
            self.drop(oldest)
        self.hold(table, codes, numbers, rows.ids.split("\n"))

    def _open(self, message: OpenForest) -> Schema:
        self.check_forest(message)
        if self.side is not None and self.side.opening.forest != message.forest:
            raise ProtocolError("a second forest", kind="forest")
        codes = self.table(TRAINING)
        if self.certificate.forest_protocol == "paper" and {*self.settings.values()} - {ColumnSettings()}:
            what = "settings of columns are for the shares protocol, and this federation has the paper's"
            raise ProtocolError(f"{what}; remove them", kind="schema")
        if self.side is None:
            self.store.write(forest=message)
            self.resume(message)
        return Schema(columns=self.columns, n_rows=codes.shape[1])

    def _countersign(self, message: EventNotice) -> Countersigned:
        """See `Party._countersign`. Also signs which of its cuts the forest uses, if CS tells."""
        signed = super()._countersign(message)
        if self.side is None or message.event.report.forest != self.side.opening.forest:
            raise ProtocolError("an event of another forest", kind="forest")
        if message.used is None:
            return signed
        receipt, salt = self.side.countersign(message.event, message.used)
        return Countersigned(receipts=(receipt, *signed.receipts), salt=salt)

    def leave(self, level: RevocationLevel) -> RevocationRequest:
        """Sign a request to leave the forest, for KGC."""
        if self.side is None:
            raise ProtocolError("there is no forest to leave", kind="forest")
        return sign_revocation(self.identity, self.side.opening.forest, level)

    def erase(self) -> None:
        """After leaving, erase its books or splits, its training rows, its secret, and its keys of DT-PKC.

        Who it is stays: its signing key, and the epochs that it was in. So does what its noise has cost, with
        the noise secret: coming back does not give it a new budget.
        """
        self.side, self.tables, self.numbers, self._records = None, {}, {}, {}
        self.secret = secrets.token_bytes(len(self.secret))
        self.identity.keys = self.identity.pending_keys = None
        with self.store.transaction():
            self.store.erase([column.name for column in self.columns])
            self.remember()
        self.store.scrub()

    def resume(self, opening: OpenForest) -> None:
        """Continue with a forest that was opened before."""
        self.side = PROTOCOLS[self.certificate.forest_protocol].owner(self, opening)

    def table(self, name: str) -> NDArray[np.int64]:
        """Return a table that it holds. Raises ProtocolError."""
        if name not in self.tables:
            raise ProtocolError(f"{self.identity.name!r} holds no table {name!r}", kind="forest")
        return self.tables[name]
