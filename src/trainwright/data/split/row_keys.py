"""Random keys of rows, by position or by key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.storage.row_storage import bounds
from trainwright.data.base.table import Floats

_BYTES = 8
_BETWEEN, _MISSING = "\x1f", "\x1e"


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
