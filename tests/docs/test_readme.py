"""What the README and the other pages show: commands and programs run, and print what is printed there."""

import re
import runpy
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.quick import quick

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
pytestmark = pytest.mark.timeout(900)  # on a slow machine, and primes are found by chance
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
[(PROGRAM, PRINTED)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
KEYS, TOY_KEYS = '"key_bits": 2048', '"key_bits": 256, "allow_insecure_keys": True'
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in ("docs", "src", "tests", "benchmarks") for page in ROOT.glob(f"{folder}/**/*.md")),
]


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=800, check=False)


def test_every_command_is_one_that_these_tests_run() -> None:
    """`make test` runs now, test_examples and tests/benchmarks run `make demo` and `make bench` on less,
    test_docs_run runs the rest.
    """
    assert COMMANDS[:2] == ["make demo", "pip install ."]
    assert COMMANDS[-2:] == ["make test", "make bench"]
    assert [command.split()[1] for command in COMMANDS[2:-2]] == ["up", "train", "predict", "revoke", "down"]
    makefile = (ROOT / "Makefile").read_text()
    assert "$(BIN)/python -m benchmarks paper" in makefile
    assert "$(BIN)/pytest" in makefile


@pytest.mark.slow
def test_make_demo_tells_its_story() -> None:
    """With keys of real size; test_examples has it with toy keys."""
    page = ROOT / "five_hospitals.html"
    page.unlink(missing_ok=True)
    done = run("make", "demo")
    assert done.returncode == 0, done.stderr
    story = " ".join(done.stdout.split())
    accuracy, plain, without, now, after = (float(share) for share in re.findall(r"([\d.]+)%", story))
    assert accuracy == now > 90
    assert accuracy > plain - 5
    assert without == after > 90
    assert story.count("; the same as without encryption") == 2
    assert "'Davos' has refused this request" in story
    assert re.findall(r"([✓•✗]) [^✓•✗]*?: (\d+) of (\d+) splits", story) == [
        ("•", "30", "30"),  # the copy, before
        ("✓", "0", "30"),  # compared, after
        ("✓", "0", "30"),  # decrypted, after
        ("✓", "0", "24"),  # with the leaver's key, others' splits
        ("•", "6", "6"),  # and its own
    ]
    assert "✓ The forest is the one trained without Davos: bit for bit the same" in story
    assert "public key: verified" in story
    assert "one byte changed: rejected" in story
    seen = (
        "path bits of requests",
        "bins of rows",
        "rows of such nodes",
        "public keys",
        "receipts for events",
    )
    keys = "3072-bit keys: about 128 bits of security"
    for what in (*seen, keys, "FOS-Find", "FRF-Predict", "HoLT", "FRF-Revoc"):
        assert what in story
    assert "INSECURE" not in story
    assert "True" not in story
    assert f"a tree before and after: {page.name}" in story
    html = page.read_text(encoding="utf-8")
    [nodes] = re.findall(r"(\d+) nodes destroyed, (\d+) rebuilt, (\d+) kept", story)
    for what, count in zip(("destroyed", "rebuilt", "kept"), nodes, strict=True):
        assert f"<dt>nodes {what}</dt><dd>{int(count):,}</dd>" in html
    assert f"{accuracy}%" in html
    assert f"{after}%" in html


@pytest.mark.parametrize("keys", quick([KEYS, TOY_KEYS], [TOY_KEYS]), ids=["real keys", "toy keys"])
def test_the_program_prints_what_the_readme_shows(tmp_path: Path, keys: str) -> None:
    """Whatever the keys are."""
    assert README.count("```python") == 1
    assert PROGRAM.count(KEYS) == 1
    done = run(sys.executable, "-W", "error", "-c", PROGRAM.replace(KEYS, keys), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED
    *_, left, never = PRINTED.splitlines()
    assert left == never


def test_the_picture_is_what_its_script_draws() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "pictures" / "make.py"))
    assert script["picture"]() == script["PICTURE"].read_text(encoding="utf-8")
    assert "](docs/pictures/leaving.svg)" in README


ROWS = (
    "from sklearn.datasets import load_iris\n"
    "from revfrf import RevocableForestClassifier\n"
    "X, y = train, labels = load_iris(return_X_y=True)\n"
    "parties = {'clinic': [0, 1], 'archive': [2, 3]}\n"
)
FITTED = (
    "toy = {'protocol': 'paper', 'key_bits': 256, 'allow_insecure_keys': True}\n"
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
    shares = "model = RevocableForestClassifier(3, parties=parties).fit(X, y)\n"
    check_snippets("leaving.md", 3, ROWS + shares, "", tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"archive-has-left.json", "kgc.pub"}


def test_snippet_of_the_page_on_keeping_runs(tmp_path: Path) -> None:
    """With toy keys, which take no time."""
    checks = "assert [c.leavers for c in model.certificates_] == [(), ('archive',)]\n"
    checks += "assert (model.predict(X) == y).mean() > 0.5\n"
    page = (ROOT / "docs" / "keeping.md").read_text()
    [snippet] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    toy = snippet.replace(
        "parties=parties,", "parties=parties, protocol='paper', key_bits=256, allow_insecure_keys=True,"
    )
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
    done = run(python, "-W", "error", "-c", PROGRAM, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run(python, "-c", "import pandas", cwd=tmp_path).returncode != 0  # not needed by the library


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def prose(page: Path) -> list[str]:
    """The lines of a page that are neither code nor in a table."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.lstrip().startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_have_at_most_100_characters(page: Path) -> None:
    assert [line for line in prose(page) if len(line) > 100] == []


def test_constraints_pin_versions_and_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []


def test_tests_named_in_the_deviations_exist() -> None:
    """A row names files, and patterns of tests after the file they are in."""
    found = list((ROOT / "tests").rglob("test_*.py"))
    texts: list[str] = []
    for line in (ROOT / "docs" / "deviations.md").read_text().splitlines():
        for file, pattern in re.findall(r"`(?:([\w/]*test_\w+\.py)|(…\w+…?|\w+…))`", line):
            if file:
                texts = [path.read_text() for path in found if path.as_posix().endswith(f"/{file}")]
                assert texts, file
            else:
                assert any(re.search(rf"def test_\w*{pattern.strip('…')}", text) for text in texts), line
