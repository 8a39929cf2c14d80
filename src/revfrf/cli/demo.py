"""Five hospitals train one forest on different columns of the same patients, and one of them leaves.

`make demo` and `revfrf demo` run it.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

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
from revfrf.names import CC, CS, KGC, SERVERS
from revfrf.protocols.certificate import EventCertificate
from revfrf.report.drawing import Outline, outline
from revfrf.report.forest import forest_page

console = Console(highlight=False, markup=False, record=True)

HOSPITALS = ("Aarau", "Basel", "Chur", "Davos", "Engelberg")
LEAVER = "Davos"
DOCTOR = "Dr. Frei"
DIAGNOSES = ("malignant", "benign")
Result = TypeVar("Result")
TRIED = 6  # stolen splits of each hospital

ROLES = {
    KGC: "Key centre. Sets up the keys; signs epoch and event certificates.",
    CS: "Coordinator. Holds the labels and the shape of the trees, runs the protocols.",
    CC: "Computing partner. Helps CS compare encrypted numbers. Must not collude with CS.",
}
PROTOCOLS = {
    "key set-up": "issue and renew keys",
    "FLE-Expan": "grow all trees, depth by depth",
    "FOS-Find": "choose splits and encrypt them (sent with FLE-Expan)",
    "FRF-Test": "predict rows that the owners hold",
    "FRF-Predict": "predict a requester's encrypted rows",
    "HoLT": "compare two encrypted numbers",
    "FRF-Revoc": "remove a leaver and rebuild",
    "events": "certify what has happened to the forest, and countersign it",
}
"""What each server and each protocol of the run does; protocols have the paper's names."""

GOOD, LIMIT, BAD = "✓", "•", "✗"  # protected or verified, a known limit, and unexpected


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
    failed: bool = field(default=False, init=False)

    def run(self) -> None:
        """Run all steps and write the page. Raises SystemExit if a check fails."""
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        self.train, self.test, self.labels, self.truth = train_test_split(X, y, random_state=0)
        self.columns = {name: list(X.columns[i :: len(HOSPITALS)]) for i, name in enumerate(HOSPITALS)}
        console.print(
            f"{len(self.train)} patients with {len(X.columns)} measurements each, six per hospital: "
            f"{', '.join(HOSPITALS)}. The hospitals show each other no column. Three servers help them:"
        )
        say("\n".join(f"{role:4} {what}" for role, what in ROLES.items()))
        self.model = self.forest(self.columns)
        self.grow()
        self.score()
        self.ask()
        self.preview()
        copy, key = self.steal()
        before = outline(self.model.federation_.coordinator.side.forest)
        certificate = self.leave()
        self.use_the_copy(copy, key)
        self.train_without()
        self.check(certificate)
        self.account()
        self.write_page(before, certificate)
        if self.failed:
            raise SystemExit(f"a check has failed; see {BAD} above")

    def note(self, mark: str, what: str, outcome: str) -> None:
        """Print the outcome of something that was tried."""
        self.failed |= mark == BAD
        say(f"{mark} {what}: {outcome}", style="bold red" if mark == BAD else "")

    # -- a forest ------------------------------------------------------------------------------------

    def forest(self, parties: Mapping[str, list[str]], **changes: Any) -> RevocableForestClassifier:
        secure = {"protocol": "paper", "key_bits": self.key_bits, "allow_insecure_keys": self.allow_insecure}
        settings = {"verbose": int(console.is_terminal), "random_state": 0, "n_jobs": -1, **secure, **changes}
        return RevocableForestClassifier(self.trees, parties=parties, **settings)

    def grow(self) -> None:
        step(1, "The hospitals train a forest")
        say("They propose splits, CS chooses the best, and each split is stored encrypted.")
        _, seconds = timed(lambda: self.model.fit(self.train, self.labels))
        say(f"{self.model.n_nodes_} nodes in {seconds}, digest {self.model.digest_[:16]}…")

    def score(self) -> None:
        step(2, "They test it")
        say("Each hospital compares its own columns of new patients with its own thresholds.")
        plain = RandomForestClassifier(self.trees, max_depth=10, min_samples_leaf=5, random_state=0)
        pooled = plain.fit(self.train, self.labels).score(self.test, self.truth)
        say(f"accuracy {self.model.score(self.test, self.truth):.1%} on {len(self.test)} patients")
        say(f"scikit-learn, with all columns in one place: {pooled:.1%}")

    def ask(self) -> None:
        step(3, "A doctor sends an encrypted request about one patient")
        say("Nobody else sees the values. Each hospital consents to the use of its own splits.")
        self.model.enrol_requester(DOCTOR)
        self.answer()
        self.model.set_policy(LEAVER, RequestPolicy(refuses=[DOCTOR]))
        try:
            self.model.predict_encrypted(self.test[:1], requester=DOCTOR)
        except RefusedError as refusal:
            say(f"Now {LEAVER} stops accepting the doctor: {refusal}")

    def answer(self) -> None:
        [answer], seconds = timed(lambda: self.model.predict_encrypted(self.test[:1], requester=DOCTOR))
        same = "the same as" if answer == self.model.predict(self.test[:1])[0] else "NOT the same as"
        say(f"{DIAGNOSES[answer]}, in {seconds}; {same} without encryption")

    # -- leaving -------------------------------------------------------------------------------------

    def preview(self) -> None:
        step(4, f"{LEAVER} asks what leaving would cost")
        costs = self.model.revocation_preview(LEAVER, self.test, self.truth)
        say(
            f"Leaving would regrow {costs.nodes_lost} of {costs.nodes} nodes in {costs.trees_touched} of "
            f"{costs.trees} trees and take up to {costs.estimated_seconds:.0f} s. "
            f"Accuracy would be {costs.score_without:.1%} without {LEAVER}; it is {costs.score_now:.1%} now."
        )

    def steal(self) -> tuple[list[Stolen], WeakKey]:
        """Copy some of CS's splits and the leaver's key, as a thief would."""
        federation = self.model.federation_
        copy: list[Stolen] = []
        for node, stored in sorted(federation.coordinator.store.splits.items()):
            if sum(stolen.owner == stored.owner for stolen in copy) < TRIED:
                split = Ciphertext.from_bytes(federation.parameters, stored.ciphertext)
                _, threshold = federation.participants[stored.owner].store.own_splits[node]
                copy.append(Stolen(stored.owner, split, threshold))
        say(f"A thief copies the encrypted forest, and {LEAVER}'s key.")
        before = f"Before {LEAVER} leaves, CS and CC can compare with the stolen copy"
        self.attempt(before, copy, self.compare, expected=len(copy))
        return copy, federation.participants[LEAVER].identity.weak

    def attempt(
        self, what: str, copy: list[Stolen], use: Callable[[Stolen], bool], expected: int = 0, why: str = ""
    ) -> None:
        """Try to use stolen splits; that some of them work is a known limit."""
        worked = 0
        for stolen in copy:
            with suppress(RejectedError):
                worked += use(stolen)
        mark = BAD if worked != expected else LIMIT if expected else GOOD
        self.note(mark, what, f"{worked} of {len(copy)} splits{why}")

    def leave(self) -> EventCertificate:
        step(5, f"{LEAVER} leaves, at revocation level 2")
        say("Its nodes and all below them are destroyed and regrown, and everybody gets new keys.")
        certificate, seconds = timed(lambda: self.model.revoke(LEAVER))
        report = certificate.core.report
        counts = f"{report.destroyed} nodes destroyed, {report.rebuilt} rebuilt, {report.kept} kept"
        say(f"{counts}, in {seconds}")
        say(f"accuracy {self.model.score(self.test, self.truth):.1%} without {LEAVER}'s columns")
        say("The doctor asks again, and nobody refuses:")
        self.answer()
        return certificate

    def use_the_copy(self, copy: list[Stolen], key: WeakKey) -> None:
        step(6, "The thief uses the old copy")
        self.attempt("After it has left, CS and CC can compare with the copy", copy, self.compare)
        self.attempt("After it has left, CS and CC can decrypt the copy", copy, self.open_strongly)
        others = [stolen for stolen in copy if stolen.owner != LEAVER]
        own = [stolen for stolen in copy if stolen.owner == LEAVER]

        def decrypt(stolen: Stolen) -> bool:
            return par_h_dec2(key, [stolen.split]) == [stolen.threshold]

        self.attempt(f"{LEAVER}'s stolen key opens the others' splits", others, decrypt)
        why = " (known to it anyway)"
        self.attempt(f"{LEAVER}'s stolen key opens its own splits", own, decrypt, len(own), why)

    def train_without(self) -> None:
        step(7, f"The others train a forest without {LEAVER}, from the start")
        parties = {name: columns for name, columns in self.columns.items() if name != LEAVER}
        n_columns = len(self.train.columns)
        toy = {
            "protocol": "paper",
            "key_bits": 256,
            "allow_insecure_keys": True,
            "verbose": 0,
        }  # digests do not depend on keys
        share = n_columns**0.5 / n_columns  # "sqrt" of fewer columns would give another forest
        rows = self.train.drop(columns=self.columns[LEAVER])
        never = self.forest(parties, max_features=share, **toy).fit(rows, self.labels)
        say(f"{self.model.digest_[:32]}…  after {LEAVER} has left")
        say(f"{never.digest_[:32]}…  without {LEAVER} from the start")
        same = never.digest_ == self.model.digest_
        outcome = "bit for bit the same" if same else "different"
        self.note(GOOD if same else BAD, f"The forest is the one trained without {LEAVER}", outcome)

    def check(self, certificate: EventCertificate) -> None:
        step(8, "An outsider checks the event certificate with KGC's public key")
        certificate.verify(self.model.kgc_key_)
        self.note(GOOD, "The event certificate, with KGC's public key", "verified")
        changed = bytearray(certificate.to_json())
        at = changed.index(b64encode(certificate.digest_after))
        changed[at : at + 1] = b"B" if changed[at : at + 1] == b"A" else b"A"
        forged = "The same with one byte changed"
        try:
            EventCertificate.from_json(bytes(changed)).verify(self.model.kgc_key_)
        except CertificateError as error:
            self.note(GOOD, forged, "rejected")
            say(f"  {str(error).partition(' (')[0]}")
        else:
            self.note(BAD, forged, "accepted")

    def account(self) -> None:
        step(9, "What each party received, counted from the messages of this run")
        table = Table("party", "what it received", "how much")
        for party in (*SERVERS, HOSPITALS[0], DOCTOR):
            for what, count in self.model.leakage_[party].items():
                table.add_row(party, what, f"{count:,}")
            table.add_section()
        console.print(table)
        say(
            f"The other hospitals received the same kinds as {HOSPITALS[0]}. CS saw no measurement and no "
            "threshold, only the order of values and paths. A hospital saw no label and no other column. "
            "Nobody saw the doctor's patient. docs/leakage.md has the rest."
        )
        step(10, "What it cost")
        say("\n".join(f"{protocol:12} {what}" for protocol, what in PROTOCOLS.items()))
        console.print(f"\n{self.model.costs_}")

    def write_page(self, before: Outline, certificate: EventCertificate) -> None:
        costs = self.model.costs_
        facts = {
            "participants": HOSPITALS,
            "left": LEAVER,
            "rows": len(self.train),
            "trees": self.trees,
            "nodes": self.model.n_nodes_,
            "digest": self.model.digest_,
            "security": f"{costs.key_bits}-bit keys: {costs.security}",
        }
        after = outline(self.model.federation_.coordinator.side.forest)
        run = console.export_html(code_format="{code}", inline_styles=True)
        page = forest_page("five hospitals", facts, self.columns, after, [certificate], before, run)
        write_text(self.page, page)
        console.print("\nThe same as a page, with a tree before and after: ", style="bold", end="")
        console.print(str(self.page), soft_wrap=True)

    # -- a thief's tools: each returns whether it gives the right answer ------------------------------

    def compare(self, stolen: Stolen) -> bool:
        """Compare a split with zero."""
        cs, cc = self.model.federation_.coordinator.identity, self.model.federation_.compute.identity
        [zero] = ho_enc(cs.weak.public, [0], n_jobs=1)
        packs, coins = mask_comparisons(cs.share, cs.weak.public, [Comparison(zero, stolen.split)])
        return undo_coins(read_packs(cc.share, packs), coins) == [stolen.threshold >= 0]

    def open_strongly(self, stolen: Stolen) -> bool:
        """Decrypt a split with both strong shares."""
        cs, cc = self.model.federation_.coordinator.identity, self.model.federation_.compute.identity
        halves = root_half(cs.share, [stolen.split.c])
        return root_open(cc.share, [stolen.split.c], halves) == [stolen.threshold]


def timed(do: Callable[[], Result]) -> tuple[Result, str]:
    """Return a result, and how long it took."""
    started = perf_counter()
    done = do()
    return done, f"{perf_counter() - started:.1f} s"
