"""A participant: owns columns of the rows, proposes splits, keeps its thresholds to itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import ProtocolError
from revfrf.forest.tree import feature_id
from revfrf.io.party_data import Rows
from revfrf.messages.alignment import Align, Drop, MatchRequest, SchemaRequest
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import Column, LevelRequest, OpenForest, Schema
from revfrf.messages.frf_predict import ShareReply, ShareRequest
from revfrf.messages.frf_revoc import Destroy, Rekey, RevocationLevel, RevocationRequest
from revfrf.messages.frf_test import TestRequest
from revfrf.names import CC
from revfrf.protocols.alignment import aligned_codes, answer_match, rows_name
from revfrf.protocols.certificate import sign_revocation
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import check_request, enter_request
from revfrf.protocols.frf_revoc import answer_destroy, answer_rekey
from revfrf.protocols.paper.fle_expan import Growth, answer_level
from revfrf.protocols.paper.frf_test import answer_test
from revfrf.protocols.paper.ho_lt import answer_share, verify_result
from revfrf.roles.party import PolicyParty
from revfrf.storage.memory import ParticipantStore

TRAINING = "training"
_TABLES = 4
"""How many tables to test on a participant holds at a time. The oldest is dropped first."""


class Participant(PolicyParty):
    """One owner of columns, in one forest.

    `secret` keys its private draws and is kept for the forest's life. `tables` are the rows it holds, as
    x̂ of shape (n_columns, n_rows): the training rows, and others that the forest is tested on. It is handed
    them, or takes them from its `rows` when CS names their ids. `policy` says whose encrypted requests it
    lets its splits be compared with.
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
        self.tables: dict[str, NDArray[np.int64]] = {}
        self.growth: Growth | None = None
        self.rows: Rows | None = None

    def remember(self) -> None:
        """See `Party.remember`. Also writes down its columns and its secret."""
        with self.store.transaction():
            super().remember()
            self.store.write(columns=self.columns, secret=self.secret)

    def recall(self) -> None:
        """See `Party.recall`. Reads the training rows and their forest, if there are any yet."""
        super().recall()
        if self.store.read("column 0", bytes) is not None:
            columns = (self.store.expect(f"column {i}", bytes) for i in range(len(self.columns)))
            held = [np.frombuffer(c, dtype="<i8").astype(np.int64) for c in columns]
            self.tables[TRAINING] = np.stack(held)
        opening = self.store.read("forest", OpenForest)
        if opening is not None:
            self.resume(opening)

    def hold(self, table: str, codes: NDArray[np.int64]) -> None:
        """Keep a table of rows to train or to test on. The training rows stay for the forest's life."""
        if table == TRAINING:
            columns = {f"column {i}": column.astype("<i8").tobytes() for i, column in enumerate(codes)}
            self.store.write(**columns)
        self.tables[table] = codes

    def drop(self, table: str) -> None:
        """Forget a table, unless it is that of the training rows."""
        if table != TRAINING:
            self.tables.pop(table, None)

    def handle(self, sender: str, message: Message) -> Message:
        """Answer KGC and CS."""
        if isinstance(message, SchemaRequest | MatchRequest | Align | Drop):
            self.check_epoch(message.epoch)
        match message:
            case OpenForest():
                return self._open(message)
            case ShareRequest():
                return self._consent(message)
            case LevelRequest():
                return answer_level(self.identity, self._growth(message), self.store, message, self.n_jobs)
            case Destroy():
                return answer_destroy(self._growth(message), self.store, message)
            case Rekey():
                return answer_rekey(self.identity, self._growth(message), self.store, message, self.n_jobs)
            case TestRequest():
                rules = self._growth(message).rules
                return answer_test(self._table(message.table), self.store, rules, message)
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
        return super().handle(sender, message)

    @property
    def _rows(self) -> Rows:
        if self.rows is None:
            raise ProtocolError(f"{self.identity.name!r} has no file with rows", kind="schema")
        return self.rows

    def _align(self, message: Align) -> None:
        """Take the rows that CS names. The training rows are settled once, for the forest's life."""
        name, table = rows_name(message.ids), message.table
        known = self.store.read("aligned", bytes) if table == TRAINING else None
        if known is not None:
            if known != name:
                raise ProtocolError("other rows than those agreed on before", kind="schema")
            return
        codes = aligned_codes(self._rows, self.columns, message.ids, clamp=table != TRAINING)
        if table == TRAINING:
            with self.store.transaction():
                self.store.write(aligned=name)
                self.hold(TRAINING, codes)
            return
        others = [name for name in self.tables if name not in (TRAINING, table)]
        for oldest in others[: max(0, len(others) - _TABLES + 1)]:
            self.drop(oldest)
        self.hold(table, codes)

    def _open(self, message: OpenForest) -> Schema:
        self.check_forest(message)
        if self.growth is not None and self.growth.rules.forest != message.forest:
            raise ProtocolError("a second forest", kind="forest")
        codes = self._table(TRAINING)
        if self.growth is None:
            self.store.write(forest=message)
            self.resume(message)
        return Schema(columns=self.columns, n_rows=codes.shape[1])

    def _consent(self, message: ShareRequest) -> ShareReply:
        """Let CS open comparisons with this owner's splits, for a request that its policy accepts."""
        if self.growth is None:
            raise ProtocolError("there is no forest", kind="forest")
        request, forest = message.request, self.growth.rules
        check_request(self.identity, forest, self.book, request)
        verify_result(VerifyKey(self.certificate.by_name[CC].verify_key), self.identity.name, message)
        if message.count > self.store.trees_at(message.depth) * request.n_rows:
            raise ProtocolError(
                "more comparisons than rows can reach its nodes of this depth", kind="request"
            )
        enter_request(self.book, self.policy, forest, request, message.depth, message.count)
        return answer_share(self.identity.weak, message)

    def leave(self, level: RevocationLevel) -> RevocationRequest:
        """Sign a request to leave the forest, for KGC."""
        if self.growth is None:
            raise ProtocolError("there is no forest to leave", kind="forest")
        return sign_revocation(self.identity, self.growth.rules.forest, level)

    def resume(self, opening: OpenForest) -> None:
        """Continue with a forest that was opened before. Without training rows it cannot grow."""
        ids = [feature_id(self.identity.name, column.name) for column in self.columns]
        rings = [column.ring for column in self.columns]
        codes = self.tables.get(TRAINING, np.empty((len(ids), 0), dtype=np.int64))
        self.growth = Growth(opening, self.secret, codes, ids, rings)

    def _growth(self, message: LevelRequest | Destroy | Rekey | TestRequest) -> Growth:
        self.check_epoch(message.epoch)
        if self.growth is None or self.growth.rules.forest != message.forest:
            raise ProtocolError("another forest", kind="forest")
        return self.growth

    def _table(self, name: str) -> NDArray[np.int64]:
        if name not in self.tables:
            raise ProtocolError(f"{self.identity.name!r} holds no table {name!r}", kind="forest")
        return self.tables[name]
