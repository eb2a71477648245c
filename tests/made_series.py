"""Series made up by a program, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl


def made_series(days: int = 400, shops: tuple[str, ...] = ("north", "south")) -> pl.DataFrame:
    """Daily sales of shops with a week, a trend, holidays that are known and a temperature that is
    not."""
    draw = np.random.default_rng(3)
    day = np.arange(days)
    dates = pl.Series(day + 18_262).cast(pl.Int32).cast(pl.Date)  # from 2020-01-01 on
    frames = []
    for number, shop in enumerate(shops):
        holiday = (draw.random(days) < 0.1).astype(int)
        temperature = draw.normal(size=days).round(2)
        week = 10 * np.sin(2 * np.pi * day / 7)
        sales = (number + 1) * (100 + 0.2 * day + week + 30 * holiday) + draw.normal(size=days)
        columns = {"day": dates.cast(pl.String), "shop": [shop] * days, "holiday": holiday}
        frames.append(
            pl.DataFrame({**columns, "temperature": temperature, "sales": sales.round(2)})
        )
    return pl.concat(frames)


def made_items(days: int = 150) -> pl.DataFrame:
    """Daily sales of an item that never changes, of one that changes in the last days only, of one
    that is mostly 0, and of noise that ends in a trend: the last value is the better forecast."""
    draw, day = np.random.default_rng(1), np.arange(days)
    late = np.maximum(day - (days - 30), 0)
    sold = {
        "flat": np.full(days, 5.0),
        "late": 5.0 + late,
        "noisy": 20 + draw.normal(size=days) + 3 * late,
        "rare": np.where(day % 10 == 5, 3.0, 0.0),
    }
    dates = pl.Series(day + 19_723).cast(pl.Int32).cast(pl.Date).cast(pl.String)
    frames = [
        pl.DataFrame({"day": dates, "shop": [name] * days, "sales": values})
        for name, values in sold.items()
    ]
    return pl.concat(frames)


SECTION = {
    "kind": "series",
    "path": "sales.csv",
    "target": "sales",
    "time": "day",
    "series": "shop",
    "horizon": 7,
    "season": 7,
    "known": ["holiday"],
    "validation_steps": 42,
    "test_steps": 42,
}
"""The section of a contract for them."""


def write_series(folder: Path, frame: pl.DataFrame | None = None) -> Path:
    """Their file in a folder."""
    file = folder / "sales.csv"
    (made_series() if frame is None else frame).write_csv(file)
    return file
