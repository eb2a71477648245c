"""A hash of the values of a frame, whatever library and version holds them."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

_ROWS = 65_536


def hash_frame(frame: pl.DataFrame) -> str:
    """SHA-256 over the names, types and values of the columns, in their order, as lower-case hex.

    How the rows lie in memory makes no difference.
    """
    found = hashlib.sha256(f"{frame.height}".encode())
    for name, dtype in frame.schema.items():
        found.update(f"\0{name}\0{dtype}\0".encode())
        for start in range(0, frame.height, _ROWS):
            _add(found, frame[name].slice(start, _ROWS))
    return found.hexdigest()


def _add(found: hashlib._Hash, values: pl.Series) -> None:
    missing = values.is_null().to_numpy()
    found.update(np.packbits(missing).tobytes())
    if values.dtype.is_nested() or values.dtype == pl.Object:
        found.update(pl.DataFrame([values]).write_ndjson().encode())
        return
    if values.dtype in (pl.Categorical, pl.Enum, pl.Decimal):
        values = values.cast(pl.String)
    if values.dtype == pl.String:
        values = values.cast(pl.Binary)
    if values.dtype == pl.Binary:
        cells = [cell or b"" for cell in values.to_list()]
        found.update(np.array([len(cell) for cell in cells], dtype="<i8").tobytes())
        found.update(b"".join(cells))
        return
    numbers = values.to_physical().fill_null(0) if values.dtype != pl.Boolean else values
    found.update(np.ascontiguousarray(numbers.fill_null(False).to_numpy()).tobytes())
