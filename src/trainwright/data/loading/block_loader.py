"""Block loaders of a feed: rows of a dataset, loaded on demand or prefetched. Needs torch."""

from __future__ import annotations

from typing import Protocol, final

from trainwright.data.base.counter_rng import Positions
from trainwright.data.loading.batch import Batch, as_batch
from trainwright.data.loading.dataset import RowDataset

_SHOWN = 12


class Loader(Protocol):
    """Loads blocks of rows. Blocks are taken once, in the order of `ask`, and must equal the
    dataset's rows bit for bit."""

    @property
    def store(self) -> RowDataset:
        """The dataset."""
        ...

    @property
    def depth(self) -> int:
        """Blocks that may be asked for before the first of them is taken; 0 if it makes none
        ahead."""
        ...

    def ask(self, epoch: int, rows: Positions) -> None:
        """Start loading a block."""
        ...

    def take(self, epoch: int, rows: Positions) -> Batch:
        """Wait for the block that was asked for first; on the device."""
        ...

    def now(self, epoch: int, rows: Positions) -> Batch:
        """Load any rows immediately, on the device."""
        ...

    def advance(self) -> None:
        """Progress pending work without blocking."""
        ...

    def forget(self) -> None:
        """Discard pending blocks."""
        ...

    def close(self) -> None:
        """Release resources; a later `ask` restarts it."""
        ...


@final
class Direct:
    """Loads each block on demand in this process."""

    depth = 0

    def __init__(self, store: RowDataset) -> None:
        self.store = store

    def ask(self, epoch: int, rows: Positions) -> None:
        """Nothing yet."""

    def take(self, epoch: int, rows: Positions) -> Batch:
        """The rows of the store."""
        return make(self.store, epoch, rows)

    def now(self, epoch: int, rows: Positions) -> Batch:
        """The rows of the store."""
        return make(self.store, epoch, rows)

    def advance(self) -> None:
        """There is nothing under way."""

    def forget(self) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """It holds nothing."""


def make(store: RowDataset, epoch: int, rows: Positions) -> Batch:
    """Load rows of a dataset; an error gets a note with the rows that cause it."""
    try:
        return as_batch(store.take(epoch, rows)).with_rows(rows)
    except Exception as error:
        guilty = _guilty(store, epoch, rows)
        error.add_note(f"while it made training {name_rows(guilty)} of epoch {epoch}")
        raise


def name_rows(rows: Positions) -> str:
    """`row 7`, or the first few of several."""
    if len(rows) == 1:
        return f"row {int(rows[0]):,}"
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    return f"rows {', '.join(str(int(row)) for row in rows[:_SHOWN])}{more}"


def _guilty(store: RowDataset, epoch: int, rows: Positions) -> Positions:
    """Bisect to a minimal set of failing rows."""
    while len(rows) > 1:
        middle = len(rows) // 2
        failing = [half for half in (rows[:middle], rows[middle:]) if _fails(store, epoch, half)]
        if not failing:
            break
        rows = failing[0]
    return rows


def _fails(store: RowDataset, epoch: int, rows: Positions) -> bool:
    try:
        store.take(epoch, rows)
    except Exception:
        return True
    return False
