"""Encrypted predictions for rows in a file, and the requester's process."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from revfrf.errors import AbsentError, RefusedError, RevFRFError
from revfrf.io.party_data import read_rows
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_predict import ForestFacts
from revfrf.messages.key_setup import AdmissionRequest
from revfrf.names import KGC
from revfrf.node.api import OnProgress, PredictEncrypted, Predictions, Progress
from revfrf.node.config import Config
from revfrf.node.home import Home
from revfrf.node.service import Service
from revfrf.parallel import workers
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.paper.frf_predict import Answer, ask_facts
from revfrf.roles.requester import Requester
from revfrf.transport.base import Channel


def predict_encrypted(
    service: Service, requester: Requester, request: PredictEncrypted, on_progress: OnProgress
) -> Predictions:
    """Run FRF-Predict on the rows of a file. A party that disconnects in between is waited for.

    Raises RefusedError and AbsentError, which name the party.
    """
    facts = _facts(service.endpoint, requester.identity)
    named = _names(facts)
    categories = {c.name for columns in named.values() for c in columns if c.categories is not None}
    rows = read_rows(request.file, request.id_column, categories=categories)
    codes = {party: rows.codes(columns, clamp=True) for party, columns in named.items()}

    def answered(n_rows: int) -> None:
        done = n_rows / max(1, len(rows.ids))
        on_progress(Progress("predicting", f"{n_rows} of {len(rows.ids)} rows", done))

    def wait(error: AbsentError) -> None:
        """Wait until CS says that only those are offline that were so from the start."""
        if error.party in facts.absent:
            raise error
        on_progress(Progress(f"waiting for {error.party!r}", waiting=True))
        until = time.monotonic() + service.config.network.patience
        while service.loop.pause() and time.monotonic() < until:
            with suppress(AbsentError):
                if {*ask_facts(service.endpoint, requester.identity).absent} <= {*facts.absent}:
                    return
        raise error

    service.audit.append("asked", rows=len(rows.ids))
    answer = requester.ask(codes, request.voting, request.partial, answered, wait, facts)
    return _predictions(request.id_column, rows.ids, facts, answer)


def _facts(channel: Channel, identity: Identity) -> ForestFacts:
    """Return what the forest needs. Ask KGC for admission first, unless it was given in this epoch."""
    if identity.admission is not None:
        with suppress(RefusedError):
            return ask_facts(channel, identity)
    channel.call(KGC, AdmissionRequest(), Done)
    return ask_facts(channel, identity)


def _names(facts: ForestFacts) -> dict[str, list[Column]]:
    """Return the columns of each party as the file names them: party/name if two parties use one name."""
    count = Counter(column.name for columns in facts.columns.values() for column in columns)

    def named(party: str, column: Column) -> Column:
        name = column.name if count[column.name] == 1 else f"{party}/{column.name}"
        return msgspec.structs.replace(column, name=name)

    return {party: [named(party, c) for c in columns] for party, columns in facts.columns.items()}


def _predictions(id_column: str, ids: Sequence[str], facts: ForestFacts, answer: Answer) -> Predictions:
    """Return what the votes say, and which fraction of the trees has voted."""
    votes = answer.votes
    if not votes.n_voted.all():
        raise RevFRFError("no tree could vote for some rows: too many parties are offline", kind="absent")
    probability = None
    if facts.n_votes == 1:
        prediction = votes.numbers(facts.centre, facts.vote_places).tolist()
    else:
        labels = facts.labels or tuple(map(str, range(facts.n_votes)))
        prediction = [labels[place] for place in votes.classes()]
        probability = tuple(votes.probabilities().max(axis=1).tolist())
    coverage = tuple((votes.n_voted / facts.opening.rules.n_trees).tolist())
    return Predictions(
        id_column, tuple(ids), tuple(prediction), probability, coverage, offline=tuple(answer.absent)
    )


class RequesterService(Service):
    """A party that holds whole rows, and has them predicted."""

    role: Requester

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        self.role = Requester(home.identity(), self.endpoint, workers(config.work.workers), home.store)

    def predict_encrypted(self, request: PredictEncrypted, on_progress: OnProgress) -> Predictions:
        return predict_encrypted(self, self.role, request, on_progress)
