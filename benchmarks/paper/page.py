"""Write the tables of a run into the page of the documentation.

    python -m benchmarks.paper.page DIR [PAGE]

DIR holds the JSON files of `python -m benchmarks paper`. PAGE is docs/benchmarks.md unless another is
given; it takes only a full run of all experiments. The part of the page above the mark is kept.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.bench import EXPERIMENTS
from benchmarks.paper.datasets import ROOT
from benchmarks.paper.report import documentation, read, warned
from revfrf.errors import UsageError
from revfrf.io.files import write_text

PAGE = ROOT / "docs" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.paper.page", description="Write a run's tables down.")
    parser.add_argument("results", type=Path, metavar="DIR", help="of the JSON files")
    parser.add_argument("page", type=Path, nargs="?", default=PAGE)
    options = parser.parse_args(arguments)
    try:
        runs = read(options.results, EXPERIMENTS)
        if not runs:
            parser.error(
                f"{options.results} has no results; run `python -m benchmarks paper --out DIR` first"
            )
        faults = warned(EXPERIMENTS, runs)
        if faults and options.page == PAGE:
            parser.error(f"{faults[-1]} The documentation wants a full run of all; give another page")
        page = documentation(EXPERIMENTS, runs, options.page.read_text(encoding="utf-8"))
        write_text(options.page, page)
    except (UsageError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
