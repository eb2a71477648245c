"""Content hash of a frame, independent of library and version."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

_ROWS = 65_536
_AS_TEXT = (pl.Categorical, pl.Enum, pl.Decimal, pl.Int128, pl.UInt128)


def hash_frame(frame: pl.DataFrame) -> str:
    """SHA-256 over the names, types and values of the columns, in their order, as lower-case hex.
    No column may be of Python objects.

    How the rows lie in memory makes no difference.
    """
    found = hashlib.sha256(f"{frame.height}".encode())
    for name, dtype in frame.schema.items():
        found.update(f"\0{name}\0{dtype}\0".encode())
        for start in range(0, frame.height, _ROWS):
            _add(found, frame[name].slice(start, _ROWS))
    return found.hexdigest()


def _add(found: hashlib._Hash, values: pl.Series) -> None:
    """Which values are missing, and then the others: of nested ones the lengths and the leaves."""
    missing = values.is_null().to_numpy()
    found.update(np.packbits(missing).tobytes())
    match values.dtype:
        case pl.Null():
            return
        case pl.Array():
            _add(found, values.arr.to_list())
            return
        case pl.List():
            lengths = values.list.len().fill_null(0)
            found.update(np.ascontiguousarray(lengths.to_numpy(), dtype="<i8").tobytes())
            _add(found, values.filter(lengths > 0).explode())
            return
        case pl.Struct(fields=fields):
            for field in fields:
                _add(found, values.struct.field(field.name))
            return
    if values.dtype in _AS_TEXT:
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
