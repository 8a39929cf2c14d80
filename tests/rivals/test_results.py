"""Costs: measured and extrapolated are never mistaken for each other."""

import pytest

from benchmarks.rivals.results import Cost, Meter
from revfrf.errors import UsageError

MEASURED = Cost({"server": 2.0, "client": 1.0}, 10, {"server": {"powers": 2}, "client": {"powers": 1}})


def test_what_was_done_wholly_is_measured() -> None:
    assert MEASURED.extrapolated_from is None
    assert MEASURED.times(1) == MEASURED


def test_times_scales_everything_and_says_from_how_much() -> None:
    whole = MEASURED.times(4)
    assert whole == Cost(
        {"server": 8.0, "client": 4.0}, 40, {"server": {"powers": 8}, "client": {"powers": 4}}, 0.25
    )
    assert whole.times(2).extrapolated_from == 0.125


def test_a_sum_with_something_extrapolated_is_extrapolated() -> None:
    both = MEASURED + MEASURED.times(2)
    assert both == Cost(
        {"server": 6.0, "client": 3.0}, 30, {"server": {"powers": 6}, "client": {"powers": 3}}, 0.5
    )
    assert (MEASURED + MEASURED).extrapolated_from is None


def test_a_part_of_what_was_measured_is_refused() -> None:
    with pytest.raises(UsageError, match="more than was measured"):
        MEASURED.times(0.5)


def test_a_meter_counts_by_role_also_when_a_step_fails() -> None:
    meter = Meter()
    with pytest.raises(RuntimeError), meter.role("client"):
        raise RuntimeError
    with meter.role("server"):
        sum(range(100_000))
        meter.count("powers", 2)
    meter.count("powers")
    with meter.role("client"):
        meter.count("powers")
    meter.send(5)
    cost = meter.cost()
    assert set(cost.seconds) == {"client", "server"}
    assert cost.seconds["server"] > cost.seconds["client"] >= 0
    assert cost.counts == {"server": {"powers": 3}, "client": {"powers": 1}}
    assert (cost.bytes, cost.extrapolated_from) == (5, None)
