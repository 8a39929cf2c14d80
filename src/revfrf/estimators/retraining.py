"""Retraining: whether the digest in an event certificate is really that of a forest grown from a table.

Only training again can show it. The saved forest has the rules, the seed and the participants' secrets, the
table has the training rows. Toy keys are enough, because keys are not part of a digest. Nothing is printed,
and no file changes.

Sample weights given to `fit` are not in the file: retraining counts every row once, times its class weight,
which is a parameter and in the file.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import ModelFileError, UsageError
from revfrf.estimators._base import _Limits
from revfrf.estimators.forest import RevocableForestClassifier, RevocableForestRegressor
from revfrf.forest.criterion import Counted
from revfrf.forest.nodes import Nodes
from revfrf.forest.targets import Targets
from revfrf.io.files import PathLike
from revfrf.io.party_data import Rows
from revfrf.io.table import Table, category, number, some
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.events import salted_digest
from revfrf.protocols.sides import TRAINING

__all__ = ["Retraining", "Table", "retrain"]

Model = RevocableForestClassifier | RevocableForestRegressor


@dataclass(frozen=True)
class Retraining:
    """The result of training again.

    `same_targets` says whether the rows' labels and weights add up, tree by tree, to those in the saved
    forest's leaves, which does not depend on the owners of splits. If not, the table is probably not the
    one that the forest was trained on, or `fit` was given sample weights. `ignored` are columns of the
    table without an owner. Both digests are salted.
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
        """Whether the certified digest is that of the forest trained again."""
        return self.digest_certified == self.digest_trained


def retrain(
    certificate: EventCertificate, kgc_key: VerifyKey, model: PathLike, table: Table, target: str
) -> Retraining:
    """Train a saved forest again, on the rows of a table.

    The forest must have been saved after the event and before the next, with its private keys: it has the
    salt of the certificate's digest. Raises CertificateError if the certificate does not hold,
    ModelFileError for a file that cannot be read, and UsageError if certificate, forest and table do not
    belong together.
    """
    certificate.verify(kgc_key)
    forest = _load(model)
    federation = forest.federation_
    cs = federation.coordinator
    last = cs.certificates[-1] if cs.certificates else None
    if cs.identity.kgc != kgc_key or last is None or last.core != certificate.core:
        raise UsageError(f"{model}: not a forest that was saved after this event, and before the next one")
    stayed = tuple(forest.layout_.owned)
    texts = table.texts(target)
    places = _places(forest, stayed, table, target)
    targets = _targets(forest, table, target, texts)
    same = _same_targets(forest, targets)
    _hold(forest, stayed, table, places)
    cs.targets = targets
    trained = federation.shadow(()).coordinator.digest()
    return Retraining(
        leavers=certificate.leavers,
        stayed=stayed,
        rows=len(targets),
        ignored=tuple(name for name in table.columns if name not in (target, *places.values())),
        same_targets=same,
        digest_certified=certificate.digest_after.hex(),
        digest_trained=salted_digest(cs.record.salt, trained).hex(),
    )


# -- the saved forest -------------------------------------------------------------------------------


def _load(path: PathLike) -> Model:
    """Return the forest in a file, of either kind, with its seed and the participants' secrets."""
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


# -- the table --------------------------------------------------------------------------------------


def _places(forest: Model, stayed: tuple[str, ...], table: Table, target: str) -> dict[int, str]:
    """Return the name in the table of each needed column of X, by its position in X."""
    needed = sorted(position for party in stayed for position in forest.layout_.owned[party])
    given = [name for name in table.columns if name != target]
    names = forest._names()
    if names is not None:
        missing = [names[position] for position in needed if names[position] not in table.columns]
        if missing:
            raise UsageError(f"the table has no column {some(missing)}")
        if any(names[position] == target for position in needed):
            raise UsageError(f"the target {target!r} is one of the columns that the forest was trained on")
        return {position: names[position] for position in needed}
    if len(given) == forest.n_features_in_:
        return {position: given[position] for position in needed}
    if len(given) == len(needed):
        return dict(zip(needed, given, strict=True))
    raise UsageError(
        f"the table has {len(given)} columns besides {target!r}; the forest was trained on "
        f"{forest.n_features_in_} columns without names, and those who stayed own {len(needed)} of them"
    )


def _hold(forest: Model, stayed: tuple[str, ...], table: Table, places: dict[int, str]) -> None:
    """Give the participants who stayed their columns of the table, encoded as they were for `fit`."""
    layout = forest.layout_
    ids = ("",) * len(next(iter(table.columns.values())))  # rows have no ids here, and keep their order
    rows = Rows(table, "", ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            for party in stayed:
                columns = [replace(layout.columns[i], name=places[i]) for i in layout.owned[party]]
                forest.federation_.participants[party].hold(TRAINING, rows.codes(columns))
        except UserWarning as warning:
            raise UsageError(str(warning)) from None


def _targets(forest: Model, table: Table, target: str, texts: Sequence[str]) -> Targets:
    """Return the targets as `fit` makes them from labels or numbers, on the forest's scale."""
    scale = forest.targets_.scale
    limits = _Limits(max_total_weight=scale.max_total_weight)
    try:
        if isinstance(forest, RevocableForestClassifier):
            y, limits = _labels(forest, table, texts), limits._replace(classes=forest.classes_)
        else:
            y = forest._check_y(np.array([number(text) for text in texts], dtype=np.float64))
            limits = limits._replace(target_range=(min(scale.low, y.min()), max(scale.high, y.max())))
        return forest._targets(np.arange(len(y)), y, np.ones(len(y)), limits)
    except ValueError as error:
        raise UsageError(f"{table.path}, column {target!r}: {error}") from None


def _labels(forest: RevocableForestClassifier, table: Table, texts: Sequence[str]) -> NDArray[Any]:
    """Return labels of the type that the forest was trained with; 1.0 is 1."""
    labels = [str(label) for label in forest.classes_.tolist()]
    known = {name(label): i for name in (category, str) for i, label in enumerate(labels)}
    found = []
    for row, text in enumerate(texts):
        label = category(text, labels)
        if label is None or label not in known:
            raise UsageError(
                f"{table.places([row])}: {text!r} is not a label of this forest; "
                f"its labels are {some(labels)}"
            )
        found.append(known[label])
    labels_of: NDArray[Any] = forest.classes_[found]
    return labels_of


def _same_targets(forest: Model, targets: Targets) -> bool:
    """Return whether each tree's leaves add up to its rows: no split and no leaver changes that."""
    cs = forest.federation_.coordinator
    if forest.targets_.scale != targets.scale:
        return False
    counted = Counted.of(cs.plan.rules, cs.plan.seed, targets)
    sums = counted.sums(Nodes.roots([counted.used(tree) for tree in range(cs.plan.rules.n_trees)]))
    for tree, _, *leaf in cs.side.forest.leaves(targets.scale.n_sums).tolist():
        sums[tree] -= leaf
    return not sums.any()
