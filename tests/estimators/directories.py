"""Forests in directories: made, opened, and compared with forests in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from revfrf import RevocableForestClassifier
from revfrf.errors import StorageError
from revfrf.messages.frf_revoc import RevocationLevel
from tests.estimators.toys import classifier, signs, table

LEVELS: tuple[RevocationLevel, ...] = (1, 2)
X = table(120, 5)
Y = signs(X) + (X[:, 2] > 1)
NUMBERS = X[:, 0] + X[:, 2] / 2
PARTIES = {"bank": [0, 4], "telco": [1, 3], "shop": [2]}
ROWS = X[:2]


def opened(directory: Path) -> Any:
    return RevocableForestClassifier.open(directory)


def again(model: Any) -> Any:
    """The model, closed and opened again."""
    model.close()
    return type(model).open(model.directory)


def file_of(directory: Path, party: str) -> Path:
    """A party's database."""
    if party in ("kgc", "cs", "cc"):
        return directory / f"{party}.db"
    [file] = directory.glob(f"*-{party}-*.db")
    return file


def opened_after_all(directory: Path) -> str:
    """Why a directory cannot be opened; "" if it can."""
    try:
        opened(directory).close()
    except StorageError as error:
        return error.kind
    return ""


def in_memory() -> Any:
    return classifier(6, parties=PARTIES).fit(X, Y)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as caught:
        call()
    return caught.value.kind


def same_answers(model: Any, other: Any, rows: Any = X, encrypted: Any = ROWS) -> None:
    """Both are the same forest; `encrypted` are rows to ask about, None for no request."""
    assert model.digest_ == other.digest_
    assert model.n_nodes_ == other.n_nodes_
    assert model.parties_ == other.parties_
    classes = isinstance(other, RevocableForestClassifier)
    assert model.predict(rows).tolist() == other.predict(rows).tolist()
    if classes:
        assert model.classes_.tolist() == other.classes_.tolist()
        assert model.classes_.dtype == other.classes_.dtype
        assert model.predict_proba(rows).tobytes() == other.predict_proba(rows).tobytes()
    if encrypted is not None:
        ask, expected = (
            ("predict_proba_encrypted", "predict_proba") if classes else ("predict_encrypted", "predict")
        )
        assert getattr(model, ask)(encrypted).tobytes() == getattr(other, expected)(encrypted).tobytes()
