"""Requests that run side by side each hear of their own progress."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from revfrf.testing.federations import random_case, train

CASE = random_case(3)


def test_requests_side_by_side_hear_of_their_own_progress_alone() -> None:
    """The first one is half-way when the second begins and ends."""
    federation = train(CASE)
    began, over = Event(), Event()
    heard: dict[int, list[float]] = {2: [], 5: []}

    def ask(n_rows: int) -> None:
        def progress(rows: float) -> None:
            heard[n_rows].append(rows)
            if n_rows == 5:
                began.set()
                assert over.wait(60)

        rows = {party: table[:, :n_rows] for party, table in CASE.codes.items()}
        federation.ask(rows, "telco", "hard", False, progress)

    federation.requester("telco")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, 5)
        assert began.wait(60)
        ask(2)
        over.set()
        first.result(60)
    for n_rows, rows in heard.items():
        assert len(rows) > 2
        assert rows == sorted(rows)
        assert 0 <= rows[0] <= rows[-1] <= n_rows
    assert heard[5][-1] > 2
