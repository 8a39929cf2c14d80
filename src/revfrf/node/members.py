"""The processes of CC and the participants. CS's is in `node.coordinator`, KGC's in `node.kgc`."""

import logging
import secrets
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from revfrf.errors import AbsentError, RefusedError
from revfrf.forest.noise import UNIT
from revfrf.forest.seeds import master_seed, participant_secret
from revfrf.io.party_data import read_rows
from revfrf.lifecycle import check_somebody_stays
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Column
from revfrf.names import KGC
from revfrf.node import api
from revfrf.node.api import OnProgress
from revfrf.node.config import Config
from revfrf.node.home import Home
from revfrf.node.logs import step
from revfrf.node.requester import predict_encrypted
from revfrf.node.service import Service
from revfrf.parallel import workers
from revfrf.protocols.columns import ColumnSettings, revealed
from revfrf.protocols.sides import TRAINING
from revfrf.roles.compute import ComputePartner
from revfrf.roles.participant import Participant
from revfrf.roles.requester import Requester
from revfrf.storage.memory import ParticipantStore, Spending
from revfrf.transport.codec import encode

log = logging.getLogger("revfrf.serve")


class ComputeService(Service):
    """CC."""

    role: ComputePartner

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        self.role = ComputePartner(home.identity(), workers(config.work.workers), home.store)
        self.role.recall()
        self.role.policy = config.policy


class ParticipantService(Service):
    """An owner of columns, with its file."""

    role: Participant

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        store, data = cast(ParticipantStore, home.store), config.data
        own: dict[str, Any] = {"categories": data.categories, "drop": data.drop, "decimals": data.decimals}
        rows = read_rows(config.data_file, data.id_column, **own)
        columns = store.read("columns", tuple[Column, ...])
        if columns is None or store.read("ids", str) is None:
            columns = rows.columns
            store.write(columns=columns)
            if config.forest.random_state is not None:
                log.warning(
                    "random_state in [forest] replaces this party's secret: anyone who knows it can tell "
                    "which rows this party samples; leave it out except in experiments"
                )
                master = master_seed(config.forest.random_state)
                store.write(secret=participant_secret(master, home.who.name))
        else:
            rows.codes(columns, clamp=True)  # raises if a column's kind has changed
        if store.spending is None:
            store.put_spending(Spending(secrets.token_bytes(32)))
        secret, n_jobs = store.expect("secret", bytes), workers(config.work.workers)
        self.role = Participant(home.identity(), columns, secret, store, n_jobs)
        self.role.recall()
        self._choose_columns()
        self.role.rows, self.role.policy = rows, config.policy
        step(log, "rows read", file=str(config.data_file), rows=len(rows.ids), columns=len(columns))

    def _choose_columns(self) -> None:
        """Take the settings of the columns from the configuration. Books that are drawn keep theirs."""
        role, before = self.role, self.role.settings
        role.set_columns(self.config.column_settings([column.name for column in role.columns]))
        if role.store.books and any(
            replace(chosen, epsilon_budget=None) != replace(before.get(name, chosen), epsilon_budget=None)
            for name, chosen in role.settings.items()
        ):
            log.warning("[columns] has changed; the books of this forest keep their settings")

    def predict_encrypted(self, request: api.PredictEncrypted, on_progress: OnProgress) -> api.Predictions:
        requester = Requester(self.role.identity, self.endpoint, self.role.n_jobs)
        return predict_encrypted(self, requester, request, on_progress)

    def revoke(self, asked: api.Revoke, _: OnProgress) -> api.Departure:
        """Sign a request to leave, for the operator, or send it to KGC, sealed."""
        request, name = self.role.leave(asked.level), self.home.who.name
        check_somebody_stays(self.role.certificate.participants, [name])
        self.home.store.write(asked_to_leave=True)
        self.audit.append("asked to leave", level=asked.level)
        if not asked.send:
            return api.Departure(name, asked.level, request.epoch, encode(request).hex())
        try:
            self.endpoint.call(KGC, request, Done)
        except AbsentError as error:
            reason = f"{error.reason}; KGC may have the request anyway: retry, it counts once"
            raise AbsentError(error.party, reason) from None
        except RefusedError as error:
            reason = f"{error.reason}; perhaps this party has already left by an earlier request"
            raise RefusedError(error.party, reason) from None
        return api.Departure(name, asked.level, request.epoch)

    def on_expelled(self) -> None:
        """See `Service.on_expelled`. CS's word is no proof: a party that has not asked to leave keeps all."""
        step(log, "CS no longer accepts this party: it has left; the event certificate is the proof")
        asked = bool(self.home.store.read("asked_to_leave", bool))
        if asked:
            self.role.erase()
        self.home.store.write(left=True)
        self.audit.append("expelled", erased=asked)
        self.stop()

    def _revealed(self) -> dict[str, api.RevealedColumn]:
        store, found = self.role.store, dict[str, api.RevealedColumn]()
        for column, book in zip(self.role.columns, store.books, strict=False):  # none before training
            chosen = self.role.settings.get(column.name, ColumnSettings())
            spent = 0 if store.spending is None else store.spending.spent.get(column.name, 0)
            known = revealed(book.line)
            found[column.name] = api.RevealedColumn(
                **known, epsilon_spent=spent / UNIT, epsilon_budget=chosen.epsilon_budget
            )
        return found

    def status(self, request: api.Status, on_progress: OnProgress = api.no_progress) -> api.PartyStatus:
        held, columns = self.role.tables.get(TRAINING), tuple(column.name for column in self.role.columns)
        training_rows = 0 if held is None else held.shape[1]
        used = None if self.role.side is None else self.role.side.n_used
        data = api.HeldData(columns, training_rows, used, self._revealed())
        return msgspec.structs.replace(super().status(request, on_progress), data=data)
