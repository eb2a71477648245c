"""A row of totals is found; sums that rows happen to hold are not taken for one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from clean_rows import only
from trainwright.data.quality.columns.outliers import totals_row
from trainwright.data.quality.examined_data import examine

ROWS = 120


def sales() -> pl.DataFrame:
    random = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "shop": random.choice(["Bonn", "Ulm"], ROWS),
            "size": random.normal(100, 20, ROWS).round(2),
            "sold": random.poisson(300, ROWS),
            "won": random.integers(0, 2, ROWS),
            "price": random.gamma(2, 50, ROWS).round(2),
        }
    )


def with_row(frame: pl.DataFrame, row: pl.DataFrame, at: int = ROWS) -> pl.DataFrame:
    return pl.concat([frame[:at], row, frame[at:]], how="diagonal_relaxed")


def test_the_sums_of_all_rows_above_are_totals() -> None:
    frame = sales()
    sums = frame.sum().with_columns(shop=pl.lit("Total"))
    finding = only(totals_row(examine(with_row(frame, sums), "price")))
    assert (finding.kind, finding.severity, finding.rows) == ("outliers", "warning", (ROWS,))
    assert finding.columns == ("size", "sold", "price")
    assert finding.message.startswith("row 120 holds the sums of the rows above it in 'size'")
    assert "take the row out of the file" in finding.fix


def test_totals_in_the_middle_and_of_columns_with_missing_values_are_found() -> None:
    frame = sales().with_columns(sold=pl.when(pl.col("won") == 1).then("sold"))
    sums = frame[:50].select("sold", "price").sum()
    assert only(totals_row(examine(with_row(frame, sums, 50)))).rows == (50,)


def test_means_at_the_end_are_totals() -> None:
    frame = sales()
    finding = only(totals_row(examine(with_row(frame, frame.mean()), "price")))
    assert (finding.rows, "the means of" in finding.message) == ((ROWS,), True)
    assert totals_row(examine(with_row(frame, frame[:50].mean(), 50), "price")) == []


@pytest.mark.parametrize("factor", [1.0, 1.0001, 0.5])
def test_only_the_sums_themselves_are_totals(factor: float) -> None:
    frame = sales()
    sums = frame.select(pl.col("size", "price").sum() * factor)
    found = totals_row(examine(with_row(frame, sums)))
    assert [one.rows for one in found] == ([(ROWS,)] if factor == 1 else [])
    assert totals_row(examine(with_row(frame, sums.select("size")))) == []


def test_honest_numbers_are_no_totals() -> None:
    frame = sales()
    assert totals_row(examine(frame, "price")) == []
    doubling = pl.DataFrame({name: [1.0, *2.0 ** np.arange(40)] for name in ("cells", "volume")})
    assert totals_row(examine(doubling)) == []
    signs = np.random.default_rng(1).choice([-1, 1], (2000, 3))
    assert totals_row(examine(pl.DataFrame(signs))) == []
    constant = pl.DataFrame({"a": [5.0] * 50, "b": [7.0] * 50})
    assert totals_row(examine(constant)) == []
    walks = np.cumsum(signs, axis=0)
    assert totals_row(examine(pl.DataFrame(walks))) == []
