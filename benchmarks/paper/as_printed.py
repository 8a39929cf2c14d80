"""The paper's own protocol, its HoLT and decryption one comparison at a time: what it takes here."""

from collections import Counter
from dataclasses import dataclass
from time import process_time
from typing import TypeVar

from benchmarks.paper.datasets import Frame
from revfrf import RevocableForestClassifier
from revfrf.crypto.dtpkc.as_printed import Term
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.embedded.costs import Costs
from revfrf.metering import Ledger, measured
from revfrf.protocols.paper import as_printed

PRINTED_POWERS = (20, 22)
"""Of one comparison by the paper's protocol with either coin, CS, CC and owner, but for those with public
exponents: one to open the answer, and one for every joint key that CC meets for the first time.
"""


@dataclass(frozen=True, slots=True)
class AsPrinted:
    """Of one comparison by the paper's protocol, all roles: processor seconds, and powers."""

    seconds: float
    powers: float


def measure_as_printed(model: RevocableForestClassifier, X: Frame, count: int) -> AsPrinted:
    """The mean of `count` splits with the first row. Raises AssertionError for a wrong answer or count."""
    federation = model.federation_
    cs, requester = federation.coordinator, secret(federation.requester(None).identity.weak)
    weak = secret(cs.identity.weak)
    share = secret(cs.identity.share)
    codes, splits = model.layout_.encode(X), cs.store.splits
    spent, powers = 0.0, Counter[str]()
    nodes = sorted(splits)[:: max(1, len(splits) // count)][:count]
    federation.compute.as_printed = True
    for node in nodes:
        split = splits[node]
        owner = federation.participants[split.owner]
        key = secret(owner.identity.weak)
        column, cut = owner.store.own_splits[node]
        value = int(codes[split.owner][column][0])
        [x] = ho_enc(requester.public, [value], n_jobs=1)
        s = Ciphertext.from_bytes(key.parameters, split.ciphertext)
        ledger, before, started = Ledger(), _kinds(model.costs_), process_time()
        with measured(ledger, "CS and owner", "as printed"):
            answer = as_printed.ho_lt(
                cs.channel, share, weak.public, Term(requester.public, x), Term(key.public, s)
            )
            [less] = par_h_dec2(weak, [answer], par_h_dec1(key, [answer], n_jobs=1), n_jobs=1)
        spent += process_time() - started
        if bool(less) != (value < cut):
            raise AssertionError("the paper's protocol gives another answer")
        here = _kinds(model.costs_) - before  # CC's
        for work in ledger.entries.values():
            for (kind, _), times in work.powers.items():
                here[kind] += times
        if here.total() - here["public"] not in PRINTED_POWERS:
            raise AssertionError(f"the paper's protocol took {dict(here)} powers, not {PRINTED_POWERS}")
        powers += here
    federation.compute.as_printed = False
    return AsPrinted(spent / len(nodes), powers.total() / len(nodes))


def _kinds(costs: Costs) -> Counter[str]:
    """All powers so far, by kind: "fixed base", "public" or "secret"."""
    found = Counter[str]()
    for row in costs.work.values():
        for cell in row.values():
            for name, times in cell["exponentiations"].items():
                found[name.partition(" mod ")[0]] += times
    return found


Key = TypeVar("Key")


def secret(key: Key | None) -> Key:
    """A key that a fitted model has."""
    assert key is not None
    return key
