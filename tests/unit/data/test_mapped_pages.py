"""The pages of a mapped file leave memory with the column that they were looked at for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.formats.arrow_files import open_arrow

STATUS = Path("/proc/self/status")


def mapped_megabytes() -> float:
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("RssFile"))


@pytest.mark.skipif(not STATUS.exists(), reason="this needs Linux")
def test_a_column_that_is_let_go_leaves_no_pages(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    values = np.arange(4_000_000.0)
    pl.DataFrame({"a": values, "b": -values}).write_ipc(tmp_path / "rows.arrow")
    frame = open_arrow(tmp_path / "rows.arrow")
    before = mapped_megabytes()
    for name in ("a", "b"):
        cells = Cells(frame[name])
        assert cells.distinct == len(values)
        assert mapped_megabytes() > before + 25
        cells.let_go()
        assert mapped_megabytes() < before + 5
    assert frame["a"].to_numpy().tobytes() == values.tobytes()
