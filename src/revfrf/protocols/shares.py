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
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
import numpy as np

from revfrf.errors import ProtocolError
from revfrf.forest.books import MAX_CUTS
from revfrf.forest.growth import Growth
from revfrf.forest.kernel import Ints
from revfrf.forest.tree import BARE, Books, Forest, Tree
from revfrf.forest.voting import Votes, Voting, Walker
from revfrf.messages.base import Message
from revfrf.messages.bins import BinsRequest, of_runs
from revfrf.messages.fle_expan import OpenForest
from revfrf.messages.frf_predict import PredictReply, PredictRequest
from revfrf.parallel import side_by_side
from revfrf.protocols.bins import (
    answer_bins,
    bins_digest,
    collect_bins,
    draw_books,
    fetch_bins,
    rows_digest,
    verify_line,
)
from revfrf.protocols.sides import (
    TRAINING,
    CoordinatorSide,
    ForestProtocol,
    GrowthReport,
    OwnerSeat,
    OwnerSide,
    Progress,
)
from revfrf.storage.memory import CoordinatorStore, ParticipantStore

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

    def grow(self, progress: Progress) -> None:
        """Collect the bins that are missing, and grow every tree that is not whole."""
        seat, store, plan = self.seat, self.seat.store, self.seat.plan
        progress(GrowthReport(0.0, "bins"))

        def collect(owner: str) -> None:
            if plan.owners[owner][0] not in store.bins:
                columns = seat.record.columns[owner]
                collect_bins(seat.channel, plan, store, owner, columns, seat.targets.numbers)

        side_by_side(collect, list(plan.owners))
        features, trees = self.forest.features, self.forest.trees
        self._check_parts()
        bins = np.stack([store.bins[feature].bins for feature in features])
        n_cuts = np.array([store.bins[feature].line.n_cuts for feature in features], dtype=np.int64)
        growth = Growth.of(plan.rules, plan.seed, seat.targets, features, n_cuts, bins)
        open_trees = [(number, tree) for number, tree in enumerate(trees) if not tree.whole]
        if open_trees and Growth.compiles():
            progress(GrowthReport(0.0, "compiling (once)"))
        waiting, written = dict[int, Tree](), time.monotonic()
        for done, (number, tree) in enumerate(growth.trees(open_trees, seat.n_jobs), 1):
            waiting[number] = tree
            if time.monotonic() - written > _COMMIT_SECONDS or done == len(open_trees):
                store.put_trees(waiting)
                waiting, written = {}, time.monotonic()
            progress(GrowthReport(done / len(open_trees), f"{done} of {len(open_trees)} trees"))

    def votes(self, table: str, n_rows: int, voting: Voting) -> Votes:
        seat, plan, forest = self.seat, self.seat.plan, self.forest
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
        """Save trees, and bins with the rows: with these anybody's leaving can be computed."""
        bins = self.seat.store.bins
        if not rows:
            bins = {name: held._replace(salt=b"", bins=held.bins[:0]) for name, held in bins.items()}
        store.add_bins(bins)
        store.replace_forest(self.forest)
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
        self._check_parts()
        for held in store.bins.values():
            signed = not len(held.bins) or bins_digest(held.salt, held.bins.tobytes()) == held.line.bins
            if not signed or (training_rows and not len(held.bins)):
                raise ProtocolError(f"{held.line.feature!r}: other bins than were signed", kind="forest")

    def _check_parts(self) -> None:
        """Raise ProtocolError unless trees and bins fit the plan. Compiled loops check nothing themselves."""
        store, plan, scale = self.seat.store, self.seat.plan, self.seat.targets.scale
        held = [store.bins[feature] for feature in sorted(plan.features)]
        for line, _, bins in held:
            if len(bins) != len(self.seat.targets) or bins.max(initial=0) > line.n_cuts:
                raise ProtocolError(f"{line.feature!r}: bins that do not fit the rows", kind="forest")
        n_cuts = np.array([line.n_cuts for line, _, _ in held])
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


class SharesOwner(OwnerSide):
    """A participant: draws a book of cuts for each column, and sends bins."""

    def __init__(self, seat: OwnerSeat, opening: OpenForest) -> None:
        super().__init__(seat, opening)
        self.books = seat.store.books

    @property
    def n_used(self) -> None:
        """CS does not tell."""

    def save(self, store: ParticipantStore) -> None:
        """Save books without the salts of the bins: these are CS's to keep, together with the bins."""
        store.put_books([msgspec.structs.replace(book, salt=b"") for book in self.books])

    def handle(self, message: Message) -> Message | None:
        if not isinstance(message, BinsRequest):
            return None
        self.seat.check_epoch(message.epoch)
        if message.forest != self.opening.forest:
            raise ProtocolError("a message about another forest", kind="forest")
        codes = self.seat.table(message.table)
        if message.table == TRAINING:
            self._draw(of_runs(message.rows, codes.shape[1]), codes)
        if not self.books:
            raise ProtocolError("bins before there is a book of cuts", kind="order")
        return answer_bins(self.books, codes, message)

    def _draw(self, numbers: Ints, codes: Ints) -> None:
        """Draw the books for rows with these numbers, if it has not been done before."""
        if not self.books:
            seat = self.seat
            limits = [seat.n_cuts.get(column.name, MAX_CUTS) for column in seat.columns]
            books = draw_books(seat.identity, self.opening, seat.columns, numbers, codes, limits)
            seat.store.put_books(books)
            self.books = books
        if self.books[0].line.rows != rows_digest(numbers):
            raise ProtocolError("the training rows have other numbers than before", kind="schema")


def _cuts(_: Any) -> Books:
    return Books()


SHARES = ForestProtocol(SharesCoordinator, SharesOwner, _cuts, needs_keys=False, answers_requests=False)
