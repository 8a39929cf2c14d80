"""Whole protocols over gRPC: the same forest, answers and books as in one process."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import PartyError
from revfrf.messages.base import Done
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import KGC
from revfrf.testing.federations import Case, ignore, random_case, train, with_rules
from revfrf.testing.recorders import until
from revfrf.transport.calls import Endpoint
from revfrf.transport.grpc import Dialler, Server
from tests.federations import in_numbers
from tests.transport.federation import GrpcNetwork, over_grpc
from tests.transport.links import LIMITS, nothing

CASE = random_case(61, rules=with_rules(n_trees=2, max_depth=3))
SOME = {party: table[:, :4] for party, table in CASE.codes.items()}

pytestmark = pytest.mark.usefixtures("prepared_moduli")


@dataclass(frozen=True)
class Outcome:
    """All that must not depend on how messages travel."""

    digest: str
    votes: object
    messages: object
    learnt: object


def outcome(federation: Federation) -> Outcome:
    some = {party: SOME[party] for party in federation.participants}
    votes = federation.votes(some, 4, "soft")
    answers = federation.ask(some, None, "soft", False, lambda _: None).votes
    assert in_numbers(answers) == in_numbers(votes)
    books = federation.network
    learnt = {key: number for key, number in books.learnt.items() if number}
    return Outcome(federation.coordinator.digest(), in_numbers(votes), dict(books.messages), learnt)


def run(case: Case, leavers: list[tuple[str, RevocationLevel]], grpc: bool) -> list[Outcome]:
    """Training, and then one after the other leaves."""
    found = []
    with over_grpc() if grpc else nullcontext():
        federation = train(case)
        assert isinstance(federation.network, GrpcNetwork) == grpc
        found.append(outcome(federation))
        for party, level in leavers:
            federation.revoke([party], level, ignore).verify(federation.kgc._keys.signing.verify_key)
            found.append(outcome(federation))
    return found


@pytest.mark.parametrize("number", [61, 62])
def test_a_forest_grown_over_grpc_is_the_same(number: int) -> None:
    case = replace(CASE, codes=random_case(number).codes, seed=bytes([number]))
    assert run(case, [], grpc=True) == run(case, [], grpc=False)


@pytest.mark.parametrize("level", [1, 2])
def test_who_leaves_over_grpc_leaves_the_same_forest(level: RevocationLevel) -> None:
    leavers = [("shop", level)]
    found = run(CASE, leavers, grpc=True)
    assert found == run(CASE, leavers, grpc=False)
    assert found[-1].digest == train(CASE.without("shop")).coordinator.digest()


def test_who_has_left_is_not_let_in_again() -> None:
    with over_grpc() as networks:
        federation = train(CASE)
        [network] = networks
        leaver = network.present["shop"].endpoint
        federation.revoke(["shop"], 1, ignore)
        digest = federation.coordinator.digest()
        network.endpoint(KGC)  # by now the leaver has hung up
        assert "shop" not in network.present
        again = Endpoint(leaver.who, nothing, leaver.sealing, LIMITS)
        server = network.present["CS"].link
        assert isinstance(server, Server)
        dialler = Dialler(again, leaver.sealing._tls, f"127.0.0.1:{server.port}")
        until(lambda: "refuses us" in dialler.problem)
        assert again.meetings() == {}
        dialler.close()
    assert digest == train(CASE.without("shop")).coordinator.digest()


def test_a_federation_goes_on_after_all_links_have_broken() -> None:
    with over_grpc() as networks:
        federation = train(CASE)
        networks[0].reconnect()
        votes = federation.votes(SOME, 4, "soft")
        answers = federation.ask(SOME, None, "soft", False, lambda _: None).votes
        assert in_numbers(answers) == in_numbers(votes)
        federation.revoke(["shop"], 1, ignore)
        networks[0].reconnect()
        assert federation.coordinator.digest() == train(CASE.without("shop")).coordinator.digest()


def test_only_who_leaves_asks_to_leave() -> None:
    with over_grpc() as networks:
        federation = train(CASE)
        request = federation.participants["shop"].leave(1)
        for other in ("bank", "telco"):
            for server in (KGC, "CS"):
                with pytest.raises(PartyError):
                    networks[0].channel(other).call(server, request, Done)
        assert not federation.leaving
