"""Rows of other libraries as frames of polars."""

from __future__ import annotations

import polars as pl
import pytest

from trainwright.predictor.input_rows import frame_of


@pytest.mark.parametrize("zone", ["", "+02:00"])
def test_dates_of_pandas_count_in_utc(zone: str) -> None:
    pandas = pytest.importorskip("pandas")
    written = [f"2021-03-01T10:00{zone}", f"2021-03-02T12:30{zone}"]
    found = frame_of(pandas.DataFrame({"at": pandas.to_datetime(written)}))["at"]
    expected = pl.Series("at", written).str.to_datetime(time_zone="UTC" if zone else None)
    assert found.dtype.is_temporal()
    assert found.dt.replace_time_zone(None).to_list() == (
        expected.dt.replace_time_zone(None).to_list()
    )
