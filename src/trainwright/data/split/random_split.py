"""Rows drawn for validation and test, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from trainwright.data.base.row_storage import RowStorage
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
    """The part of each row, int64 [N] in `space`: within each class the rows with the lowest keys
    are 1, validation, the next ones 2, test, the others 0, training.

    `codes` gives the class of each row, a slice at a time, `sizes` the rows of each class, `wanted`
    those for validation and test. Keys are of 64 bits: of rows with one key both stay in training.
    """
    rows = sum(sizes)
    # The keys of one class behind those of the other: however many there are, one array.
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
    """The key that so many others are below."""
    return ascending[place] if place < len(ascending) else _LARGEST
