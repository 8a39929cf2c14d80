"""What an owner's noise costs: epsilon for each book, and again for each further value of a record.

The noisy bins of two values of one record tell about both, so they cost twice the epsilon.
The owner counts the record that has cost most, column by column, and refuses to go beyond its budget.
"""

import numpy as np
from msgspec.structs import replace

from revfrf.errors import ProtocolError, StorageError
from revfrf.forest.kernel import Bytes, Paths
from revfrf.forest.noise import UNIT, noisy_bins
from revfrf.messages.bins import FeatureLine
from revfrf.protocols.columns import ColumnSettings, millionths
from revfrf.storage.memory import ParticipantStore, Spending

_BIN_BITS = np.uint64(8)


def expect_spending(store: ParticipantStore) -> Spending:
    """Return what an owner's books have cost so far, with its noise secret. Raises StorageError."""
    if store.spending is None:
        raise StorageError(f"{store}: damaged: it has no 'spending'", kind="malformed")
    return store.spending


def before_its_books(store: ParticipantStore) -> Spending:
    """Return a spending with which an owner draws the books that it has once more, with the same noise."""
    lines = [book.line for book in store.books]
    drawn = {line.feature.partition("/")[2]: line.generation for line in lines}
    return Spending(expect_spending(store).secret, drawn)


def paid(spending: Spending, column: str, cost: int, settings: ColumnSettings) -> Spending:
    """Return the spending with this cost. Raises ProtocolError if the column's budget does not allow it."""
    spent, budget = spending.spent.get(column, 0) + cost, settings.epsilon_budget
    if budget is not None and spent > millionths(budget):
        before = f"{spending.spent.get(column, 0) / UNIT:g} of {budget:g} is spent"
        what = f"column {column!r}: more noise would cost epsilon {cost / UNIT:g}, and {before}"
        raise ProtocolError(f"{what}; raise its `epsilon_budget` to allow it", kind="budget")
    return replace(spending, spent=spending.spent | {column: spent})


def values_sent(records: Paths, bins: Bytes) -> Paths:
    """Return numbers for these values of these records, ascending: 56 bits of the record, and its bin."""
    return _distinct(records >> _BIN_BITS << _BIN_BITS | bins)


def _distinct(numbers: Paths) -> Paths:
    """Return each of these numbers once, ascending; NumPy's `unique` takes far longer for a million."""
    ordered = np.sort(numbers)
    found: Paths = ordered[np.diff(ordered, prepend=~ordered[:1]) != 0]
    return found


def _values_of_a_record(sent: Paths) -> int:
    """Return the most values that have been sent of any record."""
    if not len(sent):
        return 0
    starts = np.flatnonzero(np.diff(sent >> _BIN_BITS, prepend=~sent[0]))
    return int(np.diff(starts, append=len(sent)).max())


def pay_for(
    store: ParticipantStore, column: str, line: FeatureLine, settings: ColumnSettings, values: Paths
) -> None:
    """Pay for the values that have not been sent before, if any record has more of them than ever.

    The first value of every record has been paid for with the book. Raises ProtocolError.
    """
    known = store.sent(column)
    sent = _distinct(np.concatenate([known, values]))
    if len(sent) == len(known):
        return
    more = max(1, _values_of_a_record(sent)) - max(1, _values_of_a_record(known))
    spending = paid(expect_spending(store), column, more * (line.epsilon or 0), settings)
    with store.transaction():
        store.put_spending(spending)
        store.put_sent(column, sent)


def with_noise(spending: Spending, line: FeatureLine, records: Paths, bins: Bytes) -> Bytes:
    """Return bins as CS sees them: with the noise that the owner has signed, if any."""
    if line.epsilon is None:
        return bins
    known = (spending.secret, line.feature, line.generation)
    return noisy_bins(*known, line.epsilon, line.n_cuts, records, bins)
