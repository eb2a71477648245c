"""What a feed gets its blocks from: the rows of a store, made when they are taken or before. Needs
torch."""

from __future__ import annotations

from typing import Protocol, final

from trainwright.data.base.permutation import Positions
from trainwright.data.loading.dataset import Batch, RowDataset

_SHOWN = 12


class Loader(Protocol):
    """Makes blocks of rows. Blocks are taken in the order in which they were asked for, and each
    once; what is taken must be what the store gives, to the last bit."""

    @property
    def store(self) -> RowDataset:
        """Whose rows they are."""
        ...

    @property
    def depth(self) -> int:
        """Blocks that may be asked for before the first of them is taken; 0 if it makes none
        ahead."""
        ...

    def ask(self, epoch: int, rows: Positions) -> None:
        """Begin with a block."""
        ...

    def take(self, epoch: int, rows: Positions) -> Batch:
        """The block that was asked for first, on the device; waits for it."""
        ...

    def now(self, epoch: int, rows: Positions) -> Batch:
        """Any rows, on the device, out of turn."""
        ...

    def advance(self) -> None:
        """Go on with what is under way, without waiting."""
        ...

    def forget(self) -> None:
        """What was asked for will not be taken."""
        ...

    def close(self) -> None:
        """Give back what it holds; it begins anew if it is asked again."""
        ...


@final
class Direct:
    """Makes a block when it is taken, in this process."""

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
    """The rows of a store; an error is passed on with a note that names those it comes from."""
    try:
        return store.take(epoch, rows)
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
    """The fewest of the rows that fail when halves are tried on their own."""
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
