"""Five hospitals hold different columns about the same patients. They train one forest, and one leaves.

`make demo` runs it, and `revfrf demo`.
"""

from collections.abc import Callable, Mapping, Sequence
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
from revfrf.protocols.certificate import RevocationCertificate
from revfrf.report.drawing import Outline, outline
from revfrf.report.leaving import Leaving, Trial, page

console = Console(highlight=False, markup=False)

HOSPITALS = ("Aarau", "Basel", "Chur", "Davos", "Engelberg")
LEAVER = "Davos"
DOCTOR = "Dr. Frei"
DIAGNOSES = ("malignant", "benign")
TRAINING, LEAVING = "training, with keys", "leaving, with new keys"
TRIED = 6
"""How many stolen splits of each hospital are tried."""


@dataclass(frozen=True)
class Options:
    """How large, and where the page goes."""

    key_bits: int
    trees: int
    allow_insecure: bool
    page: Path


def step(number: int, text: str) -> None:
    """A heading."""
    console.print(f"\n{number}  {text}", style="bold")


def say(text: str, style: str = "") -> None:
    """A paragraph below it."""
    console.print(Padding(text, (0, 0, 0, 3)), style=style)


@dataclass(frozen=True)
class Stolen:
    """A copy of an encrypted split, and, to see whether the thief is right, where its cut lies."""

    owner: str
    split: Ciphertext
    cut: int


@dataclass
class Story:
    """The story, step by step."""

    options: Options
    seconds: dict[str, float] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    def tell(self) -> None:
        """All of it. Raises UsageError."""
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        self.train, self.test, self.labels, self.truth = train_test_split(X, y, random_state=0)
        self.columns = {name: list(X.columns[i :: len(HOSPITALS)]) for i, name in enumerate(HOSPITALS)}
        console.print(
            f"{len(self.train)} patients, {len(X.columns)} measurements of each, six a hospital: "
            f"{', '.join(HOSPITALS)}. CS, the coordinator, knows who is ill. Nobody shows anybody a column."
        )
        model = self.grow()
        score_before = self.score(model)
        self.ask(model)
        self.preview(model)
        (copy, key), before = self.steal(model), outline(model.federation_.coordinator.store)
        certificate, score_after = self.leave(model)
        self.use_the_copy(model, copy, key)
        self.train_without(model)
        self.check(model, certificate)
        self.account(model)
        self.write_page(model, certificate, before, (score_before, score_after))

    def clock(self, what: str, do: Callable[[], Any]) -> Any:
        """Do it, and note how long it took."""
        started = perf_counter()
        done = do()
        self.seconds[what] = perf_counter() - started
        return done

    def note(self, what: str, outcome: str, as_it_should: bool) -> None:
        """Say what came out of a trial, here and on the page."""
        say(f"{'✓' if as_it_should else '✗'} {what}: {outcome}", style="" if as_it_should else "bold red")
        self.trials.append(Trial(what, outcome, as_it_should))

    # -- a forest ------------------------------------------------------------------------------------

    def forest(self, parties: Mapping[str, list[str]], **changes: Any) -> RevocableForestClassifier:
        settings = {
            "key_bits": self.options.key_bits,
            "allow_insecure_keys": self.options.allow_insecure,
            "verbose": int(console.is_terminal),
        }
        return RevocableForestClassifier(
            self.options.trees, parties=parties, random_state=0, n_jobs=-1, **(settings | changes)
        )

    def grow(self) -> RevocableForestClassifier:
        step(1, "A forest grows.")
        say("Hospitals propose splits, CS chooses, and every split is stored encrypted.")
        model = self.forest(self.columns)
        self.clock(TRAINING, lambda: model.fit(self.train, self.labels))
        say(f"{model.n_nodes_} nodes in {self.seconds[TRAINING]:.1f} s, digest {model.digest_[:16]}…")
        return model

    def score(self, model: RevocableForestClassifier) -> float:
        step(2, "It is tested.")
        say("Each hospital compares its own columns of new patients with its own cuts.")
        plain = RandomForestClassifier(self.options.trees, max_depth=10, min_samples_leaf=5, random_state=0)
        in_one_place = plain.fit(self.train, self.labels).score(self.test, self.truth)
        right = float(model.score(self.test, self.truth))
        say(f"right for {right:.1%} of {len(self.test)} patients")
        say(f"scikit-learn, with all columns in one place: {in_one_place:.1%}")
        return right

    def ask(self, model: RevocableForestClassifier) -> None:
        step(3, "A doctor asks about one patient, encrypted.")
        say("Nobody else sees a value, and the hospitals consent, each for its own splits.")
        model.enrol_requester(DOCTOR)
        self.answer(model, "an encrypted request")
        model.set_policy(LEAVER, RequestPolicy(refuses=[DOCTOR]))
        try:
            model.predict_encrypted(self.test[:1], requester=DOCTOR)
        except RefusedError as refusal:
            say(f"{LEAVER} no longer accepts the doctor: {refusal}")

    def answer(self, model: RevocableForestClassifier, what: str) -> None:
        [answer] = self.clock(what, lambda: model.predict_encrypted(self.test[:1], requester=DOCTOR))
        same = answer == model.predict(self.test[:1])[0]
        say(f"{DIAGNOSES[answer]}, after {self.seconds[what]:.1f} s; the same as in the clear: {same}")

    # -- leaving -------------------------------------------------------------------------------------

    def preview(self, model: RevocableForestClassifier) -> None:
        step(4, f"{LEAVER} asks what leaving would cost.")
        costs = model.revocation_preview(LEAVER, self.test, self.truth)
        say(
            f"{costs.nodes_lost} of {costs.nodes} nodes, in {costs.trees_touched} of {costs.trees} trees, "
            f"would be grown again, in about {costs.estimated_seconds:.0f} s and the search for new keys; "
            f"right for {costs.score_without:.1%} of the patients without {LEAVER}, {costs.score_now:.1%} now"
        )

    def steal(self, model: RevocableForestClassifier) -> tuple[list[Stolen], WeakKey]:
        """Copy some of CS's splits and the leaver's key, as a thief would: a good copy, today."""
        federation = model.federation_
        copy: list[Stolen] = []
        for node, stored in sorted(federation.coordinator.store.splits.items()):
            if sum(stolen.owner == stored.owner for stolen in copy) < TRIED:
                split = Ciphertext.from_bytes(federation.parameters, stored.ciphertext)
                _, cut = federation.participants[stored.owner].store.own_splits[node]
                copy.append(Stolen(stored.owner, split, cut))
        say(f"A thief copies the encrypted forest today, and {LEAVER}'s key with it.")
        self.attempt(
            f"Stolen copy, before {LEAVER} leaves: CS and CC compare with it",
            copy,
            lambda s: compare(model, s),
            True,
        )
        return copy, federation.participants[LEAVER].identity.weak

    def attempt(
        self, what: str, copy: Sequence[Stolen], use: Callable[[Stolen], bool], should: bool, why: str = ""
    ) -> None:
        """Try to use stolen splits, all of which should work, or none."""
        worked = sum(works(use, stolen) for stolen in copy)
        wanted = worked == (len(copy) if should else 0)
        self.note(what, f"works for {worked} of {len(copy)} splits{why}", wanted)

    def leave(self, model: RevocableForestClassifier) -> tuple[RevocationCertificate, float]:
        step(5, f"{LEAVER} leaves, at level 2.")
        say("Its nodes and all below are destroyed and grown again; everybody makes new keys.")
        certificate = self.clock(LEAVING, lambda: model.revoke(LEAVER))
        report = certificate.report
        say(
            f"{report.destroyed} nodes destroyed, {report.rebuilt} rebuilt, {report.kept} kept, "
            f"in {self.seconds[LEAVING]:.1f} s"
        )
        right = float(model.score(self.test, self.truth))
        say(f"right for {right:.1%} of {len(self.test)} patients, without {LEAVER}'s columns")
        say("The doctor asks again; nobody refuses now:")
        self.answer(model, "a request after that")
        return certificate, right

    def use_the_copy(self, model: RevocableForestClassifier, copy: list[Stolen], key: WeakKey) -> None:
        step(6, "The thief tries the old copy.")
        self.attempt(
            "Stolen copy, after: CS and CC compare with it", copy, lambda s: compare(model, s), False
        )
        self.attempt("Stolen copy, after: CS and CC open it", copy, lambda s: open_strongly(model, s), False)
        others = [stolen for stolen in copy if stolen.owner != LEAVER]
        own = [stolen for stolen in copy if stolen.owner == LEAVER]
        open_weakly = partial(open_with_key, key)
        self.attempt(f"Stolen copy and {LEAVER}'s key: open the others' splits", others, open_weakly, False)
        why = f"; these were always {LEAVER}'s to show"
        self.attempt(
            f"Stolen copy and {LEAVER}'s key: open {LEAVER}'s own splits", own, open_weakly, True, why
        )

    def train_without(self, model: RevocableForestClassifier) -> None:
        step(7, f"A forest is trained that {LEAVER} was never part of.")
        parties = {name: columns for name, columns in self.columns.items() if name != LEAVER}
        n_columns = len(self.train.columns)
        never = self.forest(
            parties,
            max_features=n_columns**0.5 / n_columns,  # "sqrt" of fewer columns would be another forest
            key_bits=256,  # keys play no part in a digest
            allow_insecure_keys=True,
            verbose=0,
        ).fit(self.train[[column for columns in parties.values() for column in columns]], self.labels)
        say(f"{model.digest_[:32]}…  after {LEAVER} has left")
        say(f"{never.digest_[:32]}…  without {LEAVER} from the start")
        same = never.digest_ == model.digest_
        outcome = f"bit for bit the same forest: {same}"
        self.note(f"Trained without {LEAVER}, and left by {LEAVER}", outcome, same)

    def check(self, model: RevocableForestClassifier, certificate: RevocationCertificate) -> None:
        step(8, "The certificate is checked, with nothing but KGC's public key.")
        certificate.verify(model.kgc_key_)
        self.note("The certificate, with KGC's public key", "verified", True)
        changed = bytearray(certificate.to_json())
        at = changed.index(certificate.report.digest_after.encode())
        changed[at : at + 1] = b"1" if changed[at : at + 1] == b"0" else b"0"
        try:
            RevocationCertificate.from_json(bytes(changed)).verify(model.kgc_key_)
        except CertificateError as error:
            reason, _, _ = str(error).partition(" (")
            self.note("The same with one byte changed", f"rejected: {reason}", True)
        else:
            self.note("The same with one byte changed", "accepted", False)

    # -- books ---------------------------------------------------------------------------------------

    def account(self, model: RevocableForestClassifier) -> None:
        step(9, "What each of them received, counted from the messages of this run:")
        console.print(leakage(model))
        say(
            "CS never saw a measurement or a cut, only bins and paths; a hospital never saw a label, or "
            "another's column, and nobody the doctor's patient. "
            "docs/leakage.md says what follows from what they did see."
        )
        step(10, "What it cost:")
        console.print(f"{model.costs_}")

    def write_page(
        self,
        model: RevocableForestClassifier,
        certificate: RevocationCertificate,
        before: Outline,
        scores: tuple[float, float],
    ) -> None:
        leaving = Leaving(
            title=f"{LEAVER} has left the forest",
            summary=(
                f"Five hospitals trained a forest of {self.options.trees} trees on "
                f"{len(self.train)} patients, without showing each other a column. Then {LEAVER} left. What "
                "remains is, bit for bit, the forest that the others would have trained without it."
            ),
            columns=self.columns,
            before=before,
            after=outline(model.federation_.coordinator.store),
            score_before=scores[0],
            score_after=scores[1],
            seconds=self.seconds,
            trials=self.trials,
            certificate=certificate,
            costs=model.costs_,
            leakage=model.leakage_(),
        )
        write_text(self.options.page, page(leaving))
        console.print("\nAll of this as a page, with a tree before and after: ", style="bold", end="")
        console.print(str(self.options.page.resolve()), soft_wrap=True)
        if not all(trial.as_it_should for trial in self.trials):
            raise SystemExit("not everything is as it should be")


# -- a thief's tools ---------------------------------------------------------------------------------


def works(use: Callable[[Stolen], bool], stolen: Stolen) -> bool:
    """Whether it gives an answer, and the right one."""
    try:
        return use(stolen)
    except RejectedError:
        return False


def compare(model: RevocableForestClassifier, stolen: Stolen) -> bool:
    """Compare a split with zero, with what CS and CC hold now."""
    cs, cc = model.federation_.coordinator.identity, model.federation_.compute.identity
    [zero] = ho_enc(cs.weak.public, [0], n_jobs=1)
    packs, coins = mask_comparisons(cs.share, cs.weak.public, [Comparison(zero, stolen.split)])
    return undo_coins(read_packs(cc.share, packs), coins) == [stolen.cut >= 0]


def open_strongly(model: RevocableForestClassifier, stolen: Stolen) -> bool:
    """Open a split, with what CS and CC hold now."""
    cs, cc = model.federation_.coordinator.identity, model.federation_.compute.identity
    halves = root_half(cs.share, [stolen.split.c])
    return root_open(cc.share, [stolen.split.c], halves) == [stolen.cut]


def open_with_key(key: WeakKey, stolen: Stolen) -> bool:
    """Open a split with one owner's key."""
    return par_h_dec2(key, [stolen.split]) == [stolen.cut]


def leakage(model: RevocableForestClassifier) -> Table:
    """What the servers, one hospital and the doctor received; the other hospitals are alike."""
    table = Table("role", "what it received", "how much")
    for role in ("KGC", "CS", "CC", HOSPITALS[0], DOCTOR):
        for what, count in model.leakage_()[role].items():
            table.add_row(role, what, f"{count:,}")
        table.add_section()
    return table
