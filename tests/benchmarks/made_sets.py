"""Small made-up files with the columns of the real sets, or some of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Table = dict[str, Any]


def adult(rng: np.random.Generator) -> Table:
    rows = 32561 + 200
    age = rng.integers(17, 90, rows)
    job = rng.choice(["Private", "?", "State-gov"], rows)
    income = np.where((age > 45) & (job == "Private"), ">50K", "<=50K")
    hours = rng.integers(1, 99, rows)
    return {
        "age": age,
        "workclass": job,
        "fnlwgt": rng.integers(1, 10**6, rows),
        "hours": hours,
        "income": income,
    }


def bank(rng: np.random.Generator) -> Table:
    return {
        "age": rng.integers(18, 90, 600),
        "job": rng.choice(["a", "b"], 600),
        "y": rng.choice(["no", "yes"], 600),
    }


def drug(rng: np.random.Generator) -> Table:
    ss = rng.standard_normal(200)
    level = np.clip(np.rint(3 + 2 * ss + rng.standard_normal(200) / 2), 0, 6).astype(int)
    return {
        "id": np.arange(200),
        "age": rng.standard_normal(200),
        "nscore": rng.standard_normal(200),
        "ss": ss,
        "alcohol": "CL5",
        "cannabis": [f"CL{number}" for number in level],
        "vsa": "CL0",
    }


def wine_white(rng: np.random.Generator) -> Table:
    alcohol = rng.random(60)
    return {"alcohol": alcohol, "pH": rng.random(60), "quality": 3 + (7 * alcohol).astype(int)}


def superconduct(rng: np.random.Generator) -> Table:
    X = rng.random((300, 6))
    return {f"x{i}": X[:, i] for i in range(6)} | {"critical_temp": 90 * X[:, 0] + X[:, 1]}


def appliances(rng: np.random.Generator) -> Table:
    dates = pd.date_range("2016-01-11 17:00", periods=60, freq="10min").astype(str)
    return {"date": dates, "Appliances": rng.integers(10, 900, 60), "T1": rng.random(60)}


def insurance(rng: np.random.Generator) -> Table:
    rows = 5822 + 50
    kind = rng.integers(1, 41, rows)
    return {
        "MOSTYPE": kind,
        "MAANTHUI": rng.integers(1, 10, rows),
        "CARAVAN": (kind > rng.integers(0, 60, rows)).astype(int),
    }


def news(rng: np.random.Generator) -> Table:
    tokens = rng.random(60)
    rest = {"n_tokens": tokens, "n_links": rng.random(60), "shares": np.rint(3000 * tokens).astype(int)}
    return {"url": "http://news", "timedelta": np.arange(60), **rest}


def bike(rng: np.random.Generator) -> Table:
    hour = np.arange(200) % 24
    casual, registered = rng.integers(0, 50, 200), 10 * hour
    return {
        "instant": np.arange(200),
        "dteday": "2011-01-01",
        "hr": hour,
        "temp": rng.random(200),
        "casual": casual,
        "registered": registered,
        "cnt": casual + registered,
    }


MAKERS: dict[str, Callable[[np.random.Generator], Table]] = {
    make.__name__: make
    for make in (adult, bank, drug, wine_white, superconduct, appliances, insurance, news, bike)
}


def write(where: Path) -> Path:
    """All nine, into this directory."""
    for name, make in MAKERS.items():
        table = pd.DataFrame(make(np.random.default_rng(0)))
        fast = {"method": "gzip", "compresslevel": 1}
        table.to_csv(where / f"{name}.csv.gz", index=False, compression=fast)
    return where
