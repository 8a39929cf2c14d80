"""Pages, docstrings, help, errors and log lines are in plain English, without some old habits."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.md")]
SOURCES = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/*.py")]
HABITS = re.compile(
    r"\b(whoever|whomever|anew|stands|worse by|(?:is|are) told|no more|any more|so many|meanwhile"
    r"|as it should|of old)\b",
    re.IGNORECASE,
)


def strings(source: Path) -> str:
    """All string literals of a module, docstrings included."""
    nodes = ast.walk(ast.parse(source.read_text()))
    return " | ".join(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_text_for_users_avoids_these_words() -> None:
    texts = {path: path.read_text() for path in PAGES} | {path: strings(path) for path in SOURCES}
    found = {
        f"{path.relative_to(ROOT)}: …{line[max(0, word.start() - 40) : word.end() + 40]}…"
        for path, text in texts.items()
        for line in [" ".join(text.split())]
        for word in HABITS.finditer(line)
    }
    assert found == set()
