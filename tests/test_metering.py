"""Work is counted once, where it belongs, in whatever thread or process it is done."""

from collections import Counter
from collections.abc import Mapping, Sequence
from time import process_time, thread_time

import gmpy2
import numpy as np
import pytest

from revfrf.crypto.dtpkc.arithmetic import FixedBase, power, secret_power
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.packing import Comparison
from revfrf.crypto.secret import SecretInt
from revfrf.embedded.costs import Costs
from revfrf.embedded.federation import Federation
from revfrf.messages.frf_predict import Request
from revfrf.metering import Ledger, Work, add_work, continued, count_power, current, measured, within
from revfrf.parallel import in_processes, in_threads
from revfrf.protocols.paper import frf_predict
from revfrf.protocols.paper.ho_lt import ComparingServer, ho_lt
from revfrf.testing.federations import random_case, train
from tests.conftest import World

PUBLIC = ("public", 8)


def burn(seconds: float) -> None:
    """Keep this thread's processor busy."""
    end = thread_time() + seconds
    while thread_time() < end:
        pass


def powers(ledger: Ledger, role: str = "CS", protocol: str = "P") -> dict[tuple[str, int], int]:
    return dict(ledger.entries[role, protocol].powers)


def total(ledger: Ledger, role: str = "CS", protocol: str = "P") -> int:
    return sum(powers(ledger, role, protocol).values())


# -- counting ---------------------------------------------------------------------------------------


def test_without_a_ledger_nothing_is_counted() -> None:
    assert current() is None
    count_power("public", 8)
    add_work(Work(1.0))
    with within("P"):
        assert current() is None
    with continued(None):
        assert current() is None
    assert power(3, 5, 7) == 5


def test_powers_are_counted_by_kind_and_size() -> None:
    ledger = Ledger()
    with measured(ledger, "CS", "P"):
        power(3, 5, 2**8 - 1)
        power(3, 5, 2**8 - 1)
        secret_power(3, SecretInt(5), 2**16 - 1)
    assert powers(ledger) == {("public", 8): 2, ("secret", 16): 1}


def test_measurements_of_one_role_and_protocol_add_up() -> None:
    ledger, begin = Ledger(), thread_time()
    for _ in range(3):
        with measured(ledger, "CS", "P"):
            count_power("public", 8)
            burn(0.01)
    with measured(ledger, "CS", "Q"):
        count_power("public", 8, 5)
    assert powers(ledger) == {PUBLIC: 3}
    assert powers(ledger, protocol="Q") == {PUBLIC: 5}
    assert 0.03 <= ledger.entries["CS", "P"].seconds <= thread_time() - begin


def test_nested_work_is_counted_once_where_it_belongs() -> None:
    ledger = Ledger()
    begin = thread_time()
    with measured(ledger, "CS", "P"):
        count_power("public", 8)
        burn(0.02)
        with measured(ledger, "bank", "P"):
            count_power("public", 8, 10)
            burn(0.05)
            with within("Q"):
                count_power("public", 8, 100)
                burn(0.03)
            count_power("public", 8, 20)
        count_power("public", 8)
    spent = thread_time() - begin
    assert powers(ledger) == {PUBLIC: 2}
    assert powers(ledger, "bank") == {PUBLIC: 30}
    assert powers(ledger, "bank", "Q") == {PUBLIC: 100}
    seconds = {entry: work.seconds for entry, work in ledger.entries.items()}
    assert seconds["CS", "P"] >= 0.02
    assert seconds["bank", "P"] >= 0.05
    assert seconds["bank", "Q"] >= 0.03
    assert sum(seconds.values()) <= spent


def test_work_that_fails_is_counted_and_the_outer_measurement_goes_on() -> None:
    ledger = Ledger()

    def fail() -> None:
        with measured(ledger, "bank", "P"):
            count_power("public", 8)
            raise ValueError("broken")

    with measured(ledger, "CS", "P"):
        with pytest.raises(ValueError, match="broken"):
            fail()
        count_power("public", 8, 2)
    assert powers(ledger, "bank") == {PUBLIC: 1}
    assert powers(ledger) == {PUBLIC: 2}
    assert current() is None


# -- threads and processes --------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_work_of_threads_belongs_to_whoever_started_them(n_jobs: int) -> None:
    ledger = Ledger()

    def work(number: int) -> None:
        power(3, number, 2**8 - 1)
        burn(0.002)

    with measured(ledger, "CS", "P"):
        in_threads(work, range(20), n_jobs)
    assert powers(ledger) == {PUBLIC: 20}
    assert ledger.entries["CS", "P"].seconds >= 0.04


def test_threads_of_two_roles_do_not_mix() -> None:
    ledger = Ledger()

    def ask(number: int) -> None:
        with measured(ledger, f"party {number}", "P"):
            count_power("public", 8, number)
        count_power("public", 8)

    with measured(ledger, "CS", "P"):
        in_threads(ask, range(1, 9), 4)
    assert [total(ledger, f"party {number}") for number in range(1, 9)] == list(range(1, 9))
    assert powers(ledger) == {PUBLIC: 8}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_work_of_other_processes_belongs_to_whoever_started_them(n_jobs: int) -> None:
    ledger = Ledger()

    def squares(count: int) -> list[int]:
        end = thread_time() + 0.01 * count
        while thread_time() < end:
            pass
        return [power(number, 2, 2**8 - 1) for number in range(count)]

    with measured(ledger, "CS", "P"):
        assert len(in_processes(squares, 12, n_jobs, 0.02)) == 12
    assert powers(ledger) == {PUBLIC: 12}
    assert ledger.entries["CS", "P"].seconds >= 0.1


# -- what cryptography costs ------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 50])
def test_encryption_takes_two_powers_a_message(toy: World, count: int) -> None:
    key = WeakKey.generate(toy.parameters)
    ledger = Ledger()
    with measured(ledger, "bank", "HoEnc"):
        ho_enc(key.public, list(range(count)), n_jobs=1)
    kinds = powers(ledger, "bank", "HoEnc")
    assert {kind for kind, _ in kinds} <= {"fixed base", "secret"}
    sizes = Counter(bits for (_, bits), times in kinds.items() for _ in range(times))
    assert sizes == ({256: count, toy.parameters.n_squared.bit_length(): count} if count else {})


def test_counted_powers_are_those_that_were_computed(toy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decryption: one secret power for the share, one public one for the lift."""
    computed = []
    for name in ("powmod", "powmod_sec"):
        real = getattr(gmpy2, name)

        def spy(*args: int, name: str = name, real: object = real) -> object:
            computed.append(name)
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(gmpy2, name, spy)
    ciphertexts = ho_enc(toy.cs.public, [1, 2, 3], n_jobs=1)
    computed.clear()
    ledger = Ledger()
    with measured(ledger, "CS", "P"):
        par_h_dec1(toy.cs, ciphertexts, n_jobs=1)
        assert par_h_dec2(toy.cs, ciphertexts, n_jobs=1) == [1, 2, 3]
    assert powers(ledger) == {("secret", 256): 6, ("public", toy.parameters.n_squared.bit_length()): 3}
    assert (computed.count("powmod_sec"), computed.count("powmod")) == (6, 3)


def test_fixed_base_counts_plain_powers_until_its_table_is_made() -> None:
    base, ledger = FixedBase(3, 2**61 - 1, 32), Ledger()
    with measured(ledger, "CS", "P"):
        base.powers([5] * (FixedBase.BREAK_EVEN - 1))
        base.powers([5] * 10)
    assert powers(ledger) == {("secret", 61): FixedBase.BREAK_EVEN - 1, ("fixed base", 61): 10}


# -- a whole run ------------------------------------------------------------------------------------


def test_costs_of_a_run_are_two_powers_a_split_and_belong_to_its_owner() -> None:
    federation = train(random_case(41))
    costs, splits = federation.costs(), federation.coordinator.store.splits
    for party in federation.participants:
        own = sum(split.owner == party for split in splits.values())
        cell = costs.work[party]["FOS-Find"]["exponentiations"]
        assert sum(cell.values()) == 2 * own
        assert sum(times for name, times in cell.items() if name.endswith("N²")) == own
        assert costs.work[party]["FLE-Expan"]["exponentiations"] == {}
    assert costs.work["CS"]["FLE-Expan"]["exponentiations"] == {}
    assert set(costs.work["CC"]) == {"key set-up", "FLE-Expan"}
    assert costs.work["CC"]["FLE-Expan"]["exponentiations"] == {}
    assert costs.total("exponentiations", "FOS-Find") == 2 * len(splits)


def ask(federation: Federation, n_rows: int, requester: str | None = None) -> None:
    """An encrypted request about some rows of noise."""
    rng = np.random.default_rng(n_rows)
    codes = {
        party: rng.integers(-50, 50, (len(owner.columns), n_rows))
        for party, owner in federation.participants.items()
    }
    federation.ask(codes, requester, "soft", False, lambda _: None)


def powers_of(costs: Costs, role: str, protocol: str) -> dict[str, int]:
    found: dict[str, int] = costs.work[role][protocol]["exponentiations"]
    return found


def mod(powers: dict[str, int], modulus: str) -> int:
    """Powers of any kind with this modulus."""
    return sum(times for name, times in powers.items() if name.endswith(f"mod {modulus}"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """For each level of each request, with whose splits how many comparisons were made."""
    levels: list[dict[str, int]] = []

    def watched(
        cs: ComparingServer, request: Request, level: int, asked: Mapping[str, Sequence[Comparison]]
    ) -> dict[str, list[bool]]:
        levels.append({owner: len(own) for owner, own in asked.items()})
        return ho_lt(cs, request, level, asked)

    monkeypatch.setattr(frf_predict, "ho_lt", watched)
    return levels


def test_costs_of_a_request_belong_to_whoever_does_the_work(asked: list[dict[str, int]]) -> None:
    federation, n_rows = train(random_case(44)), 7
    before = federation.costs()
    ask(federation, n_rows)
    costs = federation.costs()
    comparisons = sum(sum(level.values()) for level in asked)
    results = sum(map(len, asked))
    assert results > len(asked) > 1  # several owners, several levels
    requester = powers_of(costs, "requester", "FRF-Predict")
    assert (mod(requester, "N"), mod(requester, "N²")) == (6 * n_rows, 6 * n_rows)  # HoEnc of every value
    for party in federation.participants:
        levels = sum(party in level for level in asked)
        assert powers_of(costs, party, "HoLT") == {"secret mod N": levels}  # ParHDec1 of every result
    compute = powers_of(costs, "CC", "HoLT")
    assert compute["secret mod N"] >= comparisons  # one slot a pack: its half of every opening
    assert mod(compute, "N") == comparisons + results  # and a HoEnc a result
    lifts = 1 + len(federation.participants)  # the base of everybody's key, once
    assert mod(compute, "N²") == comparisons + results + lifts
    assert powers_of(costs, "CS", "FRF-Predict") == {}
    assert powers_of(costs, "CS", "HoLT")["secret mod N²"] >= comparisons  # r·β
    for role, protocols in before.work.items():
        for protocol, cell in protocols.items():
            assert protocol == "key set-up" or costs.work[role][protocol] == cell


def test_a_level_of_a_request_is_one_exchange_with_cc_and_one_with_each_owner_in_it(
    asked: list[dict[str, int]],
) -> None:
    federation = train(random_case(45))
    for n_rows in (1, 9):
        ask(federation, n_rows)
    traffic = federation.costs().traffic
    assert traffic["CS -> CC"]["HoLT"]["messages"] == len(asked)
    for party in federation.participants:
        levels = sum(party in level for level in asked)
        assert traffic[f"CS -> {party}"].get("HoLT", {"messages": 0})["messages"] == levels
    assert traffic["requester -> CS"]["FRF-Predict"]["messages"] == 4  # two questions, two requests


def test_an_answer_is_booked_under_the_protocol_of_its_question() -> None:
    federation = train(random_case(46))
    ask(federation, 5)
    ask(federation, 5, "bank")
    traffic = federation.costs().traffic
    assert set(traffic["CC -> CS"]) == {"FLE-Expan", "HoLT"}
    assert traffic["CC -> CS"]["FLE-Expan"]["messages"] == 1
    for link, protocols in traffic.items():
        there, back = link.split(" -> ")
        for protocol, cell in protocols.items():
            assert traffic[f"{back} -> {there}"][protocol]["messages"] == cell["messages"]


def test_seconds_of_a_run_are_not_counted_twice() -> None:
    begin = process_time()
    federation = train(random_case(42))
    federation.votes(random_case(42).codes, 60, "hard")
    ask(federation, 20)
    assert 0 < federation.costs().total("seconds") <= process_time() - begin


def test_the_table_of_costs_tells_requesters_from_participants_who_ask() -> None:
    federation = train(random_case(47))
    ask(federation, 3, "bank")
    asked_by_bank = str(federation.costs())
    assert "requesters" not in asked_by_bank
    ask(federation, 3)
    rows = [line.split()[:2] for line in str(federation.costs()).splitlines()[2:]]
    assert ["requesters", "FRF-Predict"] in rows
    assert ["participants", "FRF-Predict"] in rows
    assert ["CC", "HoLT"] in rows
