"""Times far from all others are refused before memory is taken for what lies between."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.data.series import SeriesData
from trainwright.core.errors import DataMistake
from trainwright.data.series.read_series import read_series


def test_a_time_far_from_all_others_is_refused(tmp_path: Path) -> None:
    """A panel has a place for each step."""
    days = [*range(300), 90_000]
    pl.DataFrame({"day": days, "y": [at % 7 for at in range(301)]}).write_csv(tmp_path / "rows.csv")
    section = SeriesData(kind="series", path="rows.csv", target="y", time="day", horizon=7)
    with pytest.raises(DataMistake, match="most time steps have no row") as caught:
        read_series(section, tmp_path)
    (problem,) = caught.value.problems
    assert problem.found.startswith("301 rows in 90,001 steps")
