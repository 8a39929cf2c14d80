"""Owners' noise in a federation: the same wherever a value appears, paid for, and never beyond the budget."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError, UsageError
from revfrf.forest.books import bins_of
from revfrf.forest.kernel import Bytes
from revfrf.forest.noise import UNIT
from revfrf.messages.bins import COLUMNS, BinsReply, BinsRequest
from revfrf.messages.fle_expan import Column
from revfrf.names import CS, PARTICIPANT
from revfrf.protocols.bins import rows_digest
from revfrf.protocols.columns import ColumnSettings
from revfrf.protocols.sides import TRAINING
from revfrf.roles.participant import Participant
from revfrf.storage.directory import Directory
from revfrf.storage.memory import ParticipantStore
from revfrf.testing.federations import Case, random_case, set_up, targets_of, train, with_books
from revfrf.testing.refusals import refused

CASE = random_case(5, rules=with_books())
NOISY = ColumnSettings(epsilon=0.5)
N_ROWS, OWNER = CASE.n_rows, "telco"
IDS = tuple(f"customer {i}" for i in range(N_ROWS))
Settings = Mapping[str, ColumnSettings]


def federation(case: Case = CASE, settings: Settings | None = None, **given: Any) -> Federation:
    """A federation with noise on the columns of one owner."""
    found = set_up(case, **given)
    found.participants[OWNER].set_columns(settings or dict.fromkeys(("x0", "x1", "x2"), NOISY))
    return found


def trained_bins(found: Federation) -> list[list[int]]:
    """What CS has of the owner's columns."""
    bins = found.coordinator.store.bins
    return [bins[f"{OWNER}/x{i}"].bins.tolist() for i in range(3)]


class Owner:
    """An owner whose rows have ids, as in a process of its own. CS asks for bins."""

    def __init__(self, settings: Settings | None = None, case: Case = CASE, **given: Any) -> None:
        self.federation = federation(case, settings, **given)
        for name, table in case.codes.items():
            self.federation.participants[name].hold(TRAINING, table)
        self.role.hold(TRAINING, case.codes[OWNER], ids=IDS)
        cs = self.federation.coordinator
        cs.create(case.rules, b"seed", targets_of(case))
        cs.open()

    @property
    def role(self) -> Participant:
        return self.federation.participants[OWNER]

    def ask(self, table: str = TRAINING, columns: tuple[int, ...] = (0, 1, 2)) -> Bytes:
        """The bins that CS gets."""
        request = BinsRequest(
            epoch=1,
            forest=self.federation.coordinator.plan.forest,
            table=table,
            rows=rows_digest(self.role.numbers[table]),
            columns=np.array(columns, COLUMNS).tobytes(),
            offset=0,
        )
        reply = self.federation.network.channel(CS).call(OWNER, request, BinsReply)
        return np.frombuffer(reply.data, np.uint8).reshape(len(columns), -1)

    def show(self, codes: NDArray[np.int64], ids: tuple[str, ...] = IDS) -> Bytes:
        """The bins of rows to test on."""
        self.role.hold("later", codes, ids=ids)
        return self.ask("later")

    @property
    def true_bins(self) -> Bytes:
        books, codes = self.role.store.books, self.role.table(TRAINING)
        return np.stack([bins_of(own, book.cuts) for own, book in zip(codes, books, strict=True)])

    @property
    def spent(self) -> dict[str, float]:
        assert self.role.store.spending is not None
        return {name: cost / UNIT for name, cost in self.role.store.spending.spent.items()}


# -- where a value appears --------------------------------------------------------------------------


def test_cs_sees_noise_in_training_and_the_same_in_tests_whatever_the_order_of_rows() -> None:
    owner, order = Owner(), np.random.default_rng(0).permutation(N_ROWS)[:25]
    trained = owner.ask()
    assert (trained != owner.true_bins).mean() > 0.5
    names = tuple(IDS[i] for i in order)
    assert (owner.show(CASE.codes[OWNER][:, order], names) == trained[:, order]).all()
    assert (owner.ask() == trained).all()


def test_without_ids_a_row_with_the_same_values_is_the_same_record() -> None:
    owner, order = Owner(), np.random.default_rng(0).permutation(N_ROWS)[:25]
    owner.role.hold(TRAINING, CASE.codes[OWNER])
    trained = owner.ask()
    owner.role.hold("later", CASE.codes[OWNER][:, order])
    assert (owner.ask("later") == trained[:, order]).all()


def test_second_forest_shows_cs_the_same_noisy_bins() -> None:
    other = random_case(5, rules=with_books(n_trees=2, max_depth=2, candidate_limit=7))
    assert trained_bins(train(CASE, federation())) == trained_bins(train(other, federation(other)))


def test_owner_with_another_secret_has_other_noise() -> None:
    other = random_case(5, rules=with_books(), seed=b"another")
    assert trained_bins(train(CASE, federation())) != trained_bins(train(other, federation(other)))


def test_equal_columns_have_noise_of_their_own() -> None:
    codes = CASE.codes | {OWNER: np.repeat(CASE.codes[OWNER][:1], 3, axis=0)}
    first, second, third = trained_bins(train(random_case(5, rules=with_books(), codes=codes), federation()))
    assert first != second != third != first


def test_only_columns_that_asked_for_it_have_noise_and_the_owner_signs_which() -> None:
    found = train(CASE, federation(settings={"x1": NOISY}))
    owner, bins = found.participants[OWNER], found.coordinator.store.bins
    for i, book in enumerate(owner.store.books):
        true = bins_of(owner.table(TRAINING)[i], book.cuts)
        assert (bins[f"{OWNER}/x{i}"].bins == true).all() == (i != 1)
        assert book.line.epsilon == (UNIT // 2 if i == 1 else None)
    certified = found.coordinator.certificates[-1].core.report.inputs_after.features
    assert [line.epsilon for line in certified] == [None, None, None, None, UNIT // 2, None]


def test_forest_with_noise_that_somebody_has_left_is_the_one_without_it() -> None:
    found, fresh = train(CASE, federation()), CASE.without("bank")
    found.revoke(["bank"], 1, lambda _: None)
    assert found.coordinator.digest() == train(fresh, federation(fresh)).coordinator.digest()


def test_preview_of_a_forest_with_noise_is_right() -> None:
    found = train(CASE, federation())
    expected = found.shadow(["bank"]).coordinator.digest()
    found.revoke(["bank"], 1, lambda _: None)
    assert found.coordinator.digest() == expected


# -- what it costs ----------------------------------------------------------------------------------


def test_book_costs_its_epsilon_once_however_often_cs_asks() -> None:
    owner = Owner({"x0": NOISY, "x2": ColumnSettings(epsilon=2)})
    for _ in range(3):
        owner.ask()
        owner.show(CASE.codes[OWNER][:, :9], IDS[:9])
    assert owner.spent == {"x0": 0.5, "x2": 2}


def test_rows_that_were_not_trained_on_cost_nothing_more_until_one_changes() -> None:
    owner, later = Owner(), tuple(f"new {i}" for i in range(N_ROWS))
    owner.ask()
    owner.show(CASE.codes[OWNER], later)
    assert owner.spent == dict.fromkeys(("x0", "x1", "x2"), 0.5)
    changed = CASE.codes[OWNER].copy()
    changed[1, 4] += 1000
    owner.show(changed, later)
    assert owner.spent == {"x0": 0.5, "x1": 1.0, "x2": 0.5}


def test_every_further_value_of_a_record_costs_epsilon_again_and_an_old_one_nothing() -> None:
    owner = Owner()
    owner.ask()
    rows = CASE.codes[OWNER][:, :3].copy()
    for shift, cost in ((0, 0.5), (10_000, 1.0), (-10_000, 1.5), (10_000, 1.5), (0, 1.5)):
        shifted = rows.copy()
        shifted[0] += shift
        owner.show(shifted, IDS[:3])
        assert owner.spent["x0"] == cost
    assert owner.spent["x1"] == 0.5


def test_changed_value_of_a_training_record_gets_an_independent_draw() -> None:
    owner = Owner()
    trained, true = owner.ask().astype(int), owner.true_bins.astype(int)
    other = np.roll(CASE.codes[OWNER], 1, axis=1)
    shown = owner.show(other).astype(int)
    follows = (shown - trained == np.roll(true, 1, axis=1) - true)[np.roll(true, 1, axis=1) != true]
    assert follows.mean() < 0.5


def test_values_beyond_the_budget_are_refused_and_nothing_is_sent_or_paid() -> None:
    owner = Owner({"x0": ColumnSettings(epsilon=0.5, epsilon_budget=1.0)})
    owner.ask()
    rows = CASE.codes[OWNER][:, :3].copy()
    rows[0] = 10_000
    owner.show(rows, IDS[:3])
    assert owner.spent == {"x0": 1.0}
    rows[0] = -10_000
    with refused("budget", by=OWNER):
        owner.show(rows, IDS[:3])
    assert owner.spent == {"x0": 1.0}
    owner.show(CASE.codes[OWNER])  # what was shown before stays free
    owner.role.set_columns({"x0": ColumnSettings(epsilon=0.5, epsilon_budget=1.5)})
    owner.show(rows, IDS[:3])
    assert owner.spent == {"x0": 1.5}


def returned(owner: Owner, budget: float) -> None:
    """The owner has left, has erased everything, and comes back with the same rows."""
    owner.role.erase()
    owner.role.set_columns({"x0": ColumnSettings(epsilon=0.5, epsilon_budget=budget)})
    owner.role.hold(TRAINING, CASE.codes[OWNER], ids=IDS)
    owner.role.handle(CS, owner.federation.coordinator.opening)


def test_owner_that_comes_back_draws_the_next_generation_and_pays_for_it() -> None:
    owner = Owner({"x0": ColumnSettings(epsilon=0.5, epsilon_budget=1.0)})
    first = owner.ask()
    returned(owner, 1.0)
    second = owner.ask()
    assert [book.line.generation for book in owner.role.store.books] == [1, 1, 1]
    assert (first[0] != second[0]).any()
    assert (first[1:] == second[1:]).all()
    assert owner.spent == {"x0": 1.0}


def test_leaving_does_not_reset_the_budget() -> None:
    owner = Owner({"x0": ColumnSettings(epsilon=0.5, epsilon_budget=0.9)})
    owner.ask()
    returned(owner, 0.9)
    for _ in range(2):
        with refused("budget", by=OWNER):
            owner.ask()
    assert owner.role.store.books == []
    assert owner.spent == {"x0": 0.5}


def test_secret_generations_and_spending_are_on_disk_and_stay_there_after_leaving(tmp_path: Path) -> None:
    stores = Directory(tmp_path / "forest", new=True)
    owner = Owner(stores=stores)
    owner.ask()
    kept = owner.role.store.spending
    owner.role.erase()
    stores.close()
    again = Directory(tmp_path / "forest", new=False).store(
        ParticipantStore, PARTICIPANT, OWNER, create=False
    )
    assert again.spending is not None
    assert kept is not None
    assert msgspec.structs.astuple(again.spending) == msgspec.structs.astuple(kept)
    assert again.spending.drawn == dict.fromkeys(("x0", "x1", "x2"), 1)
    assert again.sent("x0").tolist() == []


def test_noise_and_payments_go_on_after_a_restart(tmp_path: Path) -> None:
    stores = Directory(tmp_path / "forest", new=True)
    owner = Owner(stores=stores)
    trained, before = owner.ask(), owner.role
    stores.close()
    store = Directory(tmp_path / "forest", new=False).store(
        ParticipantStore, PARTICIPANT, OWNER, create=False
    )
    role = Participant(before.identity, before.columns, b"", store)
    role.recall()
    assert role.settings == before.settings
    owner.federation.participants[OWNER] = owner.federation.network.roles[OWNER] = role
    assert (owner.ask() == trained).all()
    changed = CASE.codes[OWNER].copy()
    changed[0, 0] += 1000
    owner.show(changed)
    assert owner.spent["x0"] == 1.0


# -- settings that make no sense --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"n_cuts": 0}, "`n_cuts` must be an int from 1 to 255"),
        ({"n_cuts": True}, "`n_cuts` must be an int"),
        ({"epsilon": 0}, "`epsilon` must be a number from 0.001 to 32"),
        ({"epsilon": float("nan")}, "`epsilon` must be"),
        ({"epsilon": 33}, "`epsilon` must be"),
        ({"epsilon": "1"}, "`epsilon` must be"),
        ({"epsilon": True}, "`epsilon` must be"),
        ({"epsilon_budget": 1.0}, "give `epsilon`, too"),
        ({"epsilon": 1.0, "epsilon_budget": 0.5}, "raise the one or lower the other"),
        ({"epsilon": 1.0, "epsilon_budget": float("inf")}, "`epsilon_budget` must be"),
        ({"forget_bins": 1}, "`forget_bins` must be True or False"),
    ],
)
def test_settings_without_sense_are_refused_with_column_and_remedy(
    settings: dict[str, Any], what: str
) -> None:
    role = set_up(CASE).participants[OWNER]
    with pytest.raises(UsageError) as caught:
        role.set_columns({"x1": ColumnSettings(**settings)})
    assert str(caught.value).startswith("party 'telco', column 'x1'")
    assert what in str(caught.value)
    assert role.settings == {}


def test_noise_on_categories_is_refused() -> None:
    columns = {OWNER: [Column("colour", 0, 32, ("blue", "red")), Column("size", 0, 32, None)]}
    role = Federation(columns, seed=b"seed", protocol="shares").participants[OWNER]
    with pytest.raises(UsageError, match="column 'colour': categories have no order"):
        role.set_columns({"colour": NOISY})
    role.set_columns({"colour": ColumnSettings(n_cuts=3, forget_bins=True), "size": NOISY})


def test_settings_of_a_column_that_does_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match="party 'telco' has no column 'x9'; its columns are"):
        set_up(CASE).participants[OWNER].set_columns({"x9": NOISY})


def test_owner_with_settings_takes_no_part_in_the_paper_protocol() -> None:
    case = random_case(5)
    found = set_up(case)
    found.participants[OWNER].set_columns({"x0": NOISY})
    with refused("schema", by=OWNER):
        train(case, found)
    opening = found.coordinator.opening
    with pytest.raises(ProtocolError, match="for the shares protocol"):
        found.participants[OWNER].handle(CS, opening)
    found.participants[OWNER].set_columns({"x0": ColumnSettings()})
    train(case, found)
