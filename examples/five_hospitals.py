"""Five hospitals hold different columns about the same patients. They train one forest, and answer requests.

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

from revfrf import RequestPolicy, RevocableForestClassifier
from revfrf.errors import RefusedError, RevFRFError

console = Console(highlight=False, markup=False)

HOSPITALS = ("Aarau", "Basel", "Chur", "Davos", "Engelberg")
DOCTOR = "Dr. Frei"
DIAGNOSES = ("malignant", "benign")


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

    console.print(
        "3  A doctor asks about one patient, encrypted: nobody else sees a value, and hospitals consent."
    )
    model.enrol_requester(DOCTOR)
    started = perf_counter()
    [answer] = model.predict_encrypted(test[:1], requester=DOCTOR)
    console.print(
        f"   {DIAGNOSES[answer]}, after {perf_counter() - started:.1f} s; "
        f"the forest says the same as before: {answer == model.predict(test[:1])[0]}"
    )
    model.set_policy(HOSPITALS[-1], RequestPolicy(refuses=[DOCTOR]))
    try:
        model.predict_encrypted(test[:1], requester=DOCTOR)
    except RefusedError as refusal:
        console.print(f"   {HOSPITALS[-1]} no longer accepts the doctor: {refusal}\n")

    console.print("4  What each of them received, counted from the messages of this run:")
    console.print(leakage(model))
    console.print("5  What it cost:")
    console.print(f"{model.costs_}\n")
    console.print(
        "CS never saw a measurement or a cut, only bins and paths; a hospital never saw a label, or "
        "another's column, and nobody the doctor's patient. "
        "docs/leakage.md says what follows from what they did see."
    )


def leakage(model: RevocableForestClassifier) -> Table:
    """What the servers, one hospital and the doctor received; the other hospitals are alike."""
    table = Table("role", "what it received", "how much")
    for role in ("KGC", "CS", "CC", HOSPITALS[0], DOCTOR):
        for what, count in model.leakage_()[role].items():
            table.add_row(role, what, f"{count:,}")
        table.add_section()
    return table


if __name__ == "__main__":
    main()
