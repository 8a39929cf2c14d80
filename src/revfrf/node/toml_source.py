"""TOML, and where its keys are, for errors that say where a mistake is."""

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
Tables = dict[str, dict[str, Any]]
_QUOTES = "\"'"
Key = tuple[str, ...]  # a section, or a section and a key

_LINE = re.compile(r"\s*(?:\[+\s*(?P<section>[^\]]+?)\s*\]|(?P<key>[\w-]+)\s*=)")


@dataclass(frozen=True)
class Source:
    """The origin of values: the text of a file, or flags of the command line."""

    path: Path | None = None
    text: str = ""
    flags: Mapping[Key, str] = field(default_factory=dict)

    def error(self, what: str, *keys: Key, kind: str = "value") -> ConfigError:
        """Return an error about the first of these keys that was given, or should have been."""
        for key in keys:
            if key in self.flags:
                return ConfigError(f"{self.flags[key]}: {what}", kind=kind)
        lines = {key: line for key in keys if (line := self.line(*key))}
        key = next(iter(lines), keys[0])
        line = lines.get(key) or self.line(key[0])
        file, section = f"{self.path}, " if self.path else "", " ".join([f"[{key[0]}]", *key[1:]])
        return ConfigError(f"{file}{f'line {line}, ' if line else ''}{section}: {what}", kind=kind)

    def line(self, section: str, key: str = "") -> int | None:
        """Return the line of a section or key if it is written as usual: `[section]` or `key = …`.

        A section may be `[columns.age]`; then it is also the line of the key `age` of `[columns]`.
        """
        here = ""
        for number, line in enumerate(self.text.split("\n"), 1):
            if found := _LINE.match(line):
                here, name = (_bare(found["section"]), "") if found["section"] else (here, found["key"])
                outer, _, inner = here.partition(".")
                if (section, key) in (
                    (here, name),
                    (name, here),
                    *(() if name else ((outer, inner), (outer, ""))),
                ):
                    return number  # of a key before all sections, too
        return None


def _bare(section: str) -> str:
    """Return the name of a section without quotes and spaces around its parts."""
    outer, _, inner = section.partition(".")
    return f"{outer.strip()}.{inner.strip().strip(_QUOTES)}" if inner else outer


def read_toml(path: Path) -> tuple[Tables, Source]:
    """Return the tables of a TOML file, and where they are from.

    Raises ConfigError; its kinds are those of `reading`, and `syntax`.
    """
    with reading(path, ConfigError, "`revfrf kgc init` and `revfrf join` create one"):
        data = content(path, MAX_SIZE)
    try:
        text = data.decode("utf-8-sig")
        return tomllib.loads(text), Source(path, text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8; save the file as UTF-8", kind="syntax") from None
    except tomllib.TOMLDecodeError as error:
        remedy = "write `[section]` or `key = value`, each once and on its own line, with text in quotes"
        raise ConfigError(f"{path}: not TOML: {error}; {remedy}", kind="syntax") from None
    except (ValueError, RecursionError):
        what = "a number has thousands of digits, or lists are nested too deeply; no key needs that"
        raise ConfigError(f"{path}: {what}", kind="syntax") from None


def toml_text(value: Any) -> str:
    """Return a value as TOML: text, a number, a boolean, or a list or table of these."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        pairs = ", ".join(f"{toml_text(key)} = {toml_text(value[key])}" for key in value)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_text, value))}]"
    return repr(value).lower()


def shown(value: object) -> str:
    """Return a value as one short line, for errors."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python prints no numbers of that size, and no tables of that depth
        return "a value that is too long to show"
    return text if len(text) <= 80 else f"{text[:80]}…"
