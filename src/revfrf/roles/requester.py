"""A requester: holds whole rows, shows them to nobody, and wants the forest's answer."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from revfrf.errors import AbsentError, UsageError
from revfrf.forest.voting import Votes, Voting
from revfrf.messages.frf_predict import ForestFacts
from revfrf.messages.key_setup import DtpkcParameters
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.paper.frf_predict import Answer, ask, ask_facts, rows_at_once
from revfrf.roles.party import Party
from revfrf.storage.memory import Store
from revfrf.transport.base import Channel


class Requester(Party):
    """A party that KGC has admitted; a participant may be one, too."""

    def __init__(
        self, identity: Identity, channel: Channel, n_jobs: int = 1, store: Store | None = None
    ) -> None:
        super().__init__(identity, n_jobs, store)
        self.channel = channel

    def forget_keys_but(self, dtpkc: DtpkcParameters | None) -> None:
        """Forget, without a trace, what was made under any other modulus, or under none."""
        keys = self.identity.keys
        if keys is None or keys.dtpkc != dtpkc:
            self.identity.keys = self.identity.pending_keys = self.identity.admission = None
            self.store.write(identity=self.identity)
            self.store.scrub()

    def ask(
        self,
        codes: Mapping[str, NDArray[np.int64]],
        voting: Voting,
        partial: bool = False,
        progress: Callable[[int], None] = lambda _: None,
        wait: Callable[[AbsentError], None] | None = None,
        facts: ForestFacts | None = None,
    ) -> Answer:
        """Return the forest's answer for these rows: each party's x̂, of shape (n_columns, n_rows).

        Long tables become several requests; `progress` gets the number of rows answered so far. If a party is
        offline, `wait` returns when it is back, and the failed request is repeated, or it raises. `facts` are
        those of the forest, if they are known. Raises RefusedError and AbsentError, which name the party.
        """
        facts = facts or ask_facts(self.channel, self.identity)
        if self.identity.keys is None:
            raise UsageError("encrypted requests need protocol='paper'")
        n_rows = max((table.shape[1] for table in codes.values()), default=0)
        if not n_rows:
            raise UsageError("there are no rows to ask about")
        size, answers = rows_at_once(facts, self.identity.weak.parameters), list[Answer]()
        while (begin := size * len(answers)) < n_rows:
            progress(begin)
            some = {party: table[:, begin : begin + size] for party, table in codes.items()}
            try:
                answers.append(ask(self.channel, self.identity, facts, some, voting, partial, self.n_jobs))
            except AbsentError as error:
                if wait is None:
                    raise
                wait(error)
        absent = tuple(sorted({party for answer in answers for party in answer.absent}))
        return Answer(Votes.joined([answer.votes for answer in answers]), absent)
