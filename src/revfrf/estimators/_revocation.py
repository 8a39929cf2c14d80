"""Leaving a fitted forest: what it would cost, doing it, and the proof."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import _num_samples, check_is_fitted

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import UsageError
from revfrf.estimators._base import Rows
from revfrf.estimators._encrypted import EncryptedPredictionMixin
from revfrf.estimators._layout import Layout
from revfrf.lifecycle import check_somebody_stays
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.parallel import workers
from revfrf.protocols.certificate import RevocationCertificate
from revfrf.protocols.frf_revoc import doomed
from revfrf.report.progress import level_progress


@dataclass(frozen=True)
class RevocationPreview:
    """What would happen if participants left.

    `score_now` and `score_without` are of the rows given to `revocation_preview`, None without any.
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


class RevocationMixin(EncryptedPredictionMixin):
    """A forest that its participants can leave."""

    def revoke(self, party: str | Iterable[str], level: Literal[1, 2] = 2) -> RevocationCertificate:
        """Let a participant leave, or several together: FRF-Revoc.

        The forest becomes, bit for bit, the one that `fit` would have grown without them (`digest_`). From
        now on X may be given with or without their columns; they are ignored. If it fails half-way, because a
        party is absent, call it again: what was begun is ended first.

        Parameters
        ----------
        party : str or list of str
            Who leaves. One participant at least must stay.
        level : {1, 2}
            1 destroys the leavers' nodes with everything below and grows these places again. 2 also makes new
            keys for all who stay, so that a copy of the old forest is of no use to anybody, whatever keys
            the leaver has.

        Returns
        -------
        RevocationCertificate
            Signed by everybody who had a part in it; `certificate.verify(model.kgc_key_)` checks it.
        """
        check_is_fitted(self)
        wanted, federation = _level(level), self.federation_
        federation.n_jobs = workers(self.n_jobs)
        with level_progress(self.verbose) as progress:
            if federation.leaving:
                federation.resume(self._digest_fields(), progress)
                self._drop_columns()
                ended = self.certificates_[-1]
                if set(_names(party)) <= set(ended.leavers):
                    if ended.level < wanted:
                        raise UsageError("they had asked to leave at level 1, and have left at level 1")
                    return ended
            certificate = federation.revoke(self._leavers(party), wanted, self._digest_fields(), progress)
        self._drop_columns()
        return certificate

    def _drop_columns(self) -> None:
        """The columns of those who have left are nobody's."""
        staying = self.federation_.coordinator.columns
        owned = {name: columns for name, columns in self.layout_.owned.items() if name in staying}
        self.layout_ = Layout(owned, self.layout_.columns)

    def revocation_preview(
        self,
        party: str | Iterable[str],
        X: Rows | None = None,
        y: ArrayLike | None = None,
        level: RevocationLevel = 2,
    ) -> RevocationPreview:
        """What leaving would cost and change, without doing it.

        The forest without the leavers is grown on the side with toy keys, which gives its digest, and its
        score (accuracy or R²) on validation rows if there are any. Seconds are estimated from how long
        training took.
        """
        self._check_whole()
        leavers, wanted = self._leavers(party), _level(level)
        federation = self.federation_
        store = federation.coordinator.store
        going = doomed(store, leavers)
        shadow, n_trees = federation.shadow(leavers), federation.coordinator.plan.rules.n_trees
        score_now = score_without = None
        if X is not None and y is not None:
            rows = self._rows(X, reset=False)
            codes, n_rows = self.layout_.encode(rows), _num_samples(rows)
            left = {name: table for name, table in codes.items() if name not in leavers}
            voting = self._checked_voting()
            answers = (
                self._answers(federation.votes(codes, n_rows, voting) / n_trees),
                self._answers(shadow.votes(left, n_rows, voting) / n_trees),
            )
            measure = accuracy_score if self.targets_.n_classes else r2_score
            score_now, score_without = (float(measure(y, answer)) for answer in answers)
        return RevocationPreview(
            leavers=tuple(leavers),
            nodes=store.n_nodes,
            nodes_lost=len(going.nodes),
            trees=n_trees,
            trees_touched=len({tree for tree, _ in going.tops}),
            estimated_seconds=federation.revocation_seconds(len(going.nodes) / store.n_nodes, wanted),
            digest_after=shadow.coordinator.digest(self._digest_fields()),
            score_now=score_now,
            score_without=score_without,
        )

    @property
    def certificates_(self) -> list[RevocationCertificate]:
        """Of all who have left, in their order."""
        check_is_fitted(self)
        return list(self.federation_.coordinator.certificates)

    @property
    def kgc_key_(self) -> VerifyKey:
        """KGC's public key, with which certificates are checked."""
        check_is_fitted(self)
        return self.federation_.coordinator.identity.kgc

    def _leavers(self, party: Any) -> list[str]:
        """The names, checked."""
        check_is_fitted(self)
        names, participants = _names(party), self.federation_.participants
        for name in names:
            if not isinstance(name, str) or name not in participants:
                gone = name in self.federation_.kgc.current.revoked
                what = "has left already" if gone else "is no participant"
                raise UsageError(f"{name!r} {what}; there are {', '.join(participants)}")
        leavers = sorted(set(names))
        if not leavers:
            raise UsageError("nobody leaves; give the name of a participant")
        check_somebody_stays(participants, leavers)
        if not len(self.federation_.coordinator.targets.values):
            raise UsageError(
                "this forest was loaded from a file, which holds no training rows: nobody can leave it, "
                "because what a leaver leaves behind could not be grown again"
            )
        return leavers


def _names(party: Any) -> list[Any]:
    """One name or several, as a list."""
    names = [party] if isinstance(party, str) else party
    if not isinstance(names, Iterable):
        raise UsageError(f"{party!r}: give the name of a participant, or a list of names")
    return list(names)


def _level(level: Any) -> RevocationLevel:
    """The level, checked."""
    if isinstance(level, bool) or not isinstance(level, Integral) or level not in (1, 2):
        raise UsageError(f"level={level!r}: give 1 or 2")
    return 1 if level == 1 else 2
