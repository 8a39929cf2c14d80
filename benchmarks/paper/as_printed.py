"""The paper's own protocol, its HoLT and decryption one comparison at a time: what it takes here."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import TypeVar

from benchmarks.paper.datasets import Frame
from revfrf import RevocableForestClassifier
from revfrf.crypto.dtpkc.as_printed import Term, cc_ho_add, cc_ho_lt, ho_lt
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey
from revfrf.metering import Ledger, measured

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
    at_cc = secret(federation.compute.identity.share)

    def add_at_cc(c_parts: Sequence[int], halves: Sequence[int], key: PublicKey) -> Ciphertext:
        return cc_ho_add(at_cc, c_parts, halves, _received(key.parameters, key.h))

    def sign_at_cc(c: int, half: int, key: PublicKey) -> Ciphertext:
        return cc_ho_lt(at_cc, c, half, _received(key.parameters, key.h))

    for node in nodes:
        split = splits[node]
        owner = federation.participants[split.owner]
        key = secret(owner.identity.weak)
        column, cut = owner.store.own_splits[node]
        value = int(codes[split.owner][column][0])
        [x] = ho_enc(requester.public, [value], n_jobs=1)
        s = Ciphertext.from_bytes(key.parameters, split.ciphertext)
        ledger, started = Ledger(), process_time()
        with measured(ledger, "all", "as printed"):
            terms = Term(requester.public, x), Term(key.public, s)
            answer = ho_lt(share, weak.public, *terms, add_at_cc, sign_at_cc)
            [less] = par_h_dec2(weak, [answer], par_h_dec1(key, [answer], n_jobs=1), n_jobs=1)
        spent += process_time() - started
        if bool(less) != (value < cut):
            raise AssertionError("the paper's protocol gives another answer")
        here = Counter[str]()
        for work in ledger.entries.values():
            for (kind, _), times in work.powers.items():
                here[kind] += times
        if here.total() - here["public"] not in PRINTED_POWERS:
            raise AssertionError(f"the paper's protocol took {dict(here)} powers, not {PRINTED_POWERS}")
        powers += here
    return AsPrinted(spent / len(nodes), powers.total() / len(nodes))


@cache
def _received(parameters: Parameters, h: int) -> PublicKey:
    """A key as CC has it, who is sent h alone; what goes with it is computed once."""
    return PublicKey(parameters, h)


Key = TypeVar("Key")


def secret(key: Key | None) -> Key:
    """A key that a fitted model has."""
    assert key is not None
    return key
