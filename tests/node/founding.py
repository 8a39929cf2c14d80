"""The directories of a federation of toys: who is in it, its files, its configurations."""

import json
import os
import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from revfrf.io.files import write_text
from revfrf.io.party_data import csv_text
from revfrf.node.home import CONFIG, Home
from revfrf.node.invitations import create_federation, invite, join_federation, uninvite
from revfrf.node.sandbox import PORTS, free_port

OWNERS = ("h0", "h1", "h2")
SERVING = ("CS", "KGC", "CC", *OWNERS)
N_ROWS, N_TRAINED, N_ASKED = 110, 60, 6
MISSING = {"h0": ("p003", "p104"), "h1": ("p010", "p011")}
"""Ids that some do not have. h2, who leaves, has all: without it, the common rows are the same."""


def ids() -> list[str]:
    return [f"p{number:03}" for number in range(N_ROWS)]


def columns() -> dict[str, dict[str, list[float]]]:
    """Of each owner, its columns of all rows."""
    values = np.random.default_rng(7).normal(size=(9, N_ROWS)).round(3)
    return {
        owner: {f"x{3 * i + j}": values[3 * i + j].tolist() for j in range(3)}
        for i, owner in enumerate(OWNERS)
    }


def labels() -> list[str]:
    found = columns()
    score = np.array(found["h0"]["x0"]) + np.array(found["h1"]["x4"]) + 2 * np.array(found["h2"]["x8"])
    return ["yes" if value > 0 else "no" for value in score]


def write_rows(path: Path, names: Sequence[str], table: dict[str, Any], seed: int = 0) -> None:
    """A file with the rows of these ids, in an order of its own."""
    order = list(names)
    random.Random(seed).shuffle(order)
    places = {name: place for place, name in enumerate(ids())}
    shown = {name: [values[places[row]] for row in order] for name, values in table.items()}
    write_text(path, csv_text(order, shown))


def write_files(directory: Path) -> None:
    names = ids()
    for seed, owner in enumerate(OWNERS):
        held = [name for name in names if name not in MISSING.get(owner, ())]
        write_rows(directory / owner / "rows.csv", held, columns()[owner], seed)
    write_rows(directory / "CS" / "rows.csv", names[:N_TRAINED], {"label": labels()}, 4)
    write_rows(directory / "CS" / "test.csv", names[N_TRAINED + N_ASKED :], {"label": labels()}, 5)
    whole = {name: values for owned in columns().values() for name, values in owned.items()}
    write_rows(directory / "clinic" / "rows.csv", names[N_TRAINED : N_TRAINED + N_ASKED], whole, 6)


def configure(file: Path, **values: object) -> None:
    """Change keys of a configuration file."""
    lines = file.read_text().split("\n")
    for key, value in values.items():
        [place] = [i for i, line in enumerate(lines) if line.removeprefix("# ").startswith(f"{key} = ")]
        lines[place] = f"{key} = {json.dumps(value)}"
    file.write_text("\n".join(lines))


def port_of_own() -> int:
    """A free port that no other worker of this run chooses before it is in use."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return free_port(PORTS[worker::count])


def found_federation(directory: Path, owners: Collection[str] = OWNERS, **keys: object) -> None:
    """A federation, with toy keys unless told otherwise: its directories, files and configurations."""
    toys = {"key_bits": 256, "allow_insecure": True}
    create_federation(directory / "KGC", "toys", "127.0.0.1:1", **(keys or toys))
    centre = Home.open(directory / "KGC")
    members = [("CS", "CS"), ("CC", "CC"), ("requester", "clinic")]
    for role, name in [*members, *(("participant", owner) for owner in owners)]:
        join_federation(directory / name, invite(centre, role, name).text(), allow_insecure=True)
    centre.close()
    write_files(directory)
    for file in directory.glob(f"*/{CONFIG}"):
        configure(file, heartbeat=10, patience=30, workers=1)
    configure(
        directory / "CS" / CONFIG,
        n_estimators=4,
        max_depth=5,
        max_features=0.5,
        n_candidates=8,
    )
    for name in ("CS", *owners):
        configure(directory / name / CONFIG, random_state=10)


def without(directory: Path, owner: str) -> None:
    """The same federation as if this one had never been invited."""
    centre = Home.open(directory / "KGC")
    uninvite(centre, owner)
    centre.close()
