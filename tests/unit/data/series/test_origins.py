"""Which origins train, steer and are judged, and what an interval resamples."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.series.lookback import all_rows
from trainwright.data.series.origins import resampling_units, split_origins


def test_usual_parts_are_a_share_and_at_least_two_horizons() -> None:
    assert split_origins(1000, 12, 12, "auto", "auto").validated == 999 - 150
    short = split_origins(144, 12, 12, "auto", "auto")
    assert 143 - short.validated == short.validated - short.trained == 24


def test_a_forecast_lies_in_one_part() -> None:
    split = split_origins(100, 5, 7, 20, 20)
    values = np.ones((2, 100))
    rows = {part: split.rows(part, values, 7, 10_000) for part in ("train", "validation", "test")}
    assert rows["train"].at.max() == rows["validation"].origins.min() == 59
    assert rows["validation"].at.max() == rows["test"].origins.min() == 79
    assert rows["test"].at.max() == 99
    assert len(rows["test"]) == 2 * 16 * 5


def test_fewer_origins_keep_the_last_and_fall_on_all_places_of_a_season() -> None:
    split = split_origins(2000, 5, 24, 480, 480)
    whole = split.rows("test", np.ones((1, 2000)), 24, 10_000)
    some = split.rows("test", np.ones((1, 2000)), 24, 300)
    assert len(some) <= 300 < len(whole)
    assert some.origins.max() == whole.origins.max()
    assert len(np.unique(some.origins % 24)) == 24


def test_an_unknown_target_is_no_row() -> None:
    values = np.ones((1, 100))
    values[0, 90] = np.nan
    rows = split_origins(100, 5, 7, 20, 20).rows("test", values, 7, 10_000)
    assert 90 not in rows.at
    assert len(rows) == 16 * 5 - 5


@pytest.mark.parametrize(("steps", "test"), [(60, 20), (200, 3)])
def test_too_short_parts_are_refused(steps: int, test: int) -> None:
    with pytest.raises(DataMistake):
        split_origins(steps, 5, 12, 20 if steps > 60 else 30, test)


def test_near_origins_are_one_unit_and_few_blocks_leave_the_series() -> None:
    origins = np.arange(35)
    units, said = resampling_units(all_rows(np.zeros(35, np.int64), origins, 7), 7)
    assert len(np.unique(units)) == 5
    assert "5 blocks of 7 origins" in said
    both = all_rows(np.repeat(np.arange(6), 7), np.tile(np.arange(7), 6), 7)
    units, said = resampling_units(both, 7)
    assert np.array_equal(units, both.series)
    assert "6 series are resampled" in said
    units, said = resampling_units(all_rows(np.zeros(7, np.int64), np.arange(7), 7), 7)
    assert len(np.unique(units)) == 1
    assert "data.test_steps: 41 gives enough" in said
