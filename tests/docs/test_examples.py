"""The narrated examples, and what they say to wrong input."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "compare_two_numbers.py"
TOY = ("--key-bits", "256", "--allow-insecure")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return python(str(EXAMPLE), *options)


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "revfrf", "demo", *options)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.parametrize(
    ("income", "threshold", "answer"),
    [("1", "2", True), ("2", "2", True), ("2.01", "2", False), ("-5", "5", True), ("5", "-5", False)],
)
def test_the_answer_is_right(income: str, threshold: str, answer: bool) -> None:
    done = run(*TOY, "--income", income, "--threshold", threshold)
    assert done.returncode == 0, done.stderr
    assert f"known to CS alone: {'yes' if answer else 'no'}" in done.stdout
    assert "The paper's own HoLT says the same" in done.stdout
    assert "INSECURE" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--key-bits", "1024"), "1024-bit keys protect nothing"),
        (("--key-bits", "7"), "give a multiple of 16"),
        ((*TOY, "--income", "1e30"), "outside the fixed-point range"),
        ((*TOY, "--income", "inf"), "the requester's income, row 0: inf is not finite"),
        ((*TOY, "--threshold", "nan"), "the bank's threshold is not a number"),
    ],
)
def test_wrong_input_is_answered_with_one_clear_line(options: tuple[str, ...], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_hospitals_with_toy_keys_tell_their_story_labelled_in_the_terminal_and_on_the_page(
    tmp_path: Path,
) -> None:
    page = tmp_path / "a page.html"
    done = demo(*TOY, "--trees", "3", "--page", str(page))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.endswith(f"{page}\n")
    assert "✗" not in done.stdout
    story = " ".join(done.stdout.split())
    assert story.count("; the same as without encryption") == 2
    assert "'Davos' has refused this request" in story
    assert "✓ The forest is the one trained without Davos: bit for bit the same" in story
    assert "public key: verified" in story
    assert "one byte changed: rejected" in story
    *lines, _ = done.stdout.splitlines()  # the last one has the page's path
    assert max(map(len, lines)) <= 80
    for text in (done.stdout, page.read_text(encoding="utf-8")):
        assert "256-bit keys: INSECURE" in text
        for hospital in ("Aarau", "Basel", "Chur", "Davos", "Engelberg"):
            assert hospital in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--key-bits", "1024"), "1024-bit keys protect nothing"),
        ((*TOY, "--trees", "0"), "Invalid value for '--trees'"),
        (
            (*TOY, "--page", "no/such/place.html"),
            "no/such/place.html: cannot be written: there is no directory no/such",
        ),
    ],
)
def test_hospitals_say_what_is_wrong_in_one_line(options: tuple[str, ...], message: str) -> None:
    done = demo(*options)
    assert done.returncode == 2
    assert message in done.stderr
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)


def test_ctrl_c_ends_it_at_once_and_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--key-bits", "8192"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    while "1  The key centre" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "interrupted" in errors
