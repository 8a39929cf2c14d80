"""Five hospitals train one forest on different columns of the same patients, and one of them leaves.

`make demo` and `revfrf demo` run it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from revfrf import RequestPolicy, RevocableForestClassifier
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, WeakKey
from revfrf.crypto.dtpkc.packing import Comparison, mask_comparisons, read_packs, undo_coins
from revfrf.crypto.dtpkc.strong import root_half, root_open
from revfrf.errors import CertificateError, RefusedError, RejectedError
from revfrf.io.files import write_text
from revfrf.names import SERVERS
from revfrf.protocols.certificate import RevocationCertificate
from revfrf.report.drawing import outline
from revfrf.report.leaving import MARKS, PROTOCOLS, ROLES, Leaving, Trial, Verdict, page

console = Console(highlight=False, markup=False)

HOSPITALS = ("Aarau", "Basel", "Chur", "Davos", "Engelberg")
LEAVER = "Davos"
DOCTOR = "Dr. Frei"
DIAGNOSES = ("malignant", "benign")
TRIED = 6
"""How many stolen splits of each hospital are tried."""


def step(number: int, text: str) -> None:
    """Print a heading."""
    console.print(f"\n{number}  {text}", style="bold")


def say(text: str, style: str = "") -> None:
    """Print a paragraph below a heading."""
    console.print(Padding(text, (0, 0, 0, 3)), style=style)


@dataclass(frozen=True)
class Stolen:
    """A copied encrypted split, and its threshold, to see whether the thief is right."""

    owner: str
    split: Ciphertext
    threshold: int


@dataclass
class Story:
    """The steps of the demo, with the key size, the number of trees, and where the page goes."""

    key_bits: int
    trees: int
    allow_insecure: bool
    page: Path
    seconds: dict[str, float] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    def run(self) -> None:
        """Run all steps and write the page. Raises UsageError, and SystemExit if a check fails."""
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        self.train, self.test, self.labels, self.truth = train_test_split(X, y, random_state=0)
        self.columns = {name: list(X.columns[i :: len(HOSPITALS)]) for i, name in enumerate(HOSPITALS)}
        console.print(
            f"{len(self.train)} patients with {len(X.columns)} measurements each, six per hospital: "
            f"{', '.join(HOSPITALS)}. The hospitals show each other no column. Three servers help them:"
        )
        say("\n".join(f"{role:4} {what}" for role, what in ROLES.items()))
        model = self.grow()
        score_before = self.score(model)
        self.ask(model)
        self.preview(model)
        copy, key = self.steal(model)
        before = outline(model.federation_.coordinator.store)
        certificate = self.leave(model)
        score_after = float(model.score(self.test, self.truth))
        self.use_the_copy(model, copy, key)
        self.train_without(model)
        self.check(model, certificate)
        self.account(model)
        leaving = Leaving(
            title=f"{LEAVER} has left the forest",
            summary=(
                f"Five hospitals trained a forest of {self.trees} trees on {len(self.train)} "
                f"patients, without showing each other a column. Then {LEAVER} left. The forest is now, bit "
                "for bit, the one that the others would have trained without it."
            ),
            columns=self.columns,
            before=before,
            after=outline(model.federation_.coordinator.store),
            score_before=score_before,
            score_after=score_after,
            seconds=self.seconds,
            trials=self.trials,
            certificate=certificate,
            costs=model.costs_,
            leakage=model.leakage_,
        )
        write_text(self.page, page(leaving))
        console.print("\nThe same as a page, with a tree before and after: ", style="bold", end="")
        console.print(str(self.page.resolve()), soft_wrap=True)
        if any(trial.verdict == "bad" for trial in self.trials):
            raise SystemExit("a check has failed; see ✗ above")

    def clock(self, what: str, do: Callable[[], Any]) -> Any:
        """Do it, and note how long it took."""
        started = perf_counter()
        done = do()
        self.seconds[what] = perf_counter() - started
        return done

    def note(self, what: str, outcome: str, verdict: Verdict) -> None:
        """Record the outcome of a trial, and print it."""
        say(f"{MARKS[verdict]} {what}: {outcome}", style="bold red" if verdict == "bad" else "")
        self.trials.append(Trial(what, outcome, verdict))

    # -- a forest ------------------------------------------------------------------------------------

    def forest(self, parties: Mapping[str, list[str]], **changes: Any) -> RevocableForestClassifier:
        secure = {"key_bits": self.key_bits, "allow_insecure_keys": self.allow_insecure}
        settings = {"verbose": int(console.is_terminal), "random_state": 0, "n_jobs": -1, **secure, **changes}
        return RevocableForestClassifier(self.trees, parties=parties, **settings)

    def grow(self) -> RevocableForestClassifier:
        step(1, "The hospitals train a forest")
        say("They propose splits, CS chooses the best, and each split is stored encrypted.")
        model = self.forest(self.columns)
        self.clock("training", lambda: model.fit(self.train, self.labels))
        say(f"{model.n_nodes_} nodes in {self.seconds['training']:.1f} s, digest {model.digest_[:16]}…")
        return model

    def score(self, model: RevocableForestClassifier) -> float:
        step(2, "They test it")
        say("Each hospital compares its own columns of new patients with its own thresholds.")
        plain = RandomForestClassifier(self.trees, max_depth=10, min_samples_leaf=5, random_state=0)
        pooled = plain.fit(self.train, self.labels).score(self.test, self.truth)
        accuracy = float(model.score(self.test, self.truth))
        say(f"accuracy {accuracy:.1%} on {len(self.test)} patients")
        say(f"scikit-learn, with all columns in one place: {pooled:.1%}")
        return accuracy

    def ask(self, model: RevocableForestClassifier) -> None:
        step(3, "A doctor sends an encrypted request about one patient")
        say("Nobody else sees the values. Each hospital consents to the use of its own splits.")
        model.enrol_requester(DOCTOR)
        self.answer(model, "an encrypted request")
        model.set_policy(LEAVER, RequestPolicy(refuses=[DOCTOR]))
        try:
            model.predict_encrypted(self.test[:1], requester=DOCTOR)
        except RefusedError as refusal:
            say(f"Now {LEAVER} stops accepting the doctor: {refusal}")

    def answer(self, model: RevocableForestClassifier, what: str) -> None:
        [answer] = self.clock(what, lambda: model.predict_encrypted(self.test[:1], requester=DOCTOR))
        same = "the same as" if answer == model.predict(self.test[:1])[0] else "NOT the same as"
        say(f"{DIAGNOSES[answer]}, in {self.seconds[what]:.1f} s; {same} without encryption")

    # -- leaving -------------------------------------------------------------------------------------

    def preview(self, model: RevocableForestClassifier) -> None:
        step(4, f"{LEAVER} asks what leaving would cost")
        costs = model.revocation_preview(LEAVER, self.test, self.truth)
        say(
            f"Leaving would regrow {costs.nodes_lost} of {costs.nodes} nodes in {costs.trees_touched} of "
            f"{costs.trees} trees and take about {costs.estimated_seconds:.0f} s in all. "
            f"Accuracy would be {costs.score_without:.1%} without {LEAVER}; it is {costs.score_now:.1%} now."
        )

    def steal(self, model: RevocableForestClassifier) -> tuple[list[Stolen], WeakKey]:
        """Copy some of CS's splits and the leaver's key, as a thief would."""
        federation = model.federation_
        copy: list[Stolen] = []
        for node, stored in sorted(federation.coordinator.store.splits.items()):
            if sum(stolen.owner == stored.owner for stolen in copy) < TRIED:
                split = Ciphertext.from_bytes(federation.parameters, stored.ciphertext)
                _, threshold = federation.participants[stored.owner].store.own_splits[node]
                copy.append(Stolen(stored.owner, split, threshold))
        say(f"A thief copies the encrypted forest, and {LEAVER}'s key.")
        before = f"Before {LEAVER} leaves, CS and CC can compare with the stolen copy"
        self.attempt(before, copy, partial(compare, model), expected=len(copy))
        return copy, federation.participants[LEAVER].identity.weak

    def attempt(
        self, what: str, copy: list[Stolen], use: Callable[[Stolen], bool], expected: int = 0, why: str = ""
    ) -> None:
        """Try to use stolen splits; that some of them work is a known limit."""
        worked = 0
        for stolen in copy:
            with suppress(RejectedError):
                worked += use(stolen)
        verdict: Verdict = "bad" if worked != expected else "limit" if expected else "good"
        self.note(what, f"{worked} of {len(copy)} splits{why}", verdict)

    def leave(self, model: RevocableForestClassifier) -> RevocationCertificate:
        step(5, f"{LEAVER} leaves, at revocation level 2")
        say("Its nodes and all below them are destroyed and regrown, and everybody gets new keys.")
        certificate: RevocationCertificate = self.clock("leaving", lambda: model.revoke(LEAVER))
        report = certificate.report
        counts = f"{report.destroyed} nodes destroyed, {report.rebuilt} rebuilt, {report.kept} kept"
        say(f"{counts}, in {self.seconds['leaving']:.1f} s")
        say(f"accuracy {model.score(self.test, self.truth):.1%} without {LEAVER}'s columns")
        say("The doctor asks again, and nobody refuses:")
        self.answer(model, "a request after that")
        return certificate

    def use_the_copy(self, model: RevocableForestClassifier, copy: list[Stolen], key: WeakKey) -> None:
        step(6, "The thief uses the old copy")
        self.attempt("After it has left, CS and CC can compare with the copy", copy, partial(compare, model))
        self.attempt("After it has left, CS and CC can decrypt the copy", copy, partial(open_strongly, model))
        others = [stolen for stolen in copy if stolen.owner != LEAVER]
        own = [stolen for stolen in copy if stolen.owner == LEAVER]
        decrypt = partial(open_with_key, key)
        self.attempt(f"{LEAVER}'s stolen key opens the others' splits", others, decrypt)
        why = " (known to it anyway)"
        self.attempt(f"{LEAVER}'s stolen key opens its own splits", own, decrypt, len(own), why)

    def train_without(self, model: RevocableForestClassifier) -> None:
        step(7, f"The others train a forest without {LEAVER}, from the start")
        parties = {name: columns for name, columns in self.columns.items() if name != LEAVER}
        n_columns = len(self.train.columns)
        toy = {"key_bits": 256, "allow_insecure_keys": True, "verbose": 0}  # digests do not depend on keys
        share = n_columns**0.5 / n_columns  # "sqrt" of fewer columns would give another forest
        rows = self.train.drop(columns=self.columns[LEAVER])
        never = self.forest(parties, max_features=share, **toy).fit(rows, self.labels)
        say(f"{model.digest_[:32]}…  after {LEAVER} has left")
        say(f"{never.digest_[:32]}…  without {LEAVER} from the start")
        same = never.digest_ == model.digest_
        outcome: tuple[str, Verdict] = ("bit for bit the same", "good") if same else ("different", "bad")
        self.note(f"The forest is the one trained without {LEAVER}", *outcome)

    def check(self, model: RevocableForestClassifier, certificate: RevocationCertificate) -> None:
        step(8, "An outsider checks the revocation certificate with KGC's public key")
        certificate.verify(model.kgc_key_)
        self.note("The revocation certificate, with KGC's public key", "verified", "good")
        changed = bytearray(certificate.to_json())
        at = changed.index(certificate.report.digest_after.encode())
        changed[at : at + 1] = b"1" if changed[at : at + 1] == b"0" else b"0"
        forged = "The same with one byte changed"
        try:
            RevocationCertificate.from_json(bytes(changed)).verify(model.kgc_key_)
        except CertificateError as error:
            self.note(forged, "rejected", "good")
            say(f"  {str(error).partition(' (')[0]}")
        else:
            self.note(forged, "accepted", "bad")

    def account(self, model: RevocableForestClassifier) -> None:
        step(9, "What each party received, counted from the messages of this run")
        table = Table("party", "what it received", "how much")
        for party in (*SERVERS, HOSPITALS[0], DOCTOR):  # the other hospitals are like the first
            for what, count in model.leakage_[party].items():
                table.add_row(party, what, f"{count:,}")
            table.add_section()
        console.print(table)
        say(
            "CS saw no measurement and no threshold, only the order of values and paths. A hospital saw no "
            "label and no other column. Nobody saw the doctor's patient. docs/leakage.md has the rest."
        )
        step(10, "What it cost")
        say("\n".join(f"{protocol:12} {what}" for protocol, what in PROTOCOLS.items()))
        console.print(f"\n{model.costs_}")


# -- a thief's tools: each returns whether it gives the right answer --------------------------------------


def compare(model: RevocableForestClassifier, stolen: Stolen) -> bool:
    """Compare a split with zero."""
    cs, cc = model.federation_.coordinator.identity, model.federation_.compute.identity
    [zero] = ho_enc(cs.weak.public, [0], n_jobs=1)
    packs, coins = mask_comparisons(cs.share, cs.weak.public, [Comparison(zero, stolen.split)])
    return undo_coins(read_packs(cc.share, packs), coins) == [stolen.threshold >= 0]


def open_strongly(model: RevocableForestClassifier, stolen: Stolen) -> bool:
    """Decrypt a split with both strong shares."""
    cs, cc = model.federation_.coordinator.identity, model.federation_.compute.identity
    halves = root_half(cs.share, [stolen.split.c])
    return root_open(cc.share, [stolen.split.c], halves) == [stolen.threshold]


def open_with_key(key: WeakKey, stolen: Stolen) -> bool:
    """Decrypt a split with one owner's key."""
    return par_h_dec2(key, [stolen.split]) == [stolen.threshold]
