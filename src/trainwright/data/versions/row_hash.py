"""Stable row hashes for comparing data versions."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.counter_rng import GOLDEN, mix
from trainwright.data.base.permutation import Words

_MISSING = np.uint64(0x6D697373696E6721)


def hash_rows(frame: pl.DataFrame) -> Words:
    """A 64-bit hash of the cells of each row [N]. The order of the columns makes no difference,
    their names do.

    Cells are mixed by the SplitMix64 finaliser (Steele, Lea and Flood 2014, OOPSLA, section 5); the
    row hash of polars may change between versions.
    """
    total = np.zeros(frame.height, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for series in frame.get_columns():
            total += _mix(_cells(series) ^ _word(series.name))
        return _mix(total)


def _cells(series: pl.Series) -> Words:
    """A 64-bit word for each cell; equal numbers have equal words, whatever their type."""
    missing = series.is_null().to_numpy()
    if series.dtype.is_numeric():
        numbers = series.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
        words = numbers.view(np.uint64)
    elif series.dtype == pl.Datetime("us"):
        words = series.cast(pl.Int64).fill_null(0).to_numpy().view(np.uint64)
    else:
        labels = to_labels(series).fill_null("")
        different = labels.unique()
        table = pl.DataFrame({"label": different, "word": [int(_word(one)) for one in different]})
        found = (
            labels.alias("label")
            .to_frame()
            .join(
                table.with_columns(pl.col("word").cast(pl.UInt64)),
                on="label",
                how="left",
                maintain_order="left",
            )
        )
        words = found["word"].to_numpy()
    with np.errstate(over="ignore"):
        mixed = _mix(words)
    return np.where(missing, _MISSING, mixed)


def _mix(words: Words) -> Words:
    """One step of SplitMix64 from the state `words`."""
    return mix(words + GOLDEN)


def _word(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))
