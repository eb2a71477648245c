"""Tables of very many columns: what is done for a column does not look through all names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from audited_tables import STRATIFIED, audited
from trainwright.data.quality.examined_data import examine
from trainwright.data.quality.run_checks import find_faults


def wide(columns: int) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    numbers = {f"n{number}": draw.normal(size=60).round(3) for number in range(columns)}
    return pl.DataFrame({**numbers, "y": draw.choice(["yes", "no"], 60)})


def looks_at_names(columns: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a frame is asked for the names of all its columns."""
    read, asked = pl.DataFrame.columns.fget, []
    assert read is not None

    def counted(frame: pl.DataFrame) -> list[str]:
        asked.append(1)
        return list(read(frame))

    frame, at = wide(columns), folder / "rows.csv"
    frame.write_csv(at)
    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "columns", property(counted))
        audited(at, "y", STRATIFIED)
        find_faults(examine(frame, "y"), {}, "quick")
    return len(asked)


@pytest.mark.extended
def test_names_are_not_looked_through_for_each_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (looks_at_names(count, tmp_path, monkeypatch) for count in (10, 60))
    assert many < few + 50


def test_equal_columns_are_paired_however_many_there_are() -> None:
    frame = wide(8).with_columns(again=pl.col("n3") * 2, third=pl.col("n5") - 1)
    found = find_faults(examine(frame, "y"), {}, "quick")
    pairs = [one.columns for one in found if one.kind == "redundant_columns"]
    assert pairs == [("n3", "again"), ("n5", "third")]
