"""Rows of different units that are alike, where the split keeps each unit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from audited_tables import audited
from trainwright.core.files import Json
from trainwright.data.audit.audit_result import AuditResult

ROWS = 2000


def answers(copies: int) -> pl.DataFrame:
    """Households that answer in few numbers, years apart, and copies of some rows."""
    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "household": np.repeat(np.arange(200), 10),
            "year": np.tile(np.arange(2000, 2010), 200),
            **{f"q{at}": random.integers(0, 5, ROWS) for at in range(7)},
            "y": random.choice(["yes", "no"], ROWS),
        }
    ).sort("year", maintain_order=True)
    elsewhere = frame[:copies].with_columns(
        household=199 - pl.col("household"), year=pl.lit(2009, pl.Int64)
    )
    return pl.concat([frame, elsewhere])


def result_of(folder: Path, frame: pl.DataFrame, test: str, split: Json) -> AuditResult:
    """The result of a test where neither the unit nor its time is a feature."""
    frame.write_csv(folder / "rows.csv")
    units = {"household", "year"} & {*frame.columns} - {split.get("column")}
    found = audited(folder / "rows.csv", "y", split, exclude=tuple(units))
    return next(one for one in found if one.test == test)


@pytest.mark.parametrize(
    "split", [{"kind": "group", "column": "household"}, {"kind": "time", "column": "year"}]
)
def test_answers_of_two_units_that_are_alike(tmp_path: Path, split: Json) -> None:
    frame = answers(80)
    assert result_of(tmp_path, frame, "same rows", {"kind": "random"}).verdict == "suspicious"
    found = result_of(tmp_path, frame, "same rows", split)
    assert (found.verdict, found.count > 3) == ("clean", True)


def test_a_reading_that_stays_as_it_was_is_no_copy(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "year": np.repeat(np.arange(2000, 2010), 200),
            **{f"x{at}": np.tile(random.normal(size=200).round(4), 10) for at in range(4)},
            "y": random.normal(size=ROWS).round(3),
        }
    )
    frame = frame.with_columns(pl.col("x0") + pl.Series(random.normal(0, 1e-4, ROWS)))
    assert result_of(tmp_path, frame, "near rows", {"kind": "random"}).verdict == "leak"
    by_year = {"kind": "time", "column": "year"}
    assert result_of(tmp_path, frame, "near rows", by_year).verdict == "clean"
