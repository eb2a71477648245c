"""Random draw of validation and test rows: shares of the parts, keys of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import ColumnSplit, FileSplit, Split, TimeSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers, PartName
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, positions_of_code

TRAIN, VALIDATION, TEST, LEFT_OUT = range(4)
PARTS: tuple[PartName, ...] = ("train", "validation", "test")
_BYTES = 8
_BETWEEN, _MISSING = "\x1f", "\x1e"
_LARGEST = np.uint64(2**64 - 1)


@final
@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the rows for validation and test; 0 for a part with its own file."""

    validation: float
    test: float
    needs_validation: bool = True
    needs_test: bool = True

    @classmethod
    def of(cls, split: Split, given: frozenset[str]) -> Shares:
        """Shares from a section, where the parts in `given` have their own files. Under
        cross-validation those of one training, whose test rows are a fold."""
        own_validation, own_test = "validation" in given, "test" in given
        if isinstance(split, ColumnSplit | FileSplit):
            return cls(0, 0, not own_validation, not own_test)
        if split.folds != "off":
            return cls(split.validation, 0, needs_test=False)
        return cls(
            0 if own_validation else split.validation,
            0 if own_test else split.test,
            not own_validation,
            not own_test,
        )

    @property
    def needed(self) -> tuple[int, ...]:
        """Parts that must not be empty."""
        others = ((VALIDATION, self.needs_validation), (TEST, self.needs_test))
        return (TRAIN, *(part for part, needs in others if needs))


def rows_of_parts(codes: Integers, space: RowStorage = IN_MEMORY) -> dict[PartName, Integers]:
    """Rows of each part, given the part of each row [N]."""
    return {part: positions_of_code(code, codes, space) for code, part in enumerate(PARTS)}


def left_out_of(parts: Integers) -> int:
    """Number of rows [N] excluded from every part."""
    return int(np.bincount(parts, minlength=LEFT_OUT + 1)[LEFT_OUT])


def check_filled(parts: Integers, split: Split, shares: Shares) -> None:
    """Raises:
    DataMistake: a part that must have rows has none.
    """
    counts = np.bincount(parts, minlength=LEFT_OUT + 1)
    empty = [PARTS[part] for part in shares.needed if counts[part] == 0]
    if not empty:
        return
    unit = unit_of(split)
    raise DataMistake(
        Problem(
            f"there are too few {unit} to split: the {' and '.join(empty)} part would be empty",
            path="data.split",
            found=f"{many(len(parts), 'row')}, split by {split.kind}",
            expected=f"at least one of the {unit} for each part",
            fix="add data, increase the shares, or name val_path and test_path"
            + (", or lower gap or window" if isinstance(split, TimeSplit) else ""),
        )
    )


def unit_of(split: Split) -> str:
    """The unit that a split keeps together, in the plural."""
    units = {"group": "groups", "stratified_group": "groups", "time": "different times"}
    return units.get(split.kind, "rows")


def random_keys(count: int, seed: int, purpose: str) -> npt.NDArray[np.uint64]:
    """`count` random 64-bit numbers, a pure function of seed and purpose.

    Raw PCG64 words, whose stream numpy guarantees never to change.
    """
    return _stream(seed, purpose).random_raw(count)


def key_slices(count: int, seed: int, purpose: str) -> Iterator[npt.NDArray[np.uint64]]:
    """`random_keys` in chunks."""
    stream = _stream(seed, purpose)
    for start, stop in bounds(count):
        yield stream.random_raw(stop - start)


def _stream(seed: int, purpose: str) -> np.random.PCG64:
    tag = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:_BYTES], "little")
    return np.random.PCG64([seed, tag])


def row_texts(frame: pl.DataFrame) -> pl.Series:
    """All cells of each row as one text, injective: equal texts mean equal rows."""
    labels = [to_labels(column).fill_null(_MISSING) for column in frame.get_columns()]
    joined = pl.DataFrame([one.alias(str(at)) for at, one in enumerate(labels)])
    return joined.select(pl.concat_str(pl.all(), separator=_BETWEEN)).to_series()


def group_names(frame: pl.DataFrame, column: str) -> pl.Series:
    """Names in a column, all cells of a row where it has none."""
    names = to_labels(frame[column])
    return names.zip_with(names.is_not_null(), row_texts(frame)) if names.null_count() else names


def shares_of_keys(keys: pl.Series, seed: int, purpose: str) -> Floats:
    """Uniform number in [0, 1) for each row, float64 [N]: a pure function of seed, purpose and the
    row's key, independent of the other rows.

    BLAKE2b, which is stable across platforms and versions; fast row hashes are not.
    """
    different = keys.unique()
    start = f"{seed}{_BETWEEN}{purpose}{_BETWEEN}"
    shares = [_share(start + (_MISSING if key is None else key)) for key in different]
    table = pl.DataFrame({"key": different, "share": shares})
    joined = (
        keys.alias("key")
        .to_frame()
        .join(table, on="key", how="left", nulls_equal=True, maintain_order="left")
    )
    return joined["share"].to_numpy()


def _share(text: str) -> float:
    word = hashlib.blake2b(text.encode(), digest_size=_BYTES).digest()
    # 53 bits, the precision of a double, so that 1 is never reached.
    return (int.from_bytes(word, "little") >> 11) / 2.0**53


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
