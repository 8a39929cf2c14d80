"""Small pieces of work whose results are kept, so that a run that was ended goes on where it was.

A cell is named by everything that its result depends on. Its file appears when it is done, whole or not at
all; whatever changes, a parameter, the data, the code that is measured, a version or the machine, is another
name and another file.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from revfrf.errors import UsageError
from revfrf.io.files import write_text

Plain = Mapping[str, Any]
"""Names and values that JSON has."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Work that gives a plain result; `key` is what it depends on."""

    experiment: str
    key: Plain
    run: Callable[[], Plain]

    @property
    def label(self) -> str:
        """For people: what the key says, but for the file."""
        shown = {name: value for name, value in self.key.items() if name != "file" and value is not None}
        words = [value if isinstance(value, str) else f"{name} {value}" for name, value in shown.items()]
        return f"{self.experiment}: {', '.join(words)}"


@dataclass(frozen=True, slots=True)
class Done:
    """A cell's key and result, how long it took, on which day, and from which commit, where that is known."""

    key: Plain
    result: Plain
    seconds: float
    date: str
    commit: str = ""


def where(results: Iterable[Done], **wanted: Any) -> list[Done]:
    """Those whose keys have these values."""
    return [one for one in results if wanted.items() <= one.key.items()]


class Store:
    """A directory of finished cells. `world` is what every result depends on: code, versions, machine.

    `commit` is kept beside results for readers, and names nothing: what counts of it is in `world`.
    """

    def __init__(self, directory: Path, world: Plain, warn: Callable[[str], None], commit: str = "") -> None:
        self._directory, self._world, self._warn, self._commit = directory, world, warn, commit

    def file(self, cell: Cell) -> Path:
        """Where its result is, or will be."""
        name = json.dumps([self._world, cell.experiment, cell.key], sort_keys=True)
        digest = hashlib.sha256(name.encode()).hexdigest()[:24]
        return self._directory / cell.experiment / f"{digest}.json"

    def find(self, cell: Cell) -> Done | None:
        """Its result, or None if it has to be run. A damaged file counts as none, and is named."""
        file = self.file(cell)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["key"] != as_json(cell.key):
                raise ValueError("the key is another")
            if not content["result"]:
                raise ValueError("the result is empty")
            return Done(*(content[name] for name in ("key", "result", "seconds", "date", "commit")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._warn(f"{file} is damaged ({error}); this cell is done again")
            return None

    def run(self, cell: Cell) -> Done:
        """Do it, and keep the result."""
        started = perf_counter()
        result = as_json(cell.run())
        spent, today = perf_counter() - started, datetime.now(UTC).strftime("%Y-%m-%d")
        done = Done(as_json(cell.key), result, spent, today, self._commit)
        write(self.file(cell), {**asdict(done), "world": self._world})
        return done

    def forget(self, cells: Sequence[Cell]) -> None:
        """Throw their results away."""
        for cell in cells:
            self.file(cell).unlink(missing_ok=True)

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        return [cell for cell in cells if self.find(cell) is None]

    def all(self, cells: Sequence[Cell]) -> Iterator[Done]:
        """The results of cells that have all been run."""
        for cell in cells:
            done = self.find(cell)
            if done is None:
                raise UsageError(f"{cell.label}: its result is gone; run the same command again")
            yield done


def write(file: Path, content: object) -> None:
    """A JSON file that is there whole or not at all, whatever ends this process."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)


def as_json(value: Plain) -> Plain:
    """As it comes back from a file: tuples are lists, keys are strings."""
    found: Plain = json.loads(json.dumps(value, allow_nan=False))
    return found
