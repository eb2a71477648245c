"""Memory-mapped Arrow files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import polars as pl

from trainwright.data.base.storage.mapped_pages import map_to_read

MAPPED_FROM_BYTES = 16 * 2**20
"""A smaller file is read: that takes less time than loading the library that maps."""


def open_arrow(file: Path, mapped_from: int = MAPPED_FROM_BYTES) -> pl.DataFrame:
    """Rows of an uncompressed Arrow file that is not being written to.

    A large one is mapped where pyarrow is installed: only what is looked at is read, it leaves
    memory with `release_pages`, and processes that look at the same file share it.
    """
    if file.stat().st_size < mapped_from or find_spec("pyarrow") is None:
        return pl.read_ipc(file)
    import pyarrow

    table = pyarrow.ipc.open_file(pyarrow.py_buffer(map_to_read(file))).read_all()
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame
