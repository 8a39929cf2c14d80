"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

from typer import Option

from revfrf.node import api

Json = Annotated[bool, Option("--json", help="Print JSON, for programs.")]
AllowInsecure = Annotated[
    bool, Option("--allow-insecure", help="For tests: accept keys below 2048 bits, which protect nothing.")
]
Directory = Annotated[Path, Option("--directory", "-d", metavar="DIR", help="The party's directory.")]
Voting = Annotated[
    api.Voting, Option(help="hard: majority vote of the trees; soft: mean of their probabilities.")
]
IdColumn = Annotated[str | None, Option(metavar="COLUMN", help="The id column.")]
REPLACED = "an existing file is replaced."
