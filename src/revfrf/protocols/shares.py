"""The shares protocol's sides: CS grows the forest alone, from the bins that the owners have sent.

FLE-Expan::

    CS   which columns of which rows        ->  τ   draws a book of cuts for each column    `protocols.bins`
    τ    one bin per row and column, signed ->  CS  grows every tree on its own             `forest.growth`

FRF-Test::

    CS   which columns of which rows        ->  τ   finds the bins of the rows
    τ    one bin per row and column         ->  CS  walks the trees                          `forest.voting`

Participants see no rows of nodes, no labels, and no splits of others. When one leaves, CS erases its bins and
splits, and regrows what was below them; nobody else has to do anything.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from revfrf.errors import AbsentError, ProtocolError
from revfrf.forest.growth import Growth
from revfrf.forest.kernel import Ints
from revfrf.forest.tree import BARE, Books, Forest, Tree
from revfrf.forest.voting import Votes, Voting, Walker
from revfrf.messages.base import Message
from revfrf.messages.bins import BinsRequest, FeatureLine
from revfrf.messages.events import Event, UsedCuts, UsedCutsReceipt
from revfrf.messages.frf_predict import PredictReply, PredictRequest
from revfrf.parallel import side_by_side
from revfrf.protocols.bins import (
    answer_bins,
    ask_bins,
    bins_digest,
    draw_books,
    fetch_bins,
    new_salt,
    rows_digest,
    verify_line,
)
from revfrf.protocols.certificate import event_digest, owner_of
from revfrf.protocols.events import sign_used_cuts
from revfrf.protocols.sides import (
    TRAINING,
    CoordinatorSide,
    ForestProtocol,
    GrowthReport,
    OwnerSeat,
    OwnerSide,
    Progress,
)
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, StoredBins, UsedColumns

_COMMIT_SECONDS = 0.5
"""How long grown trees wait to be written down together; what a crash takes is grown again."""


class SharesCoordinator(CoordinatorSide):
    """CS: stores the bins of all columns, and trees."""

    @property
    def forest(self) -> Forest:
        plan, trees = self.seat.plan, self.seat.store.trees
        return Forest(sorted(plan.features), [trees.get(i, BARE) for i in range(plan.rules.n_trees)])

    @property
    def n_nodes(self) -> int:
        return self.forest.n_nodes

    @property
    def whole(self) -> bool:
        return all(tree.whole for tree in self.forest.trees)

    @property
    def lines(self) -> list[FeatureLine]:
        return [held.line for held in self.seat.store.bins.values()]

    @property
    def together(self) -> bool:
        """Until all bins have arrived."""
        return not self.seat.store.bins.keys() >= set(self.seat.plan.features)

    @property
    def lacking(self) -> set[str]:
        return set() if self.whole else self._without_bins() - self._never_sent()

    def _without_bins(self) -> set[str]:
        """Return the owners of columns whose bins are not here."""
        bins, n_rows = self.seat.store.bins, len(self.seat.targets)
        return {
            owner
            for owner, features in self.seat.plan.owners.items()
            if any(feature not in bins or len(bins[feature].bins) != n_rows for feature in features)
        }

    def _never_sent(self) -> set[str]:
        """Return the owners of columns whose bins have never been here."""
        bins, owners = self.seat.store.bins, self.seat.plan.owners
        return {owner for owner, features in owners.items() if not bins.keys() >= set(features)}

    @property
    def forgettable(self) -> bool:
        return any(held.line.forget and len(held.bins) for held in self.seat.store.bins.values())

    def forget(self) -> None:
        self.seat.store.forget_bins()

    def used_cuts(self) -> dict[str, tuple[UsedCuts, ...]]:
        used: dict[str, tuple[UsedCuts, ...]] = {}
        for feature, cuts in self.forest.used_cuts().items():  # in ascending order of features
            owner = owner_of(feature)
            used[owner] = (*used.get(owner, ()), UsedCuts(feature, bytes(cuts)))
        return used

    def _ask_bins(self, owner: str) -> dict[str, StoredBins]:
        seat = self.seat
        return ask_bins(
            seat.channel, seat.plan, seat.store, owner, seat.record.columns[owner], seat.targets.numbers
        )

    def grow(self, progress: Progress) -> None:
        """Collect the bins that are missing, and grow every tree that is not whole."""
        seat, store = self.seat, self.seat.store
        if self.whole:
            return
        progress(GrowthReport(0.0, "bins"))

        _ask_all(lambda owner: store.add_bins(self._ask_bins(owner)), self._without_bins())
        self._check_parts()
        growth = self._growth(store.bins)
        open_trees = [(number, tree) for number, tree in enumerate(self.forest.trees) if not tree.whole]
        if open_trees and Growth.compiles():
            progress(GrowthReport(0.0, "compiling (once)"))
        waiting, written = dict[int, Tree](), time.monotonic()
        for done, (number, tree) in enumerate(growth.trees(open_trees, seat.n_jobs), 1):
            waiting[number] = tree
            if time.monotonic() - written > _COMMIT_SECONDS or done == len(open_trees):
                store.put_trees(waiting)
                waiting, written = {}, time.monotonic()
            progress(GrowthReport(done / len(open_trees), f"{done} of {len(open_trees)} trees"))

    def _growth(self, held: Mapping[str, StoredBins]) -> Growth:
        """Return what grows the forest from these bins."""
        features, plan = self.forest.features, self.seat.plan
        bins = np.stack([held[feature].bins for feature in features])
        n_cuts = np.array([held[feature].line.n_cuts for feature in features], dtype=np.int64)
        here = any(held[feature].line.forget for feature in features)  # no worker's memory or disk gets them
        return Growth.of(plan.rules, plan.seed, self.seat.targets, features, n_cuts, bins, here=here)

    def check_bins(self) -> None:
        if self._never_sent():
            raise ProtocolError("the bins of a column are missing", kind="forest")
        self._check_parts()
        for held in self.seat.store.bins.values():
            if len(held.bins) and bins_digest(held.salt, held.bins.tobytes()) != held.line.bins:
                raise ProtocolError(f"{held.line.feature!r}: other bins than were signed", kind="forest")

    def grow_again(self, progress: Progress) -> str:
        """See `CoordinatorSide.grow_again`. Owners who want their bins forgotten are asked for them again."""
        self._check_parts()
        seat, plan, store = self.seat, self.seat.plan, self.seat.store
        held = dict(store.bins)
        for owner in sorted(self._without_bins()):
            try:
                held |= self._ask_bins(owner)
            finally:
                store.arriving.pop(owner, None)  # these bins are not kept
        n_trees, grown = plan.rules.n_trees, dict[int, Tree]()
        bare = [(number, BARE) for number in range(n_trees)]
        for number, tree in self._growth(held).trees(bare, seat.n_jobs):
            grown[number] = tree
            progress(GrowthReport(len(grown) / n_trees, f"{len(grown)} of {n_trees} trees"))
        trees = [grown[number] for number in range(n_trees)]
        return Forest(self.forest.features, trees).digest(plan.rules, seat.targets.scale)

    def votes(self, table: str, n_rows: int, voting: Voting) -> Votes:
        """See `CoordinatorSide.votes`. Trees abstain where they need an owner that the forest waits for."""
        seat, plan = self.seat, self.seat.plan
        forest = self._without(self.lacking & set(seat.absent()))
        used = forest.used_cuts().keys()
        bins = np.zeros((len(forest.features), n_rows), np.uint8)
        place = {feature: i for i, feature in enumerate(forest.features)}

        def collect(owner: str) -> None:
            columns = [i for i, feature in enumerate(plan.owners[owner]) if feature in used]
            if columns:
                found = fetch_bins(seat.channel, plan, owner, columns, table, n_rows)
                bins[[place[plan.owners[owner][i]] for i in columns]] = found

        side_by_side(collect, list(plan.owners))
        return Walker(forest, seat.targets.scale, voting).walk(bins, seat.n_jobs)

    def answer(self, message: PredictRequest, progress: Callable[[float], None]) -> PredictReply:  # noqa: ARG002
        raise ProtocolError("encrypted requests need protocol='paper'", kind="request")

    def _without(self, leavers: Collection[str]) -> Forest:
        """Return the forest with everything open that these owners decide, and without their features."""
        gone = {feature for owner in leavers for feature in self.seat.plan.owners.get(owner, ())}
        forest = self.forest
        return forest.renumbered([feature for feature in forest.features if feature not in gone])

    def doomed(self, leavers: Collection[str]) -> dict[int, int]:
        trees = zip(self.forest.trees, self._without(leavers).trees, strict=True)
        lost = {i: before.n_nodes - after.n_nodes for i, (before, after) in enumerate(trees)}
        return {i: nodes for i, nodes in lost.items() if nodes}

    def prepare_leaving(self, leavers: Collection[str]) -> None:
        """Nobody else has to do anything."""

    def destroy(self, leavers: Collection[str]) -> None:
        self.seat.store.replace_forest(self._without(leavers))
        for leaver in leavers:
            self.seat.store.arriving.pop(leaver, None)

    def save(self, store: CoordinatorStore, rows: bool) -> bool:
        """Save trees, and bins with the rows: with these anybody's leaving can be computed.

        If some are to be forgotten, none are saved: without all of them nothing can be regrown.
        """
        bins, rows = self.seat.store.bins, rows and not any(line.forget for line in self.lines)
        if not rows:
            bins = {name: held.forgotten() for name, held in bins.items()}
        store.add_bins(bins)
        store.replace_forest(self.forest)
        store.put_used_salts(self.seat.store.used_salts)
        return rows

    def check_stored(self, owners: Mapping[str, OwnerSeat], training_rows: bool) -> None:
        """Trees are whole and use cuts that exist; bins are those that their owners have signed."""
        store, plan = self.seat.store, self.seat.plan
        names = sorted(plan.features)
        fits = self.whole and len(store.trees) == plan.rules.n_trees and sorted(store.bins) == names
        for owner, seat_of in owners.items():
            books = seat_of.store.books
            fits &= [book.line.feature for book in books] == list(plan.owners[owner])
            for book in books if fits else ():
                line, cuts = book.line, book.cuts
                verify_line(plan.verify_keys[owner], plan.federation, plan.forest, line)
                fits &= store.bins[line.feature].line == line
                fits &= len(cuts) == line.n_cuts and bool((np.diff(cuts) > 0).all())
        if not fits:
            raise ProtocolError("the parts of the forest do not fit together", kind="forest")
        self.check_bins()
        kept = all(held.line.forget or len(held.bins) for held in store.bins.values())
        if training_rows and not kept:
            raise ProtocolError("bins are missing", kind="forest")

    def _check_parts(self) -> None:
        """Raise ProtocolError unless trees and bins fit the plan. Compiled loops check nothing themselves."""
        store, plan, scale = self.seat.store, self.seat.plan, self.seat.targets.scale
        held = [store.bins[feature] for feature in sorted(plan.features)]
        for line, _, bins in held:
            n_rows = 0 if line.forget and not len(bins) else len(self.seat.targets)
            if len(bins) != n_rows or bins.max(initial=0) > line.n_cuts:
                raise ProtocolError(f"{line.feature!r}: bins that do not fit the rows", kind="forest")
        n_cuts = np.array([found.line.n_cuts for found in held])
        for tree in store.trees.values():
            split, weights = tree.features >= 0, tree.sums[:, : scale.n_classes or 1]
            fits = (
                not (tree.features >= len(held)).any()
                and not (tree.paths >> np.uint64(plan.rules.max_depth + 1)).any()
            )
            fits = fits and not (tree.cuts[split] >= n_cuts[tree.features[split]]).any()
            if not fits or (len(tree.sums) and tree.sums.shape[1] != scale.n_sums) or (weights < 0).any():
                raise ProtocolError("a tree that no forest has", kind="forest")

    def renew(self) -> None:
        """Nothing is encrypted."""


def _ask_all(ask: Callable[[str], None], owners: Collection[str]) -> None:
    """Ask all of these owners. Raises AbsentError for one that is away, after all others have answered."""
    away = list[AbsentError]()

    def ask_if_there(owner: str) -> None:
        try:
            ask(owner)
        except AbsentError as error:
            away.append(error)

    side_by_side(ask_if_there, sorted(owners))
    if away:
        raise away[0]


class SharesOwner(OwnerSide):
    """A participant: draws a book of cuts for each column, and sends bins."""

    @property
    def n_used(self) -> int | None:
        used = self.seat.store.used
        return None if used is None else sum(len(column.cuts) for column in used.columns)

    def countersign(self, event: Event, used: Sequence[UsedCuts]) -> tuple[UsedCutsReceipt, bytes]:
        """See `OwnerSide.countersign`. CS tells the used cuts once per event."""
        store, about, epoch = self.seat.store, event_digest(event), event.epoch_after.epoch
        known = UsedColumns(about, epoch, tuple(used), new_salt())
        if store.used is not None and store.used.epoch > epoch:
            raise ProtocolError("used cuts for an event before the last one", kind="order")
        if store.used is not None and store.used.event == about:
            if store.used.columns != known.columns:
                raise ProtocolError("other used cuts than CS has named for this event before", kind="forest")
            known = store.used
        lines = [book.line for book in store.books]
        receipt = sign_used_cuts(self.seat.identity, event, used, lines, known.salt)
        store.put_used(known)
        store.scrub()  # of the salt before
        return receipt, known.salt

    def save(self, store: ParticipantStore) -> None:
        """Save books without the salts of the bins: these are CS's to keep, together with the bins."""
        store.put_books([msgspec.structs.replace(book, salt=b"") for book in self.seat.store.books])
        if self.seat.store.spending is not None:
            store.put_spending(self.seat.store.spending)
        if self.seat.store.used is not None:
            store.put_used(self.seat.store.used)

    def handle(self, message: Message) -> Message | None:
        if not isinstance(message, BinsRequest):
            return None
        self.seat.check_epoch(message.epoch)
        if message.forest != self.opening.forest:
            raise ProtocolError("a message about another forest", kind="forest")
        self.seat.table(message.table)  # raises for one that it does not hold
        numbers = self.seat.numbers[message.table]
        if message.rows != rows_digest(numbers):
            raise ProtocolError("bins of other rows than this owner has", kind="schema")
        if message.table == TRAINING:
            self._draw(numbers)
        if not self.seat.store.books:
            raise ProtocolError("bins before there is a book of cuts", kind="order")
        return answer_bins(self.seat, message)

    def _draw(self, numbers: Ints) -> None:
        """Draw the books for rows with these numbers, if it has not been done before."""
        if not self.seat.store.books:
            draw_books(self.seat, self.opening, numbers)
        if self.seat.store.books[0].line.rows != rows_digest(numbers):
            raise ProtocolError("the training rows have other numbers than before", kind="schema")


def _cuts(_: Any) -> Books:
    return Books()


SHARES = ForestProtocol(SharesCoordinator, SharesOwner, _cuts, needs_keys=False, answers_requests=False)
