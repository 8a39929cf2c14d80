"""A forest's life with an ear on the network, once for all tests."""

import random

import pytest

from revfrf.embedded.federation import Federation
from revfrf.messages.fle_expan import Column
from revfrf.testing.federations import Case, ignore, targets_of, toy_keys, with_rules
from tests.views.overheard import (
    ASKING,
    DECIMALS,
    LEAVER,
    N_ROWS,
    OWNED,
    Asked,
    Held,
    Run,
    Table,
    canaries,
    watching,
)


def case_of(n_classes: int) -> tuple[Case, Table]:
    """Features that are canaries; for a regression the targets too, for classes weights besides."""
    rng = random.Random(n_classes)
    raw, codes = canaries(rng, N_ROWS)
    y = [float(rng.randrange(n_classes)) if n_classes else rng.uniform(1e6, 2e6) for _ in range(N_ROWS)]
    rules = with_rules(
        n_trees=3, min_samples_leaf=2, method="uniform" if n_classes else "quantile", candidate_limit=2**62
    )
    weights = [rng.uniform(1, 2) for _ in range(N_ROWS)] if n_classes else None
    return Case(codes, y, n_classes, rules, weights, rng.randbytes(32)), raw


@pytest.fixture(scope="session", params=[0, 3], ids=["regression", "classes"])
def run(request: pytest.FixtureRequest) -> Run:
    """Key set-up, training, FRF-Test, requests, and a participant that leaves, with an ear on the network."""
    case, raw = case_of(request.param)
    columns = {p: [Column(f"x{i}", DECIMALS, 64, None) for i in range(n)] for p, n in OWNED.items()}
    with watching() as watch:
        federation = Federation(columns, setup=toy_keys(), seed=case.seed)
        federation.train(case.codes, case.rules, targets_of(case), ignore)
        federation.votes(case.codes, N_ROWS, "soft")
        federation.enrol_requester("clinic")
        rng, requests = random.Random(f"rows {request.param}"), []
        for name, (n_rows, voting) in ASKING.items():
            values, codes = canaries(rng, n_rows)
            requester = None if name == "requester" else name
            answer = federation.ask(codes, requester, voting, False, lambda _: None)
            requests.append(Asked(name, values, codes, voting, answer.votes.totals))
        before, n_before = Held.by(federation), len(watch.sent)
        federation.revoke([LEAVER], 2, ignore)
        after = Held.by(federation, "new ")
    books = federation.leakage(), federation.costs()
    return Run(case, raw, federation, watch, requests, before, after, n_before, *books)
