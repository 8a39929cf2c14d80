"""Leaving a fitted forest: a preview, the revocation, its certificates, and the audit."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import UsageError
from revfrf.estimators._base import BaseRevocableForest, Rows
from revfrf.estimators._layout import Layout
from revfrf.lifecycle import check_somebody_stays
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.parallel import workers
from revfrf.protocols.audit import Audit, audit
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.sides import TRAINING
from revfrf.report.progress import level_progress

Leavers = str | Iterable[str]


@dataclass(frozen=True)
class RevocationPreview:
    """The effect of a revocation that has not happened.

    `score_now` and `score_without` are scores on the rows given to `revocation_preview`; None without rows.
    """

    leavers: tuple[str, ...]
    nodes: int
    nodes_lost: int
    trees: int
    trees_touched: int
    estimated_seconds: float
    digest_after: str
    score_now: float | None
    score_without: float | None


class RevocationMixin(BaseRevocableForest):
    """Adds to a forest that its participants can leave."""

    def revoke(self, party: Leavers, level: RevocationLevel = 2) -> EventCertificate:
        """Let a participant leave, or several together: FRF-Revoc.

        The forest becomes, bit for bit, the one that `fit` would have grown without them (`digest_`). From
        then on their columns in X are ignored, and may be left out. If it fails because a party is offline,
        call it again: it first finishes what it has begun.

        Parameters
        ----------
        party : str or list of str
            The leavers. At least one participant must stay.
        level : {1, 2}
            The revocation level. 1 destroys the leavers' nodes with everything below them, and grows these
            places again. 2 also has all others sign receipts. Under the paper protocol they get new keys, so
            that copies of the old forest are useless, whatever keys the leavers have. Under the shares
            protocol a copy that was made before still holds the leavers' bins.

        Returns
        -------
        EventCertificate
            What happened, signed by KGC, CS and those who left, with the members' receipts.
            `certificate.verify(model.kgc_key_)` checks it.
        """
        check_is_fitted(self)
        wanted, federation = _level(level), self.federation_
        federation.n_jobs = workers(self.n_jobs)
        with level_progress(self.verbose) as progress:
            if federation.leaving:
                federation.resume(progress)
                self._drop_columns()
                ended = self.certificates_[-1]
                if set(_names(party)) <= set(ended.leavers):
                    if ended.level == 1 < wanted:
                        raise UsageError("they have left already, at revocation level 1")
                    return ended
            certificate = federation.revoke(self._leavers(party), wanted, progress)
        self._drop_columns()
        return certificate

    def _drop_columns(self) -> None:
        """Take the columns of those who have left out of the layout."""
        staying = self.federation_.coordinator.columns
        owned = {name: columns for name, columns in self.layout_.owned.items() if name in staying}
        self.layout_ = Layout(owned, self.layout_.columns)

    def revocation_preview(
        self, party: Leavers, X: Rows = None, y: ArrayLike | None = None, level: RevocationLevel = 2
    ) -> RevocationPreview:
        """Return what a revocation would cost and change, without doing it.

        The forest without the leavers is grown separately, with toy keys, which gives its digest.

        Parameters
        ----------
        party : str or list of str
            The leavers.
        X, y : array-like or None
            Validation rows and their targets, to compare accuracies or R².
        level : {1, 2}
            The revocation level; seconds are estimated for it, from how long training took.
        """
        self._check_whole()
        leavers, wanted = self._leavers(party), _level(level)
        if not all(TRAINING in party.tables for party in self.federation_.participants.values()):
            raise UsageError(
                "this forest was loaded from a file, which has no columns to grow another forest from: "
                "preview it in the process that trained it, or in its directory (`open`)"
            )
        federation, side = self.federation_, self.federation_.coordinator.side
        going, shadow, spent = side.doomed(leavers), federation.shadow(leavers), federation.timings
        lost = sum(going.values())
        seconds = spent.training * lost / side.n_nodes
        if wanted == 2 and federation.kgc.current.dtpkc is not None:
            # There are new keys, and the rest is encrypted again, which is most of the work.
            seconds = spent.training + spent.setup + spent.search
        score_now = score_without = None
        if X is not None and y is not None:
            codes, n_rows = self._encode(X)
            measure = accuracy_score if self.targets_.scale.n_classes else r2_score
            score_now, score_without = (
                float(measure(y, self._answers(forest.votes(codes, n_rows, self._checked_voting()))))
                for forest in (federation, shadow)
            )
        return RevocationPreview(
            leavers=tuple(leavers),
            nodes=side.n_nodes,
            nodes_lost=lost,
            trees=federation.coordinator.plan.rules.n_trees,
            trees_touched=len(going),
            estimated_seconds=seconds,
            digest_after=shadow.coordinator.digest(),
            score_now=score_now,
            score_without=score_without,
        )

    def audit(self, kgc_key: VerifyKey | None = None) -> Audit:
        """Grow the forest a second time, and compare it with what is certified. Nothing changes.

        Only a forest of the shares protocol can be audited, in the process that trained it, in its directory
        (`open`), or from a file with private keys.

        Parameters
        ----------
        kgc_key : VerifyKey or None
            The key with which the event certificates must be signed; None means `kgc_key_`.

        Returns
        -------
        Audit
            `audit.holds`, and `audit.problems` for what does not hold.
        """
        self._check_whole()
        federation = self.federation_
        if not len(federation.coordinator.targets):
            raise UsageError("this forest was loaded from a file without training rows: nothing to grow from")
        federation.n_jobs = workers(self.n_jobs)
        with level_progress(self.verbose) as progress:
            return audit(federation.coordinator, kgc_key, progress)

    @property
    def certificates_(self) -> list[EventCertificate]:
        """The event certificates, oldest first: the forest's creation, then who has left."""
        check_is_fitted(self)
        return list(self.federation_.coordinator.certificates)

    @property
    def kgc_key_(self) -> VerifyKey:
        """KGC's public key, to verify event certificates with."""
        check_is_fitted(self)
        return self.federation_.coordinator.identity.kgc

    def _leavers(self, party: Any) -> list[str]:
        """Return the names of the leavers, checked."""
        names, participants = _names(party), self.federation_.participants
        for name in names:
            if not isinstance(name, str) or name not in participants:
                gone = name in self.federation_.kgc.current.revoked
                what = "has left already" if gone else "is not a participant"
                raise UsageError(f"{name!r} {what}; the participants are {', '.join(participants)}")
        leavers = sorted(set(names))
        if not leavers:
            raise UsageError("nobody leaves; give the name of a participant")
        check_somebody_stays(participants, leavers)
        if not len(self.federation_.coordinator.targets):
            raise UsageError(
                "this forest was loaded from a file without training rows, so it cannot be rebuilt: "
                "revoke in the process that trained it, or in its directory (`open`)"
            )
        return leavers


def _names(party: Any) -> list[Any]:
    """Return one name or several as a list."""
    names = [party] if isinstance(party, str) else party
    if not isinstance(names, Iterable):
        raise UsageError(f"{party!r}: give the name of a participant, or a list of names")
    return list(names)


def _level(level: Any) -> RevocationLevel:
    """Return the revocation level, checked."""
    if isinstance(level, bool) or not isinstance(level, Integral) or level not in (1, 2):
        raise UsageError(f"level={level!r}: give 1 or 2")
    return 1 if level == 1 else 2
