"""Random draw of validation and test rows, in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from trainwright.data.base.storage.row_storage import RowStorage
from trainwright.data.base.table import Integers
from trainwright.data.split.row_keys import key_slices

_LARGEST = np.uint64(2**64 - 1)


def draw_parts(
    codes: Callable[[], Iterator[Integers]],
    sizes: Sequence[int],
    wanted: Sequence[tuple[int, int]],
    seed: int,
    space: RowStorage,
) -> Integers:
    """Part of each row, int64 [N] in `space`: within each class the rows with the lowest keys are
    validation (1), the next test (2), the others training (0).

    `codes` yields the class of each row in chunks, `sizes` the rows of each class, `wanted` those
    for validation and test. On a collision of the 64-bit keys both rows stay in training.
    """
    rows = sum(sizes)
    # One array for all classes, one class after the other.
    keys = space.array((rows,), np.uint64)
    ends = np.cumsum(sizes)
    free = ends - sizes
    for drawn, classes in zip(key_slices(rows, seed, "split"), codes(), strict=True):
        order = np.argsort(classes, kind="stable")
        counts = np.bincount(classes, minlength=len(sizes))
        among = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        keys[np.repeat(free, counts) + among] = drawn[order]
        free += counts
    own = [keys[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    for one in own:
        one.sort()
    pairs = list(zip(own, wanted, strict=True))
    first = np.array([_key_at(one, validation) for one, (validation, _) in pairs])
    second = np.array([_key_at(one, validation + test) for one, (validation, test) in pairs])
    parts: Integers = space.array((rows,), np.int64)
    start = 0
    for drawn, classes in zip(key_slices(rows, seed, "split"), codes(), strict=True):
        beyond = np.where(drawn < second[classes], 2, 0)
        parts[start : start + len(drawn)] = np.where(drawn < first[classes], 1, beyond)
        start += len(drawn)
    return parts


def _key_at(ascending: npt.NDArray[np.uint64], place: int) -> np.uint64:
    """Order statistic: the key with `place` keys below it."""
    return ascending[place] if place < len(ascending) else _LARGEST
