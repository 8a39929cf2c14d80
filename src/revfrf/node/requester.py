"""Requests from another machine: rows in a file go out encrypted, and answers come back."""

import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revfrf.errors import AbsentError, RefusedError, RevFRFError
from revfrf.forest.voting import Voting, numbers
from revfrf.io.party_data import Rows, read_rows
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_predict import ForestFacts
from revfrf.messages.key_setup import AdmissionRequest
from revfrf.names import KGC
from revfrf.node.config import Config
from revfrf.node.control import Tell
from revfrf.node.home import Home
from revfrf.node.service import Service
from revfrf.parallel import workers
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.paper.frf_predict import Answer, ask_facts
from revfrf.roles.requester import Requester
from revfrf.transport.base import Channel


def ask_about(
    service: Service,
    requester: Requester,
    *,
    tell: Tell,
    file: str,
    id_column: str = "id",
    voting: Voting = "hard",
    partial: bool = False,
) -> dict[str, Any]:
    """FRF-Predict on the rows of a file. Whoever goes meanwhile is waited for.

    Raises RefusedError and AbsentError, which name the party.
    """
    facts = _facts(service.endpoint, requester.identity)
    rows = read_rows(file, id_column, categories=_categories(facts))

    def progress(done: int) -> None:
        tell({"rows": done, "of": len(rows.ids)})

    def wait(error: AbsentError) -> None:
        if error.party in facts.absent:  # from the beginning
            raise error
        tell({"step": f"waiting for {error.party!r}"})
        _wait(service, requester.identity, facts.absent, error)

    service.audit.append("asked", rows=len(rows.ids))
    answer = requester.ask(_codes(facts, rows), voting, partial, progress, wait)
    told = {"id_column": id_column, "ids": list(rows.ids), "absent": list(answer.absent)}
    return told | _answers(facts, answer)


def _facts(channel: Channel, identity: Identity) -> ForestFacts:
    """What the forest asks for. KGC is asked first if it has not admitted us in this epoch."""
    if identity.admission is not None:
        with suppress(RefusedError):
            return ask_facts(channel, identity)
    channel.call(KGC, AdmissionRequest(), Done)
    return ask_facts(channel, identity)


def _wait(service: Service, identity: Identity, away: Collection[str], error: AbsentError) -> None:
    """Until CS says that nobody is away but these. Raises the error if that takes longer than the party's
    patience.
    """
    until = time.monotonic() + service.config.network.patience
    while service.pause() and time.monotonic() < until:
        with suppress(AbsentError):
            if {*ask_facts(service.endpoint, identity).absent} <= {*away}:
                return
    raise error


def _names(facts: ForestFacts) -> dict[str, list[Column]]:
    """What the file calls each party's columns: by their names, or party/name if two have the same."""
    count = Counter(column.name for columns in facts.columns.values() for column in columns)

    def named(party: str, column: Column) -> Column:
        name = column.name if count[column.name] == 1 else f"{party}/{column.name}"
        return Column(name, column.decimals, column.categories)

    return {party: [named(party, c) for c in columns] for party, columns in facts.columns.items()}


def _categories(facts: ForestFacts) -> set[str]:
    return {c.name for columns in _names(facts).values() for c in columns if c.categories is not None}


def _codes(facts: ForestFacts, rows: Rows) -> dict[str, NDArray[np.int64]]:
    return {party: rows.codes(columns) for party, columns in _names(facts).items()}


def _answers(facts: ForestFacts, answer: Answer) -> dict[str, Any]:
    """What the votes say, and how many of the trees have voted."""
    if not answer.n_voted.all():
        raise RevFRFError("no tree could vote for some rows: too many parties are away", kind="absent")
    mean = answer.votes / answer.n_voted[:, None]
    voted = (answer.n_voted / facts.opening.n_trees).tolist()
    if facts.n_votes == 1:
        return {"answers": numbers(mean, facts.centre, facts.places).tolist(), "voted": voted}
    labels = facts.labels or tuple(map(str, range(facts.n_votes)))
    best = mean.argmax(axis=1)
    shares = mean[np.arange(len(mean)), best].tolist()
    return {"answers": [labels[place] for place in best], "shares": shares, "voted": voted}


class RequesterService(Service):
    """A party that holds whole rows, and asks about them."""

    role: Requester

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        self.role = Requester(home.identity(), self.endpoint, workers(config.work.workers), home.store)

    def do_ask(self, tell: Tell, **arguments: Any) -> dict[str, Any]:
        """See `ask_about`."""
        return ask_about(self, self.role, tell=tell, **arguments)
