"""Audits: whether a certificate's digest is really that of a forest without the leavers.

Only training again can show it. The saved forest has the rules, the seed and the participants' secrets, the
table the training rows; toy keys do, because keys play no part in a digest. An audit prints nothing and
changes no file.

What the file does not hold is the sample weights that `fit` was given: an audit counts every row once, times
its class weight, which is a parameter and in the file.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import ModelFileError, UsageError
from revfrf.estimators._layout import Layout
from revfrf.estimators.forest import RevocableForestClassifier, RevocableForestRegressor
from revfrf.forest.criterion import Targets
from revfrf.forest.nodes import Nodes
from revfrf.forest.randomness import row_repeats
from revfrf.io.table import Table, category, number, some
from revfrf.messages.fle_expan import Column
from revfrf.names import PARTICIPANT
from revfrf.protocols.certificate import RevocationCertificate
from revfrf.roles.participant import TRAINING

__all__ = ["Audit", "Table", "audit"]

Model = RevocableForestClassifier | RevocableForestRegressor


@dataclass(frozen=True)
class Audit:
    """What training again has shown.

    `same_targets` says whether the rows' labels and weights add up, tree by tree, to those in the saved
    forest's leaves, regardless of who owns its splits. If not, the table is probably not what the forest
    was trained on, or `fit` was given sample weights. `ignored` are columns that no remaining party owns.
    """

    leavers: tuple[str, ...]
    stayed: tuple[str, ...]
    rows: int
    ignored: tuple[str, ...]
    same_targets: bool
    digest_certified: str
    digest_trained: str

    @property
    def equal(self) -> bool:
        """Whether the certified digest is that of the forest trained without the leavers."""
        return self.digest_certified == self.digest_trained


def audit(
    certificate: RevocationCertificate,
    kgc_key: VerifyKey,
    model: str | os.PathLike[str],
    table: Table,
    target: str,
) -> Audit:
    """Train a saved forest again without those who have left, on the rows of a table.

    The forest may have been saved before the leavers left or after, but with its private keys. Raises
    CertificateError if the certificate does not hold, ModelFileError for a file that cannot be read, and
    UsageError if certificate, forest and table do not belong together.
    """
    certificate.verify(kgc_key)
    forest = _load(model)
    stayed = _stayed(certificate, kgc_key, forest, model)
    federation = forest.federation_
    if target not in table.names:
        raise UsageError(f"the table has no column {target!r}; its columns are {some(table.names)}")
    layout = Layout({party: forest.layout_.owned[party] for party in stayed}, forest.layout_.columns)
    positions, ignored = _positions(forest, layout, table, target)
    codes = _encoded(layout, table, positions)
    targets = _targets(forest, table.columns[table.names.index(target)], target)
    same = _same_targets(forest, targets)
    for party in stayed:
        federation.participants[party].hold(TRAINING, codes[party])
    federation.coordinator.targets = forest.targets_ = targets
    trained = federation.shadow(federation.participants.keys() - set(stayed))
    return Audit(
        leavers=certificate.leavers,
        stayed=stayed,
        rows=len(targets.values),
        ignored=ignored,
        same_targets=same,
        digest_certified=certificate.report.digest_after,
        digest_trained=trained.coordinator.digest(forest._digest_fields()),
    )


# -- the saved forest -------------------------------------------------------------------------------


def _load(path: str | os.PathLike[str]) -> Model:
    """The forest in a file, of whichever kind, with its seed and the participants' secrets."""
    model: Model
    try:
        model = RevocableForestClassifier.load(path)
    except ModelFileError as error:
        if error.kind != "wrong-kind":
            raise
        model = RevocableForestRegressor.load(path)
    if not model.federation_.seed:
        raise UsageError(
            f"{path}: saved without private keys, and so without the seed that retraining needs; "
            "save it with `private_keys=True`"
        )
    return model


def _stayed(
    certificate: RevocationCertificate, kgc_key: VerifyKey, forest: Model, path: str | os.PathLike[str]
) -> tuple[str, ...]:
    """Who was left when the certificate was signed, if the saved forest is the one it speaks of."""
    after, cs = certificate.epoch_after, forest.federation_.coordinator
    same = (cs.opening.federation, cs.opening.forest) == (after.federation, certificate.report.forest)
    if not same or cs.identity.kgc != kgc_key:
        raise UsageError(f"{path}: another forest than the one that the certificate speaks of")
    stayed = {member.name for member in after.members if member.role == PARTICIPANT}
    here = forest.federation_.participants.keys()
    if stayed - here:
        raise UsageError(
            f"{path}: saved after {some(sorted(stayed - here))} had left, too; "
            "give the forest as it was before that"
        )
    if here - stayed - set(after.revoked):
        raise UsageError(f"{path}: another forest than the one that the certificate speaks of")
    return tuple(party for party in forest.layout_.owned if party in stayed)


# -- the table --------------------------------------------------------------------------------------


def _positions(
    forest: Model, layout: Layout, table: Table, target: str
) -> tuple[dict[int, int], tuple[str, ...]]:
    """For each position in X that is needed, the position in the table; and what is not needed."""
    needed = sorted(position for owned in layout.owned.values() for position in owned)
    given = [i for i, name in enumerate(table.names) if name != target]
    names = forest._names()
    if names is not None:
        absent = [names[position] for position in needed if names[position] not in table.names]
        if absent:
            raise UsageError(f"the table has no column {some(absent)}")
        if any(names[position] == target for position in needed):
            raise UsageError(f"the target {target!r} is one of the columns that the forest was trained on")
        found = {position: table.names.index(names[position]) for position in needed}
    elif len(given) == forest.n_features_in_:
        found = {position: given[position] for position in needed}
    elif len(given) == len(needed):
        found = dict(zip(needed, given, strict=True))
    else:
        raise UsageError(
            f"the table has {len(given)} columns besides {target!r}; the forest was trained on "
            f"{forest.n_features_in_} columns without names, {len(needed)} of them of those who stayed"
        )
    used = set(found.values())
    return found, tuple(table.names[i] for i in given if i not in used)


class _Columns:
    """The table as `Layout.encode` takes arrays, each column with values of its own type."""

    def __init__(self, columns: Mapping[int, Any]) -> None:
        self.columns = columns

    def __getitem__(self, key: tuple[slice, int]) -> Any:
        return self.columns[key[1]]


def _encoded(layout: Layout, table: Table, positions: Mapping[int, int]) -> dict[str, NDArray[np.int64]]:
    columns = {
        position: _values(layout.columns[position], table.columns[place], table.names[place])
        for position, place in positions.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return layout.encode(_Columns(columns))
        except UserWarning as warning:
            raise UsageError(str(warning)) from None


def _values(column: Column, texts: Sequence[str], name: str) -> Any:
    """A column of text as numbers, or as categories."""
    if column.categories is None:
        return [_number(text, name, row) for row, text in enumerate(texts)]
    known = set(column.categories)
    return np.array([category(text, known) for text in texts], dtype=object)


def _number(text: str, name: str, row: int) -> int | float | None:
    try:
        return number(text)
    except UsageError as error:
        raise UsageError(f"the table, column {name!r}, row {row + 1}: {error}") from None


def _targets(forest: Model, texts: Sequence[str], name: str) -> Targets:
    """The targets as `fit` makes them of labels or numbers, every row counted once."""
    try:
        if isinstance(forest, RevocableForestClassifier):
            y = _labels(forest, texts, name)
        else:
            numbers = [_number(text, name, row) for row, text in enumerate(texts)]
            y = forest._check_y(np.array(numbers, dtype=np.float64))
        weights = np.ones(len(y)) * forest._class_weights(y)
        if not np.isfinite(weights).all() or not weights.any():
            raise UsageError("with the forest's class weights no row has a weight")
        rules, seed = forest.federation_.coordinator.plan.rules, forest.federation_.seed
        targets = forest._targets(y, weights, row_repeats(seed, rules.n_trees, rules.bootstrap, weights))
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"the table, column {name!r}: {error}") from None
    forest._set_labels(y)
    return targets


def _labels(forest: RevocableForestClassifier, texts: Sequence[str], name: str) -> NDArray[Any]:
    """Labels of the type that the forest was trained with."""
    labels = list(enumerate(forest.classes_.tolist()))
    known = {str(label): i for i, label in labels}
    numbers = {float(label): i for i, label in labels if type(label) in (int, float)}
    found = []
    for row, text in enumerate(texts):
        place = known.get(text)
        if place is None:
            place = numbers.get(_as_float(text))  # 1.0 is 1
        if place is None:
            raise UsageError(
                f"the table, column {name!r}, row {row + 1}: {text!r} is no label of this forest; "
                f"there are {some(list(known))}"
            )
        found.append(place)
    labels_of: NDArray[Any] = forest.classes_[found]
    return labels_of


def _as_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _same_targets(forest: Model, targets: Targets) -> bool:
    """Whether each tree's leaves add up to its rows: no split and no leaver changes that."""
    saved, store = forest.targets_, forest.federation_.coordinator.store
    for name in ("n_classes", "centre", "places"):
        if getattr(saved, name) != getattr(targets, name):
            return False
    roots = Nodes.roots([np.flatnonzero(repeats).astype(np.uint32) for repeats in targets.repeats])
    sums = targets.sums(roots)
    for (tree, _), leaf in store.leaves.items():
        sums[tree] -= leaf
    return not sums.any()
