"""Columns that tell a forecast what its origin does not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.series import SeriesData
from trainwright.data.audit.series_leaks import audit_series
from trainwright.data.series.read_series import read_series

DAYS, HORIZON = 300, 7
KNOWN, OTHER = ["x"], []


def leaks(folder: Path, columns: dict[str, np.ndarray], known: list[str], shops: int = 1) -> list:
    """What is found in the visitors of shops beside these columns of the first."""
    draw = np.random.default_rng(1)
    frames = []
    for shop in range(shops):
        values = visitors() if shop == 0 else visitors(shop)
        frame = {"day": range(DAYS), "shop": [f"s{shop}"] * DAYS, "visitors": values}
        noise = {name: draw.normal(size=DAYS) for name in columns}
        frames.append(pl.DataFrame(frame | (columns if shop == 0 else noise)))
    pl.concat(frames).write_csv(folder / "rows.csv")
    names = {"path": "rows.csv", "target": "visitors", "time": "day", "series": "shop"}
    section = SeriesData(kind="series", horizon=HORIZON, known=tuple(known), **names)
    found = audit_series(read_series(section, folder), section.known)
    return [one for one in found if one.verdict == "leak"]


def visitors(seed: int = 0) -> np.ndarray:
    """A week on a random walk."""
    draw, day = np.random.default_rng(seed), np.arange(DAYS)
    week = 10 * np.sin(2 * np.pi * day / 7)
    return 100 + 0.1 * day + week + np.cumsum(draw.normal(size=DAYS)) + draw.normal(size=DAYS)


def noise() -> np.ndarray:
    return np.random.default_rng(9).normal(size=DAYS)


@pytest.mark.parametrize(
    ("column", "known", "said"),
    [
        pytest.param(visitors(), KNOWN, "'x'", id="known: the target"),
        pytest.param(2 * visitors() + noise() / 4, KNOWN, "'x'", id="known: with noise"),
        pytest.param(np.round(visitors()) % 97, KNOWN, "", id="known: its last digits"),
        pytest.param(np.roll(visitors(), 3), KNOWN, "3 steps earlier", id="known: within"),
        pytest.param(np.roll(visitors(), -2), KNOWN, "2 steps later", id="known: later"),
        pytest.param(np.roll(visitors(), HORIZON), KNOWN, "", id="known: a horizon ago"),
        pytest.param(noise(), KNOWN, "", id="known: a price"),
        pytest.param(visitors() + 4 * noise(), KNOWN, "", id="known: a plan"),
        pytest.param(visitors(), OTHER, "", id="at the origin: the target"),
        pytest.param(np.roll(visitors(), 2), OTHER, "", id="at the origin: its past"),
        pytest.param(np.roll(visitors(), -1), OTHER, "1 step later", id="at the origin: next"),
        pytest.param(
            np.roll(visitors(), -7) * 3 + noise() / 9, OTHER, "7 steps later", id="next week"
        ),
    ],
)
def test_a_column_of_what_comes_after_the_origin_is_a_leak(
    tmp_path: Path, column: np.ndarray, known: list[str], said: str
) -> None:
    found = leaks(tmp_path, {"x": column}, known)
    assert bool(found) == bool(said)
    assert all(said in one.message and one.columns == ("x",) for one in found)


def test_every_series_has_a_say(tmp_path: Path) -> None:
    """A column of one shop of three gives away that shop alone."""
    assert leaks(tmp_path, {"x": visitors()}, KNOWN)
    assert not leaks(tmp_path, {"x": visitors()}, KNOWN, shops=3)


def test_a_season_that_is_the_same_each_year_is_no_leak(tmp_path: Path) -> None:
    """Its next value is that of the last season, which is known."""
    day = np.arange(DAYS)
    week = np.sin(2 * np.pi * day / 7) + np.cos(6 * np.pi * day / 7)
    frame = pl.DataFrame({"day": day, "visitors": week, "x": week})
    frame.write_csv(tmp_path / "rows.csv")
    section = SeriesData(
        kind="series", path="rows.csv", target="visitors", time="day", horizon=HORIZON
    )
    assert audit_series(read_series(section, tmp_path), ()) == ()
