"""What participants let CS see, from their configurations: noise, its price, forgotten bins."""

import csv
import json
from contextlib import closing
from pathlib import Path

import pytest

from revfrf.errors import RevFRFError, UsageError
from revfrf.forest.seeds import master_seed, noise_secret, participant_secret
from revfrf.node import api
from revfrf.node.home import CONFIG, Home
from revfrf.node.members import ParticipantService
from revfrf.protocols.columns import ColumnSettings
from tests.node.federation import Zygote, copied, running
from tests.node.founding import configure, found_federation


@pytest.fixture(scope="module")
def founded_with_shares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("founded") / "federation"
    found_federation(directory, protocol="shares")
    return directory


@pytest.fixture
def owner(founded_with_shares: Path, tmp_path: Path) -> Path:
    """The directory of a participant that has not been started yet."""
    return copied(founded_with_shares, tmp_path / "copy") / "h1"


def edit(directory: Path, columns: str) -> None:
    """Put this in place of the section [columns]."""
    file = directory / CONFIG
    before, _, rest = file.read_text().partition("[columns]\n")
    file.write_text(before + columns + "\n" + rest[rest.index("\n# Whose requests") :])


def started(directory: Path) -> tuple[dict[str, ColumnSettings], bytes]:
    """The settings and the noise secret of a participant that starts."""
    with closing(Home.open(directory)) as home:
        role = ParticipantService(home, home.config).role
        assert role.store.spending is not None
        return dict(role.settings), role.store.spending.secret


# -- one participant --------------------------------------------------------------------------------


def test_noise_secret_is_drawn_once_and_random_state_does_not_tell_it(owner: Path) -> None:
    """Others may know random_state: with a secret made of it they could take the noise off."""
    _, secret = started(owner)
    assert started(owner)[1] == secret
    assert secret not in (
        participant_secret(master_seed(10), "h1"),
        noise_secret(participant_secret(master_seed(10), "h1")),
    )
    configure(owner / CONFIG, random_state=11)
    assert started(owner)[1] == secret


def test_configuration_sets_all_columns_and_single_ones(owner: Path) -> None:
    edit(owner, "[columns]\nforget_bins = true\nepsilon_budget = 3\n[columns.x3]\nepsilon = 2\nn_cuts = 31\n")
    plain, noisy = ColumnSettings(forget_bins=True), ColumnSettings(31, 2.0, 3.0, True)
    assert started(owner)[0] == {"x3": noisy, "x4": plain, "x5": plain}


def test_settings_of_a_column_that_is_not_there_stop_the_start(owner: Path) -> None:
    edit(owner, '[columns]\n[columns."x 9"]\nn_cuts = 3\n')
    with pytest.raises(UsageError, match="party 'h1' has no column 'x 9'; its columns are"):
        started(owner)


def test_noise_on_a_column_of_categories_stops_the_start(owner: Path) -> None:
    with (owner / "rows.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    with (owner / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*head, "colour"], *([*row, "red"] for row in rows)])
    edit(owner, "[columns]\nepsilon = 1.0\n")
    with pytest.raises(UsageError, match="party 'h1', column 'colour': categories have no order"):
        started(owner)
    edit(owner, "[columns]\n[columns.x4]\nepsilon = 1.0\n")
    assert started(owner)[0]["x4"].epsilon == 1.0


# -- all processes ----------------------------------------------------------------------------------


def test_processes_train_with_noise_forget_bins_and_wait_for_who_is_away(
    founded_with_shares: Path, tmp_path: Path, zygote: Zygote
) -> None:
    directory = copied(founded_with_shares, tmp_path / "chosen")
    edit(
        directory / "h1",
        "[columns]\nforget_bins = true\nepsilon_budget = 3\n[columns.x3]\nepsilon = 2\nn_cuts = 31\n",
    )
    configure(directory / "CS" / CONFIG, n_estimators=30, max_depth=2)
    with running(directory, zygote) as federation:
        federation.train()
        data = federation.status("h1").data
        assert data is not None
        noisy = data.revealed["x3"]
        assert (noisy.bins, noisy.bits, noisy.epsilon, noisy.forgotten) == (32, 5.0, 2.0, True)
        assert (noisy.epsilon_spent, noisy.epsilon_budget, noisy.generation) == (2.0, 3.0, 0)
        assert data.revealed["x4"].epsilon is None
        assert "x3: (bins: 32; bits: 5.0000; epsilon: 2.0000" in federation.command("status", "-d", "h1")
        score = federation.test()
        assert federation.test() == score
        page = federation.ask("CS", api.Report())
        assert "epsilon 2" in page
        assert "until the forest is grown" in page

        federation.stop("h1")
        federation.ask("h2", api.Revoke(1))
        federation.wait_until_ready(2)
        federation.until(lambda: federation.status().waits_for == ("h1",), "CS waits for h1")
        [_, left] = json.loads(federation.command("history", "-d", "CS", "--json"))
        assert (left["leavers"], left["waits_for"]) == (["h2"], ["h1"])
        with pytest.raises(RevFRFError, match="'h1' is not connected"):  # the rows to test on are matched
            federation.test()

        assert federation.ended("h2") == 0
        federation.start("h1")
        federation.until(lambda: federation.status().waits_for is None, "the forest is whole")

        def completed() -> bool:
            [_, left] = json.loads(federation.command("history", "-d", "CS", "--json"))
            return not left["waits_for"] and not left["missing_receipts"]

        federation.until(completed, "all have signed for the whole forest")
        found = federation.ask("CS", api.AuditForest())
        assert (found.holds, found.problems) == (True, {})
        whole = federation.ask("CS", api.Predict(str(federation.directory / "CS" / "test.csv")))
        assert (whole.coverage, whole.offline) == (None, ())
        federation.stop()
