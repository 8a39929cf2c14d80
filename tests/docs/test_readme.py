"""What the README says can be done, done."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
pytestmark = pytest.mark.timeout(900)  # on a slow machine, and primes are found by chance
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.md"), *ROOT.glob("tests/**/*.md")]


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=800, check=False)


def test_every_command_is_one_that_these_tests_run() -> None:
    """`make test` is what runs now; tests/benchmarks run `make bench` on made-up data, and test_pages what
    `revfrf` does.
    """
    first = [command for command in COMMANDS if not command.startswith("revfrf ")]
    assert first == ["make demo", "make test", "make bench", "pip install ."]
    assert COMMANDS[: len(first)] == first
    makefile = (ROOT / "Makefile").read_text()
    assert "$(BIN)/revfrf bench paper" in makefile
    assert "$(BIN)/pytest" in makefile


def test_make_demo_tells_its_story() -> None:
    page = ROOT / "five_hospitals.html"
    page.unlink(missing_ok=True)
    done = run("make", "demo")
    assert done.returncode == 0, done.stderr
    story = " ".join(done.stdout.split())
    right, plain, without, now, after = (float(share) for share in re.findall(r"([\d.]+)%", story))
    assert right == now > 90
    assert right > plain - 5
    assert without == after > 90
    assert story.count("the same as in the clear: True") == 2
    assert "'Davos' has refused this request" in story
    counts = re.findall(r"works for (\d+) of (\d+) splits", story)
    assert [(worked == "0", worked == of) for worked, of in counts] == [
        (False, True),  # the copy, before
        (True, False),  # compared, after
        (True, False),  # opened, after
        (True, False),  # with the leaver's key, others' splits
        (False, True),  # and its own
    ]
    assert "bit for bit the same forest: True" in story
    assert "public key: verified" in story
    assert "one byte changed: rejected" in story
    seen = ("path bits of requests", "bins of rows", "rows of such nodes", "public keys", "erasure receipts")
    for what in (*seen, "3072-bit keys: secure", "FOS-Find", "FRF-Predict", "HoLT", "FRF-Revoc"):
        assert what in story
    assert "INSECURE" not in story
    assert f"a tree before and after: {page}" in story
    html = page.read_text(encoding="utf-8")
    [nodes] = re.findall(r"(\d+) nodes destroyed, (\d+) rebuilt, (\d+) kept", story)
    for what, count in zip(("destroyed", "rebuilt", "kept"), nodes, strict=True):
        assert f"<dt>nodes {what}</dt><dd>{int(count):,}</dd>" in html
    assert f"{right}%" in html
    assert f"{after}%" in html


@pytest.mark.parametrize("code", PYTHON)
def test_python_examples_run_as_printed(code: str, tmp_path: Path) -> None:
    assert len(PYTHON) == 1
    done = run(sys.executable, "-W", "error", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


ROWS = (
    "from sklearn.datasets import load_iris\n"
    "from revfrf import RevocableForestClassifier\n"
    "X, y = train, labels = load_iris(return_X_y=True)\n"
    "parties = {'clinic': [0, 1], 'archive': [2, 3]}\n"
)
FITTED = (
    "toy = {'key_bits': 256, 'allow_insecure_keys': True}\n"
    "model = RevocableForestClassifier(3, parties=parties, **toy).fit(X, y)\n"
)


def check_snippets(page: str, count: int, before: str, after: str, place: Path) -> None:
    """The Python of a page runs, one snippet after the other."""
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert len(snippets) == count
    done = run(sys.executable, "-W", "error", "-c", before + "\n".join(snippets) + after, cwd=place)
    assert done.returncode == 0, done.stderr


def test_snippets_of_the_page_on_requests_run_one_after_the_other(tmp_path: Path) -> None:
    checks = "assert (coverage == 1).all() and absent == () and (labels == answers).all()\n"
    check_snippets("requests.md", 4, ROWS + FITTED + "X = X[:3]\n", checks, tmp_path)


def test_snippets_of_the_page_on_leaving_run_one_after_the_other(tmp_path: Path) -> None:
    check_snippets("leaving.md", 2, ROWS + FITTED, "", tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"archive-has-left.json", "kgc.pub"}


def test_snippet_of_the_page_on_keeping_runs(tmp_path: Path) -> None:
    """With toy keys, which take no time."""
    checks = "assert [c.leavers for c in model.certificates_] == [('archive',)]\n"
    checks += "assert (model.predict(X) == y).mean() > 0.5\n"
    page = (ROOT / "docs" / "keeping.md").read_text()
    [snippet] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    toy = snippet.replace("parties=parties,", "parties=parties, key_bits=256, allow_insecure_keys=True,")
    assert toy != snippet
    done = run(sys.executable, "-W", "error", "-c", ROWS + toy + checks, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {file.suffix for file in (tmp_path / "forest").iterdir()} == {".db"}


def test_no_page_has_a_gap_to_be_filled() -> None:
    for page in PAGES:
        assert not re.search(r"\b(FILL|TODO|TBD|XXX)\b", page.read_text()), page


@pytest.mark.slow
def test_the_library_installs_alone_into_an_empty_environment(tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=True)
    python = tmp_path / "bin" / "python"
    install = ["install", "--quiet", "--only-binary", ":all:", "--constraint", "constraints.txt", "."]
    done = run(python, "-m", "pip", *install)
    assert done.returncode == 0, done.stderr
    done = run(python, "-W", "error", "-c", PYTHON[0], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run(python, "-c", "import pandas", cwd=tmp_path).returncode != 0  # not needed by the library


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_readme_fits_on_a_screen() -> None:
    assert len(README.splitlines()) <= 50


def test_constraints_pin_versions_and_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []


def test_tests_named_in_the_deviations_exist() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = set(re.findall(r"def (test_\w+)", tests))
    for pattern in re.findall(r"`(…?\w+…?)`", (ROOT / "docs" / "deviations.md").read_text()):
        if "…" in pattern:
            middle = pattern.strip("…")
            assert any(middle in name for name in names), pattern
