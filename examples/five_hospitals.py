"""Five hospitals hold different columns about the same patients, and train one forest together.

Run it with `make demo`, or `python examples/five_hospitals.py --key-bits 2048 --trees 10`.
"""

import argparse
import sys
from time import perf_counter

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from revfrf import RevocableForestClassifier
from revfrf.errors import RevFRFError

console = Console(highlight=False, markup=False)

HOSPITALS = ("Aarau", "Basel", "Chur", "Davos", "Engelberg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key-bits", type=int, default=3072, help="size of the keys (default: %(default)s)")
    parser.add_argument("--trees", type=int, default=30, help="size of the forest (default: %(default)s)")
    parser.add_argument("--allow-insecure", action="store_true", help="permit keys below 2048 bits")
    options = parser.parse_args()
    try:
        tell(options)
    except (RevFRFError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None


def tell(options: argparse.Namespace) -> None:
    """The story, step by step."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    train, test, labels, truth = train_test_split(X, y, random_state=0)
    parties = {name: list(X.columns[i :: len(HOSPITALS)]) for i, name in enumerate(HOSPITALS)}
    console.print(
        f"{len(train)} patients, {len(X.columns)} measurements of each, in {len(HOSPITALS)} hospitals. "
        "CS, the coordinator, knows who is ill. Nobody shows anybody a column.\n"
    )
    console.print("1  A forest grows: hospitals propose splits, CS chooses, every split is stored encrypted.")
    started = perf_counter()
    model = RevocableForestClassifier(
        options.trees,
        parties=parties,
        key_bits=options.key_bits,
        allow_insecure_keys=options.allow_insecure,
        random_state=0,
        n_jobs=-1,
        verbose=int(console.is_terminal),
    ).fit(train, labels)
    console.print(
        f"   {model.n_nodes_} nodes in {perf_counter() - started:.1f} s, digest {model.digest_[:16]}…\n"
    )

    console.print(
        "2  It is tested: each hospital compares its own columns of new patients with its own cuts."
    )
    forest = RandomForestClassifier(options.trees, max_depth=10, min_samples_leaf=5, random_state=0)
    console.print(f"   right for {model.score(test, truth):.1%} of {len(test)} patients; ", end="")
    console.print(
        f"scikit-learn, with all columns in one place: {forest.fit(train, labels).score(test, truth):.1%}\n"
    )

    console.print("3  What each of them received, counted from the messages of this run:")
    console.print(leakage(model))
    console.print("4  What it cost:")
    console.print(f"{model.costs_}\n")
    console.print(
        "CS never saw a measurement or a cut, only bins; a hospital never saw a label, or another's column. "
        "docs/leakage.md says what follows from what they did see."
    )


def leakage(model: RevocableForestClassifier) -> Table:
    """What the servers and one hospital received; the other hospitals are alike."""
    table = Table("role", "what it received", "how much")
    for role in ("KGC", "CS", "CC", HOSPITALS[0]):
        for what, count in model.leakage_()[role].items():
            table.add_row(role, what, f"{count:,}")
        table.add_section()
    return table


if __name__ == "__main__":
    main()
