"""Work on other machines: the same forest and the same answers whatever the backend, and no secret leaves."""

import pickletools
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest
from joblib import parallel_config, register_parallel_backend
from joblib._parallel_backends import ThreadingBackend
from numpy.typing import NDArray
from typer.testing import CliRunner

from revfrf import RevocableForestClassifier, parallel
from revfrf.cli.app import app
from revfrf.cli.party import _workers
from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.errors import FormatError
from revfrf.forest.criterion import Counted, best_cuts
from revfrf.forest.nodes import Nodes
from revfrf.parallel import using_backend, workers
from revfrf.protocols.paper.fos_find import Questions, score
from revfrf.testing.federations import prepared_keys, with_rules
from tests.estimators.toys import classifier, regressor, table

ROOT = Path(__file__).parents[1]
PARTIES = {"clinic": [0, 1], "laboratory": [2], "archive": [3]}
X = table(90, 4)
Y = (X[:, 0] * X[:, 2] > 0).astype(np.int64) + (X[:, 3] > 0.5)


class Posting(ThreadingBackend):  # type: ignore[misc]
    """Workers that get and give nothing but bytes, as on another machine; what they get is kept."""

    supports_sharedmem = uses_threads = False
    posted: list[bytes]

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.posted = []

    def submit(self, func: Any, callback: Any = None) -> Any:
        """See joblib."""
        self.posted.append(cloudpickle.dumps(func))
        return super().submit(cloudpickle.loads(self.posted[-1]), callback)


register_parallel_backend("posting", Posting)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However little the work, and however short the keys, it goes to the workers."""
    monkeypatch.setattr(parallel, "_WORTH_A_JOURNEY", 1e-12)
    monkeypatch.setattr(Parameters, "jobs", lambda _, n_jobs: workers(n_jobs))
    yield
    parallel._abroad.close()


class Outcome(NamedTuple):
    digest: str
    answers: list[int]
    after: str


def outcome(model: RevocableForestClassifier) -> Outcome:
    """A forest, its answers to encrypted rows, and the forest after somebody has left."""
    with prepared_keys():
        model.fit(X, Y)
        digest, answers = model.digest_, model.predict_encrypted(X[:5]).tolist()
        model.revoke("archive")
        return Outcome(digest, answers, model.digest_)


@pytest.fixture(scope="module")
def expected() -> Outcome:
    return outcome(classifier(parties=PARTIES, n_jobs=1))


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("backend", ["threading", "multiprocessing", "loky", "sequential"])
def test_forest_and_answers_do_not_depend_on_the_backend(backend: str, expected: Outcome) -> None:
    with parallel_config(backend):
        assert outcome(classifier(parties=PARTIES, n_jobs=2)) == expected


def posted(backend: Any) -> str:
    """Which of our functions were sent, by name."""
    return " ".join(
        sorted({n for n in ("_fresh_zeros", "best_of_part") for b in backend.posted if n.encode() in b})
    )


@pytest.mark.usefixtures("far")
def test_encryption_and_histograms_go_to_the_backend_from_whatever_thread(expected: Outcome) -> None:
    with parallel_config("posting") as config:
        assert outcome(classifier(parties=PARTIES, n_jobs=2)) == expected
    assert posted(config["backend"]) == "_fresh_zeros best_of_part"
    assert len(config["backend"].posted) > 20


@pytest.mark.usefixtures("far")
def test_a_backend_for_the_whole_process_is_used_likewise(expected: Outcome) -> None:
    with using_backend("posting", n_jobs=2):
        assert parallel._everywhere is not None
        backend = parallel._everywhere.backend
        assert outcome(classifier(parties=PARTIES)) == expected
    assert posted(backend) == "_fresh_zeros best_of_part"
    assert parallel._everywhere is None


@pytest.mark.usefixtures("far")
def test_forests_of_numbers_do_not_depend_on_the_backend() -> None:
    plain = regressor(parties=PARTIES).fit(X, X[:, 1] * 1e6)
    with parallel_config("posting"):
        assert regressor(parties=PARTIES, n_jobs=2).fit(X, X[:, 1] * 1e6).digest_ == plain.digest_


@pytest.mark.usefixtures("far")
def test_no_key_no_share_and_no_name_ever_goes_to_the_backend() -> None:
    model = classifier(parties=PARTIES, n_jobs=2)
    with parallel_config("posting") as config:
        outcome(model)
    federation = model.federation_
    parties = [federation.coordinator, federation.compute, *federation.participants.values()]
    weak = [party.identity.weak for party in parties]
    secrets = [key.sk.reveal() for key in weak]
    secrets += [party.identity.share.value.reveal() for party in parties[:2]]
    secrets += [party.identity.share.root_exponent.reveal() for party in parties[:2]]
    post = b"".join(config["backend"].posted)
    for secret in secrets:
        size = (secret.bit_length() + 7) // 8
        assert secret.to_bytes(size, "little") not in post
        assert secret.to_bytes(size, "big") not in post
        assert f"{secret:x}".encode() not in post
    assert not [name for name in PARTIES if name.encode() in post]
    texts = texts_in(config["backend"].posted)
    assert "_fresh_zeros" in texts
    assert not [text for text in texts for name in (*PARTIES, "CS", "CC") if name in text]
    assert weak[0].public.h.to_bytes(40, "little").rstrip(b"\0") not in post  # CS encrypts nothing in batches
    assert [key for key in weak if key.public.h.to_bytes(40, "little").rstrip(b"\0") in post]


def texts_in(posted: Sequence[bytes]) -> set[str]:
    """All texts in what was pickled: any two letters stand somewhere among the bytes of long numbers."""
    return {value for one in posted for _, value, _ in pickletools.genops(one) if isinstance(value, str)}


def some_answers(
    seed: int, n_classes: int
) -> tuple[Counted, Nodes, Questions, NDArray[np.uint8], NDArray[np.uint8]]:
    """Targets, nodes of two trees, and an owner's answers, some of them without any cut."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n_classes or 2**40, 50)
    weights, counts = rng.integers(1, 5, 50), rng.integers(0, 4, (2, 50)).astype(np.uint8)
    targets = Counted(values, weights, counts, n_classes)
    trees = [0, 0, 1, 1, 1]
    rows = [targets.used(tree)[i::3] for i, tree in enumerate(trees)]
    nodes = Nodes.of(trees, range(2, 7), rows)
    asked = np.sort(rng.integers(0, 5, 12)).astype(np.intp)
    n_cuts = rng.integers(0, 4, 12).astype(np.uint8)
    bins = [rng.integers(0, n + 1, nodes.sizes[a]) for a, n in zip(asked, n_cuts, strict=True) if n]
    return targets, nodes, Questions(asked, asked), n_cuts, np.concatenate(bins).astype(np.uint8)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("n_jobs", [2, 3, 100])
def test_scores_are_the_same_to_the_last_bit_in_however_many_parts(n_classes: int, n_jobs: int) -> None:
    rules = with_rules(min_samples_leaf=2)
    for seed in range(10):
        targets, nodes, questions, n_cuts, bins = some_answers(seed, n_classes)
        here = best_cuts(targets, nodes, questions.nodes, n_cuts, bins, 2)
        with parallel_config("posting", n_jobs=2) as config:
            there = score(targets, rules, nodes, questions, n_cuts, bins, n_jobs).best
        assert 1 < len(config["backend"].posted) <= n_jobs
        assert (here.cuts == there.cuts).all()
        assert here.scores.tobytes() == there.scores.tobytes()
        assert (here.starts == there.starts).all()


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("backend", ["posting", "multiprocessing"])
def test_bad_answers_are_refused_wherever_they_are_scored(backend: str) -> None:
    targets, nodes, questions, n_cuts, bins = some_answers(0, 2)
    rules = with_rules()
    with parallel_config(backend, n_jobs=2):
        with pytest.raises(FormatError, match="bins for"):
            score(targets, rules, nodes, questions, n_cuts, bins[1:], 2)
        with pytest.raises(FormatError, match="a bin above the number of cuts") as refused:
            score(targets, rules, nodes, questions, n_cuts, np.full_like(bins, 200), 2)
        assert refused.value.kind == "out-of-range"
        assert len(score(targets, rules, nodes, questions, n_cuts, bins, 2).best.cuts) == len(questions)


@pytest.mark.parametrize(("backend", "parts"), [("loky", 0), ("threading", 0), ("posting", 2)])
def test_only_large_histograms_go_and_only_to_workers_that_are_no_threads(backend: str, parts: int) -> None:
    with parallel_config(backend):
        assert parallel.parts_elsewhere(10, 2) == parts
        assert parallel.parts_elsewhere(10, 1) == parallel.parts_elsewhere(0.001, 2) == 0


# -- the command line --------------------------------------------------------------------------------


def test_workers_are_a_number_or_a_backend_with_or_without_an_address() -> None:
    assert _workers(None) == {}
    assert _workers("-1") == {"workers": -1}
    assert _workers("ray") == {"backend": "ray", "address": ""}
    assert _workers("ray://head:10001") == {"backend": "ray", "address": "ray://head:10001"}


def test_serve_does_not_start_without_its_backend(tmp_path: Path) -> None:
    home = str(tmp_path / "kgc")
    run = CliRunner().invoke
    assert run(app, ["kgc", "init", "loans", "--coordinator", "localhost:1", "-d", home]).exit_code == 0
    refused = run(app, ["serve", "-d", home, "--workers", "abacus"])
    assert refused.exit_code != 0
    assert "--workers abacus: give" in refused.stderr


# -- clusters ----------------------------------------------------------------------------------------

ALONE = """
import sys
from revfrf import parallel
from tests.test_scaling import PARTIES, Posting, outcome
from tests.estimators.toys import classifier
from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.parallel import using_backend, workers

sent = 0

def counted(calls):
    def counting(self, function, items, choice):
        global sent
        sent += len(items)
        return calls(self, function, items, choice)
    return counting

if __name__ == "__main__":
    parallel._WORTH_A_JOURNEY = 1e-12
    Parameters.jobs = lambda _, n_jobs: workers(n_jobs)
    parallel._Abroad.calls = counted(parallel._Abroad.calls)
    {start}
    with using_backend({name!r}, {address}):
        print(*outcome(classifier(parties=PARTIES, n_jobs=-1)), sep="\\n")
    {stop}
    assert sent > 20, sent
"""
RAY = (
    "import ray; ray.init('local', num_cpus=2, include_dashboard=False, log_to_driver=False)",
    "assert ray.is_initialized(); ray.shutdown(); assert not ray.is_initialized()",
)
DASK = (
    "from distributed import LocalCluster; cluster = LocalCluster(n_workers=2, host='127.0.0.1', "
    "threads_per_worker=1, dashboard_address=None)",
    "cluster.close()",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "address", "around"),
    [("ray", "''", RAY), ("dask", "cluster.scheduler_address.replace('tcp', 'dask')", DASK)],
)
def test_forest_and_answers_of_a_cluster_are_the_same(
    name: str, address: str, around: tuple[str, str], expected: Outcome, tmp_path: Path
) -> None:
    """In a process of its own, because Ray changes joblib's pools for good."""
    pytest.importorskip({"dask": "distributed"}.get(name, name))
    script = ALONE.format(name=name, address=address, start=around[0], stop=around[1])
    assert alone(script, tmp_path) == [str(part) for part in expected]


@pytest.mark.slow
def test_snippet_of_the_page_on_scaling_runs(tmp_path: Path) -> None:
    """With toy keys, which take no time."""
    pytest.importorskip("ray")
    [snippet] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scaling.md").read_text(), re.DOTALL)
    toy = snippet.replace(
        "parties=parties,", "parties=PARTIES, protocol='paper', key_bits=256, allow_insecure_keys=True,"
    )
    assert toy != snippet
    before = (
        "from revfrf import RevocableForestClassifier\nfrom tests.test_scaling import PARTIES, X, Y as y\n"
    )
    assert alone(before + toy + "print((model.predict(X) == y).mean() > 0.5)\n", tmp_path) == ["True"]


def alone(script: str, place: Path) -> list[str]:
    """What a script prints in a process of its own, whose files are all in this place."""
    (place / "alone.py").write_text(script)
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "PYTHONPATH": str(ROOT),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DASK_TEMPORARY_DIRECTORY": str(place),
    }
    command = [sys.executable, str(place / "alone.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
