"""TOML with the line of every key, for errors that say where a mistake is."""

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from revfrf.errors import ConfigError
from revfrf.io.files import content, reading

MAX_SIZE = 2**20
Key = tuple[str, ...]

_WORD = re.compile(
    r"""
      "{3} (?: \\. | [^\\] )*? "{3,5}     # text of several lines; up to two quotes more may end it
    | '{3} .*? '{3,5}
    | " (?: \\. | [^"\\] )* "
    | ' [^']* '
    | \# [^\n]*
    | [][{}.,=\n]
    | [^][{}.,=\s\#"']+                 # a bare key, or a part of a number or date
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class Source:
    """The origin of values: a file, with the lines of its keys, or the command line, with its flags."""

    path: Path | None = None
    lines: Mapping[Key, int] = field(default_factory=dict)
    flags: Mapping[Key, str] = field(default_factory=dict)

    def error(self, what: str, *keys: Key, kind: str = "value") -> ConfigError:
        """Return an error about the first of these keys that was given, or should have been."""
        for key in keys:
            if key in self.flags:
                return ConfigError(f"{self.flags[key]}: {what}", kind=kind)
        key = next((key for key in keys if key in self.lines), keys[0])
        line = next((self.lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in self.lines), None)
        where = [] if self.path is None else [str(self.path)]
        where += [] if line is None else [f"line {line}"]
        section, *inner = map(_key_text, key)
        where += [f"[{section}] {'.'.join(inner)}".rstrip()]
        return ConfigError(f"{', '.join(where)}: {what}", kind=kind)


def read_toml(path: Path) -> tuple[dict[str, Any], Source]:
    """Return the tables of a TOML file, and the lines of their keys.

    Raises ConfigError; its kinds are those of `reading`, and `syntax`.
    """
    with reading(path, ConfigError, "`revfrf kgc init` and `revfrf join` create one"):
        data = content(path, MAX_SIZE)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8; save the file as UTF-8", kind="syntax") from None
    try:
        return tomllib.loads(text), Source(path, key_lines(text))
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from None
    except ValueError:
        raise ConfigError(
            f"{path}: a number has too many digits; write a smaller one", kind="syntax"
        ) from None
    except RecursionError:
        raise ConfigError(f"{path}: brackets nested too deep; write fewer", kind="syntax") from None


def key_lines(text: str) -> dict[Key, int]:
    """The line in which each section and key of a valid TOML text first appears."""
    lines: dict[Key, int] = {}
    outer: list[tuple[str, Key, Key]] = []  # open brackets of values, with what `table` and `path` were
    table: Key = ()
    path: Key = ()
    parts: list[str] = []
    state, line, counted = "key", 1, 0
    for match in _WORD.finditer(text):
        word = match.group()
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        if word[0] == "#":
            continue
        if state == "value":
            if word in ("[", "{"):
                outer.append((word, table, path))
                table, state = path, "key" if word == "{" else "value"
            elif word in ("]", "}"):
                _, table, path = outer.pop()
            elif word == "\n" if not outer else (word == "," and outer[-1][0] == "{"):
                state = "key"
        elif word == "[":
            state = "header"
        elif word == "=" or (word == "]" and parts):
            path = (*(table if word == "=" else ()), *parts)
            for n in range(1, len(path) + 1):
                lines.setdefault(path[:n], line)
            table, state = (table, "value") if word == "=" else (path, "key")
            parts = []
        elif word == "}":
            _, table, path = outer.pop()
            state = "value"
        elif word not in (".", "\n", "]"):
            parts.append(tomllib.loads(f"key = {word}")["key"] if word[0] in "\"'" else word)
    return lines


def toml_text(value: Any) -> str:
    """Return a value as TOML: text, a number, a boolean, or a list or table of these."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml_text(key)} = {toml_text(value[key])}" for key in value) + " }"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_text, value))}]"
    return repr(value).lower()


def nearest(name: str, known: list[str]) -> str:
    """Return a suggestion for a misspelt name."""
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def shown(value: object) -> str:
    """Return a value as one short line, for errors."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no numbers of that size
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:80]}…"


def _key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else shown(key)


def _syntax_error(path: Path, text: str, reason: str) -> ConfigError:
    lines = text.split("\n")
    reason, _, place = reason.rpartition(" (at ")
    found = re.match(r"line (\d+)", place)
    number = int(found[1]) if found else len(lines) - (not lines[-1] and len(lines) > 1)
    return ConfigError(
        f"{path}, line {number}, {shown(lines[number - 1].strip())}: {reason}; "
        "write `[section]` or `key = value`, each once and on its own line, with text in quotes",
        kind="syntax",
    )
