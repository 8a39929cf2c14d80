"""The sets are read as they should be, and every study runs, on small made files with their columns."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.paper import datasets
from benchmarks.paper.datasets import SOURCES, MissingDataError, coded, load
from benchmarks.paper.experiment import answers, forest, leavers, owners
from benchmarks.rivals.irrevocable import rebuild_all
from benchmarks.rivals.plain import plain_forest
from benchmarks.studies import accuracy, construction, exactness, noise, prediction
from benchmarks.studies.accuracy import forests
from benchmarks.studies.common import current_memory, exponent, peak_memory
from tests.benchmarks.made_sets import MAKERS

ROOT = Path(__file__).parents[2]


def study(name: str, place: Path, *options: str | Path) -> Any:
    """The results of a study, by its module and command."""
    module, command = name.split()
    results = place / "results.json"
    import_module(f"benchmarks.studies.{module}").main([command, *map(str, options), "--json", str(results)])
    return json.loads(results.read_text())[command]


# -- the sets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_neither_the_target_nor_what_gives_it_away_is_a_feature(name: str, data: Path) -> None:
    dataset = load(name, data)
    columns = set(dataset.X.columns)
    assert columns
    hidden = {SOURCES[name].target, *SOURCES[name].dropped, "id", "alcohol", "vsa", "date"}
    assert columns.isdisjoint(hidden - ({"alcohol"} if name == "wine_white" else set()))
    assert len(dataset.X) == len(dataset.y)
    assert not dataset.X.isna().to_numpy().any()


@pytest.mark.parametrize(("name", "train_rows"), [("adult", 32561), ("insurance", 5822)])
def test_official_splits_are_kept_for_every_seed(name: str, train_rows: int, data: Path) -> None:
    dataset = load(name, data)
    for seed in (0, 1):
        [split] = dataset.splits(seed)
        assert split.X_train.index.tolist() == list(range(train_rows))
        assert split.X_test.index.tolist() == list(range(train_rows, len(dataset.X)))


def test_small_sets_are_tested_on_every_row_once_a_seed(data: Path) -> None:
    dataset = load("bike", data)
    splits = dataset.splits(0)
    assert len(splits) == 4
    assert sorted(i for split in splits for i in split.X_test.index) == list(range(len(dataset.X)))
    for split in splits:
        assert sorted([*split.X_train.index, *split.X_test.index]) == list(range(len(dataset.X)))


def test_other_splits_follow_the_seed_and_overlap_nowhere(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "SMALL", 0)
    dataset = load("bike", data)
    [first], [again], [other] = (dataset.splits(seed) for seed in (0, 0, 1))
    assert first.X_test.index.tolist() == again.X_test.index.tolist() != other.X_test.index.tolist()
    assert len(first.X_test) == len(dataset.X) // 4
    assert not set(first.X_train.index) & set(first.X_test.index)
    assert (first.X_train.index == first.y_train.index).all()


def test_text_becomes_categories_and_their_numbers_for_scikit_learn(data: Path) -> None:
    X = load("adult", data).X
    assert list(X["workclass"].dtype.categories) == ["?", "Private", "State-gov"]
    assert coded(X)["workclass"].tolist() == [
        ["?", "Private", "State-gov"].index(value) for value in X["workclass"]
    ]
    assert coded(X)["age"].equals(X["age"])


def test_targets_are_what_the_scripts_say(data: Path) -> None:
    raw = pd.read_csv(data / "drug.csv.gz")
    assert load("drug", data).y.tolist() == [level >= "CL3" for level in raw["cannabis"]]
    assert load("news", data).y.tolist() == (pd.read_csv(data / "news.csv.gz")["shares"] / 1000).tolist()
    assert set(load("insurance", data).y) == {0, 1}
    hours = load("appliances", data).X[["hour", "weekday", "month"]]
    assert hours.iloc[0].tolist() == [17, 0, 1]
    assert set(load("wine_white", data).y) <= set(range(3, 10))


def test_missing_files_are_named_with_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"bank\.csv\.gz; .* UCI 'Bank Marketing', .*10\.24432/C5K306"):
        load("bank", tmp_path)
    for wrong in (tmp_path / "nowhere", Path(__file__)):
        with pytest.raises(MissingDataError, match=f"{wrong} is no directory; say by --data"):
            load("bank", wrong)


# -- the scripts ------------------------------------------------------------------------------------


def test_scripts_say_what_is_wrong_with_their_options(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for main, arguments, said in (
        (construction.main, f"speed --data {data} --json {tmp_path}/no/file", "/no/file: cannot be written"),
        (construction.main, f"memory --data {tmp_path}", "10.24432/C53P47"),
        (construction.main, f"speed --data {data} --rows 0", "--rows"),
        (prediction.main, f"settings --data {data} --forests 10x10", "10x10"),
        (exactness.main, f"exact --data {data} --sets drug,foo", "--sets: 'foo' is no set; sets are adult, "),
        (accuracy.main, f"features --data {data} --leavers 0,a", "--leavers: '0,a': give whole numbers"),
        (noise.main, "accuracy --epsilons 1,b", "--epsilons: '1,b': give numbers"),
        (accuracy.main, f"features --data {data} --set drug --leavers 0,3", "3: drug has 3 columns"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(arguments.split())
        assert said in capsys.readouterr().err


def test_speed_is_a_ratio_to_scikit_learn_in_the_same_run(data: Path, tmp_path: Path) -> None:
    small = ["--bits", "256", "--rounds", "2", "--trees", "2", "--depth", "3", "--rows", "300"]
    speed = study("construction speed", tmp_path, "--data", data, *small)
    leaf_5, default, ours = speed["medians"]
    assert "256 bits" in ours["model"]
    assert ours["to_leaf_5"] == pytest.approx(ours["seconds"] / leaf_5["seconds"])
    assert ours["to_default"] == pytest.approx(ours["seconds"] / default["seconds"])
    assert [len(times) for times in speed["seconds"].values()] == [2, 2, 2]


@pytest.mark.slow
def test_scaling_measures_each_size_and_fits_an_exponent(tmp_path: Path) -> None:
    small = ["--rows", "500", "2000", "--trees", "--depths"]
    scaling = study("construction scaling", tmp_path, *small)
    assert set(scaling) == {"rows"}
    few, many = scaling["rows"]["fits"]
    assert (few["shape"]["rows"], many["shape"]["rows"]) == (500, 2000)
    assert few["nodes"] < many["nodes"]
    assert few["peak"] >= few["before"] > 50_000_000
    assert set(scaling["rows"]["exponents"]) == {"seconds", "peak", "peak less before"}


def test_noise_is_measured_from_none_to_much(data: Path, tmp_path: Path) -> None:
    small = ["--sets", "adult,bike", "--epsilons", "8,0.01", "--seeds", "2", "--trees", "5"]
    found = study("noise accuracy", tmp_path, "--data", data, *small)
    assert {name: [*by_epsilon] for name, by_epsilon in found.items()} == {
        name: ["None", "8.0", "0.01"] for name in ("adult", "bike")
    }
    plain, _, noisy = found["bike"].values()
    assert len(plain) == 2
    assert min(noisy) > max(plain)  # errors of numbers


def test_requests_are_measured_beside_the_papers_protocol(data: Path, tmp_path: Path) -> None:
    small = ["--forests", "3x3x256", "--repeats", "1", "--as-printed", "2"]
    [setting] = study("prediction settings", tmp_path, "--data", data, *small)
    assert (setting["trees"], setting["depth"], setting["key_bits"]) == (3, 3, 256)
    spent = setting["spent"]
    assert 0 < spent["comparisons"] <= 9
    assert 0 < spent["owners_powers"] <= 3
    assert set(spent["seconds"]) == set(spent["bytes"]) == {"requester", "CS", "CC", "owners"}
    assert all(value > 0 for table in (spent["seconds"], spent["bytes"]) for value in table.values())
    [[one_core, printed]] = setting["turns"]
    all_of_it = printed * one_core["comparisons"]
    assert setting["times_as_printed"] == pytest.approx(all_of_it / sum(one_core["seconds"].values()))


@pytest.mark.slow
def test_requests_are_measured_on_one_core_and_on_all(data: Path, tmp_path: Path) -> None:
    small = ["--trees", "2", "--depth", "2", "--bits", "256", "--requests", "2", "--rounds", "2"]
    cores = study("prediction cores", tmp_path, "--data", data, *small)
    assert [len(walls) for walls in cores["walls"].values()] == [2] * len(cores["walls"])
    one, *more = cores["walls"].values()
    assert cores["ratios"] == pytest.approx([a / b for a, b in zip(one, (more or [one])[0], strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["shares", "paper"])
def test_processes_are_measured_beside_one_process(protocol: str, data: Path, tmp_path: Path) -> None:
    small = ["--parties", "2", "--trees", "2", "--depth", "2", "--bits", "256", "--rows", "200"]
    few = ["--asked", "2", "--rounds", "1", "--protocol", protocol]
    found = study("network loopback", tmp_path, "--data", data, *small, *few)
    assert set(found) == {"scikit-learn", "in one process", "over gRPC"}
    assert all(times[0]["training"] > 0 for times in found.values())
    asked = {how for how, times in found.items() if times[0]["asking"] is not None}
    assert asked == ({"in one process", "over gRPC"} if protocol == "paper" else set())


@pytest.mark.slow
def test_distant_parties_wait_for_round_trips(data: Path, tmp_path: Path) -> None:
    small = ["--parties", "2", "--trees", "2", "--depth", "2", "--rows", "60", "--rounds", "1"]
    [seconds] = study("network distant", tmp_path, "--data", data, *small, "--round-trip", "0.2")
    assert seconds > 1  # set-up alone takes five


def test_exactness_of_leaving_is_measured(data: Path, tmp_path: Path) -> None:
    """By its command line, as the other studies would be."""
    small = ["--sets", "drug", "--trees", "3", "--depth", "3"]
    results = tmp_path / "results.json"
    program = [sys.executable, "-m", "benchmarks.studies.exactness", "exact", "--data", str(data), *small]
    done = subprocess.run(
        [*program, "--json", str(results)], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(results.read_text()) == {"exact": {"drug": {"leavers": 3, "equal": 3}}}


@pytest.mark.parametrize("name", ["drug", pytest.param("bike", marks=pytest.mark.slow)])
def test_reasons_of_a_difference_are_measured(name: str, data: Path, tmp_path: Path) -> None:
    small = ["--set", name, "--leavers", "0,1", "--seeds", "2", "--trees", "2"]
    found = study("accuracy features", tmp_path, "--data", data, *small)
    assert set(found) == {"0", "1"}
    for losses in found.values():
        assert {len(values) for values in losses.values()} == {2}
        assert len({tuple(values) for values in losses.values()}) > 1


def test_a_loss_is_that_of_the_forests_named(data: Path) -> None:
    """Ours as after leaving is the forest that a real leaver leaves behind, and the reference is plain."""
    dataset, seed = load("drug", data), 0
    split = dataset.splits(seed)[0]
    [column] = leavers(list(split.X_train.columns), 1, seed)
    rest = split.without([column])
    kept = forests("classes", 3, rest, split.X_train.shape[1])
    left = forest("classes", 3, seed).fit(split.X_train, split.y_train)
    left.revoke(owners(left, [column]), level=1)
    assert (kept["ours"](seed) == answers(left, rest.X_test, "soft")).all()
    plain = plain_forest("classes", 3, seed, rest.X_train.shape[1]).fit(rest.coded.X_train, rest.y_train)
    assert (kept["plain"](seed) == plain.predict(rest.coded.X_test)).all()


def test_leaving_that_is_not_exact_is_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactness, "rebuild_all", lambda model, X, y, _: rebuild_all(model, X, y, []))
    with pytest.raises(SystemExit) as caught:
        exactness.main(["exact", "--data", str(data), "--sets", "drug", "--trees", "3", "--depth", "3"])
    assert caught.value.code == 1


# -- what they share --------------------------------------------------------------------------------


def test_the_exponent_of_a_power_law_is_found() -> None:
    assert exponent([1, 10, 100], [3, 3 * 10**1.5, 3 * 10**3]) == pytest.approx(1.5)


def test_peak_memory_counts_this_process_and_its_descendants() -> None:
    code = "x = b'1' * 300_000_000\nprint('ready', flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    with_child = peak_memory()
    assert current_memory() > 300_000_000
    child.communicate(b"\n")
    assert with_child > peak_memory() + 300_000_000
