"""Events that have happened to a small forest: created, and participants who have left it in many ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.embedded.federation import Federation
from revfrf.messages.base import Done
from revfrf.messages.events import Event, Report
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import KGC
from revfrf.protocols.certificate import FORMAT, EventCertificate, sign_report
from revfrf.protocols.columns import ColumnSettings
from revfrf.protocols.common.signed import sign
from revfrf.testing.federations import Case, ignore, prepared_keys, random_case, set_up, train, with_books
from revfrf.testing.peers import offline
from revfrf.testing.refusals import refusal_kind

CASE = random_case(71, rules=with_books())
changed = msgspec.structs.replace
Levels = Mapping[str, RevocationLevel]


@dataclass(frozen=True)
class Happened:
    """An event that has happened: its certificate, and the whole federation."""

    certificate: EventCertificate
    federation: Federation

    @property
    def core(self) -> Event:
        return self.certificate.core

    @property
    def signing(self) -> SigningKey:
        """KGC's own key."""
        return kgc_key(self.federation)

    @property
    def key(self) -> VerifyKey:
        """KGC's public key."""
        return self.signing.verify_key

    def with_core(self, **fields: Any) -> EventCertificate:
        """The certificate with another core."""
        return changed(self.certificate, core=changed(self.core, **fields))

    def certified(self, **fields: Any) -> EventCertificate:
        """The certificate with another core, which KGC itself has signed, and without receipts."""
        return EventCertificate(sign(self.signing, FORMAT, changed(self.core, **fields)))

    def reported(self, signer: str = "CS", **fields: Any) -> Report:
        """Another report than CS's, which this party has signed."""
        identity = self.federation.with_policies[signer].identity
        return sign_report(identity, changed(self.core.report, **fields))


def kgc_key(federation: Federation) -> SigningKey:
    """KGC's own key."""
    assert federation.kgc.keys is not None
    return federation.kgc.keys.signing


def leave(federation: Federation, levels: Levels) -> EventCertificate:
    """These leave together, each at a level of its own."""
    for number, (party, level) in enumerate(levels.items()):
        request = federation.participants[party].leave(level)
        federation.network.channel(party).call(KGC, request, Done)
        assert len(federation.kgc.state.leaving) == number + 1
    federation.resume(ignore)
    return federation.coordinator.certificates[-1]


def of_four(case: Case) -> Case:
    """The case with a fourth party."""
    codes = case.codes | {"casino": case.codes["shop"][:, ::-1]}
    return Case(codes, case.y, case.n_classes, case.rules)


KINDS: dict[str, list[Levels]] = {
    "creation": [],
    "level 1": [{"bank": 1}],
    "level 2": [{"bank": 2}],
    "two at level 1": [{"bank": 1, "shop": 1}],
    "two at level 2": [{"telco": 2, "bank": 2}],
    "two at different levels": [{"telco": 2, "bank": 1}],
    "second epoch, 1 after 1": [{"bank": 1}, {"shop": 1}],
    "second epoch, 2 after 1": [{"bank": 1}, {"shop": 2}],
    "second epoch, 1 after 2": [{"bank": 2}, {"shop": 1}],
    "third epoch, 2 after 2 after 1": [{"bank": 1}, {"shop": 2}, {"telco": 2}],
}
OF_PAPER = {f"paper, {kind}": KINDS[kind] for kind in ("creation", "level 1", "two at level 2")}


@lru_cache
def happened(kind: str) -> Happened:
    """The last event of this kind. Do not change its federation."""
    case = random_case(71) if kind in OF_PAPER else CASE
    with prepared_keys():
        federation = train(of_four(case))
        for levels in (KINDS | OF_PAPER)[kind]:
            leave(federation, levels)
    return Happened(federation.coordinator.certificates[-1], federation)


@lru_cache
def waiting() -> Happened:
    """Bank has left while telco, who wants its bins forgotten, was away. Do not change its federation."""
    return left_without_telco(comes_back=False)


@lru_cache
def completed() -> Happened:
    """As `waiting`; then telco has come back."""
    return left_without_telco(comes_back=True)


def left_without_telco(*, comes_back: bool) -> Happened:
    """Bank leaves while telco, who wants its bins forgotten, is away."""
    federation = forgetting("telco")
    with offline(federation.network, "telco"):
        leave(federation, {"bank": 2})
    if comes_back:
        federation.resume(ignore)
    return Happened(federation.coordinator.certificates[-1], federation)


def forgetting(owner: str) -> Federation:
    """A forest for which CS has forgotten an owner's bins, as the owner wants it."""
    case = of_four(CASE)
    federation = set_up(case)
    columns = range(len(case.codes[owner]))
    federation.participants[owner].set_columns({f"x{i}": ColumnSettings(forget_bins=True) for i in columns})
    train(case, federation)
    bins = federation.coordinator.store.bins
    assert all((len(held.bins) > 0) != name.startswith(f"{owner}/") for name, held in bins.items())
    return federation


def kind_of(certificate: EventCertificate, key: VerifyKey) -> str:
    """What `verify` finds wrong."""
    return refusal_kind(lambda: certificate.verify(key))
