"""Audit: whether CS's forest is the one that its certified inputs define.

A forest is a pure function of its inputs (docs/forest.md), and CS's directory holds them all. So anybody who
has a copy of the directory and KGC's public key can grow the forest a second time and compare. The audit is
about what holds after the last event: the forest before it, and how many nodes have changed, are CS's word
once the leavers' bins are gone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import CertificateError, ProtocolError, RefusedError, RejectedError, UsageError
from revfrf.messages.events import UsedCutsReceipt
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.common.epoch import certificate_digest
from revfrf.protocols.events import EventSeat, inputs_of, salted_digest, used_column
from revfrf.protocols.sides import Progress


@dataclass(frozen=True)
class Audit:
    """What an audit has compared. `problems` says what does not hold, by the name of the check.

    Without bins that hold, there is no digest, and what depends on them is not checked.
    """

    checks: tuple[str, ...]
    problems: dict[str, str]
    digest: str
    missing_receipts: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether everything does."""
        return not self.problems


def audit(cs: EventSeat, kgc_key: VerifyKey | None, progress: Progress) -> Audit:
    """Grow CS's forest a second time, and compare it and everything signed with what is certified.

    With `kgc_key`, the event certificates must be signed with this key; else with the one that CS knows.
    Raises UsageError for a forest of the paper protocol, which cannot be audited, and AbsentError if an owner
    whose bins CS has forgotten is away.
    """
    if not cs.certificates:
        raise UsageError("the forest is not certified yet; wait until it is trained")
    last = cs.certificates[-1]
    if last.core.epoch_after.forest_protocol == "paper":
        raise UsageError("a forest of the paper protocol cannot be audited: nobody signs what it grows from")
    if last.waits_for and not cs.side.whole:
        who = ", ".join(map(repr, last.waits_for))
        raise UsageError(f"nodes are open until {who} is back and has sent its bins; audit the forest then")
    checks: dict[str, Callable[[], None]] = {
        "event certificates": lambda: _check_certificates(cs, kgc_key or cs.identity.kgc),
        "inputs": lambda: _require(
            inputs_of(cs) == last.core.report.inputs_after,
            "rules, seed, rows, labels or columns are not the certified ones",
        ),
        "bins": cs.side.check_bins,
        "used cuts": lambda: _check_used_cuts(cs, last),
        "forest": lambda: _check_forest(cs, last, progress),
    }
    problems: dict[str, str] = {}
    for name, check in checks.items():
        try:
            _require("bins" not in problems, "not checked, because the bins do not hold")
            check()
        except (CertificateError, RejectedError, RefusedError) as error:
            problems[name] = str(error)
    digest = "" if "bins" in problems else cs.digest()
    return Audit(tuple(checks), problems, digest, tuple(sorted(last.unsigned)))


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ProtocolError(otherwise, kind="forest")


def _check_certificates(cs: EventSeat, kgc_key: VerifyKey) -> None:
    """All certificates hold, each begins where the one before has ended, and the last is of this forest."""
    before: EventCertificate | None = None
    for certificate in cs.certificates:
        certificate.verify(kgc_key)
        report = certificate.core.report
        if before is None:
            _require(report.inputs_before is None, "the certificate of the forest's creation is missing")
        else:
            begins = (report.forest, report.inputs_before, report.digest_before)
            ended = before.core.report
            _require(
                begins == (ended.forest, ended.inputs_after, before.digest_after),
                "one does not begin where the one before has ended",
            )
        before = certificate
    report = cs.certificates[-1].core.report
    _require(report.forest == cs.plan.forest, "they are of another forest")
    _require(report.epoch == certificate_digest(cs.certificate), "the last is not of the current epoch")


def _check_used_cuts(cs: EventSeat, last: EventCertificate) -> None:
    """The owners have signed for the cuts that the forest uses."""
    used, salts = cs.side.used_cuts(), cs.store.used_salts
    generations = {line.feature: line.generation for line in last.core.report.inputs_after.features}
    for receipt in last.receipts:
        if isinstance(receipt, UsedCutsReceipt):
            salt, own = salts.get(receipt.party, b""), used.get(receipt.party, ())
            signed = tuple(used_column(salt, column, generations.get(column.feature, 0)) for column in own)
            _require(
                receipt.columns == signed, f"{receipt.party!r} has signed for other cuts than the forest uses"
            )


def _check_forest(cs: EventSeat, last: EventCertificate, progress: Progress) -> None:
    """The stored forest is the one that its inputs define, and the certified one."""
    stored, grown = cs.digest(), cs.side.grow_again(progress)
    _require(stored == grown, f"its inputs define the forest {grown[:16]}…, and CS has {stored[:16]}…")
    _require(
        salted_digest(cs.record.salt, stored) == last.digest_after,
        "the certified digest is that of another forest",
    )
    n_nodes = cs.side.n_nodes
    _require(last.n_nodes == n_nodes, f"the forest has {n_nodes} nodes, and {last.n_nodes} are certified")
