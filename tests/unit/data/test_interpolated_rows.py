"""Rows that SMOTE made before the split are found on the lines between training rows, and no row of
an honest table is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.spatial import cKDTree

from audited_tables import STRATIFIED, audited, to_audit
from command import command, inside
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.interpolated_rows import interpolated_rows_of
from trainwright.data.audit.run_audit import audit_sampled
from trainwright.data.base.inputs import Floats
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.subsample import thinned

COLUMNS = 6


def smote(rows: Floats, count: int, seed: int) -> Floats:
    """`count` rows, each on the way from a row to one of its five nearest."""
    draws = np.random.default_rng(seed)
    first = draws.integers(0, len(rows), count)
    near = cKDTree(rows).query(rows[first], k=6)[1]
    second = near[np.arange(count), draws.integers(1, 6, count)]
    return np.asarray(rows[first] + draws.random((count, 1)) * (rows[second] - rows[first]))


def measured(rows: int, seed: int = 0) -> Floats:
    draws = np.random.default_rng(seed)
    return draws.normal(size=(rows, COLUMNS)) @ draws.normal(size=(COLUMNS, COLUMNS))


def table(rare: Floats, common: Floats, digits: int = 6) -> pl.DataFrame:
    numbers = np.vstack([rare, common]).round(digits)
    kind = ["rare"] * len(rare) + ["common"] * len(common)
    frame = pl.DataFrame({f"x{at}": numbers[:, at] for at in range(numbers.shape[1])})
    return frame.with_columns(kind=pl.Series(kind)).sample(fraction=1.0, shuffle=True, seed=3)


def balanced(rare: int, common: int) -> pl.DataFrame:
    """A rare class, brought to the size of the other by SMOTE."""
    rows = measured(rare)
    return table(np.vstack([rows, smote(rows, common - rare, 1)]), measured(common, 2) + 0.5)


def found(folder: Path, frame: pl.DataFrame) -> AuditResult:
    frame.write_csv(folder / "rows.csv")
    results = audited(folder / "rows.csv", "kind", STRATIFIED)
    (one,) = (one for one in results if one.test == "interpolated rows")
    return one


@pytest.mark.parametrize(("rare", "common"), [(60, 1200), (300, 1500), (700, 1000)])
def test_rows_of_smote_are_found(tmp_path: Path, rare: int, common: int) -> None:
    one = found(tmp_path, balanced(rare, common))
    assert one.verdict == "leak"
    assert one.number > 0.05
    assert len(one.rows) == one.count


def test_a_sum_of_columns_is_no_dimension(tmp_path: Path) -> None:
    """Credits at two schools and both together: of those who went to one, two numbers vary."""
    draws = np.random.default_rng(0)
    first, second = (np.round(draws.integers(0, 140, 1500) / 30, 6) for _ in range(2))
    first[draws.random(1500) < 0.7] = 0.0
    test = np.where(draws.random(1500) < 0.3, 0.0, draws.normal(size=1500).round(2))
    frame = table(np.stack([first, second, test, first + second], axis=1), np.empty((0, 4)))
    frame = frame.with_columns(kind=pl.Series(draws.choice(["a", "b"], 1500)))
    assert found(tmp_path, frame).verdict == "clean"


def grid() -> Floats:
    """Fine fractional numbers of which rows stand between others at a half and at thirds."""
    axis = np.arange(110) / 100
    draws = np.random.default_rng(0)
    corner = np.stack(np.meshgrid(axis[:12], axis[:12], axis[:12]), axis=-1).reshape(-1, 3)
    return np.vstack([corner, draws.choice(axis, (600, 3))])


HONEST = {
    "clouds": lambda: measured(2000),
    "of a grid": grid,
    "whole numbers": lambda: np.floor(measured(2000) * 100),
    "functions of one": lambda: np.random.default_rng(0).normal(size=(2000, 1)) * [[1.0, 2.0, 3.0]],
    "functions of two": lambda: (
        np.random.default_rng(0).normal(size=(2000, 2))
        @ np.random.default_rng(1).normal(size=(2, 5))
    ),
    "a walk": lambda: np.random.default_rng(0).normal(size=(2000, 4)).cumsum(axis=0),
    "few rows": lambda: measured(150),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_rows_are_on_no_line(tmp_path: Path, name: str) -> None:
    rows = HONEST[name]()
    half = len(rows) // 2
    one = found(tmp_path, table(rows[:half], rows[half:], 9))
    assert one.verdict == "clean"
    assert one.count == 0


def test_missing_numbers_and_a_class_of_its_own_are_no_trouble(tmp_path: Path) -> None:
    frame = balanced(300, 1500).with_columns(
        x1=pl.when(pl.int_range(pl.len()) % 50 == 0).then(None).otherwise(pl.col("x1"))
    )
    assert found(tmp_path, frame).verdict == "leak"


def test_columns_with_one_value_and_few_complete_rows_are_no_trouble(tmp_path: Path) -> None:
    """A column with one value in the rows that lack none has no deviation to divide by."""
    frame = balanced(300, 1500).with_row_index("at")
    apart = frame.with_columns(
        x0=pl.when(pl.col("at") % 3 != 0).then(0.1).otherwise(pl.col("x0")),
        x1=pl.when(pl.col("at") % 3 == 0).then(None).otherwise(pl.col("x1")),
    ).drop("at")
    assert found(tmp_path, apart).verdict == "leak"
    gaps = [
        pl.when(pl.col("at") % COLUMNS == at).then(None).otherwise(pl.col(f"x{at}")).alias(f"x{at}")
        for at in range(COLUMNS)
    ]
    empty = found(tmp_path, frame.with_columns(gaps).drop("at"))
    assert (empty.verdict, empty.message[:11]) == ("clean", "not checked")


def test_rows_in_a_plane_are_not_called_clean(tmp_path: Path) -> None:
    rows = HONEST["functions of two"]()
    half = len(rows) // 2
    assert found(tmp_path, table(rows[:half], rows[half:], 9)).message.startswith("not checked")


def test_a_rare_class_of_a_large_table_is_compared_whole(tmp_path: Path) -> None:
    """A sample of all rows would hold few pairs that others were made of."""
    rows = measured(1500)
    rare = table(np.vstack([rows, smote(rows, 3000, 1)]), rows[:0])
    train = pl.concat([rare[300:], table(rows[:0], measured(400_000, 2) + 0.5)])
    test = rare[:300]
    types = [ColumnType(f"x{at}", "numeric", "", 0, 1000, "0.1") for at in range(COLUMNS)]
    mask = interpolated_rows_of(train, test, types, "kind")
    assert mask is not None
    assert mask.mean() > 0.1


def test_of_a_large_table_all_rows_are_compared(tmp_path: Path) -> None:
    balanced(300, 1500).write_csv(tmp_path / "rows.csv")
    raw, prepared, section = to_audit(tmp_path / "rows.csv", "kind", STRATIFIED)
    _, some = thinned(raw, prepared, 100)
    results = audit_sampled(prepared, some, section)
    (one,) = (each for each in results if each.test == "interpolated rows")
    assert one.verdict == "leak"


def test_check_names_it_as_an_error(tmp_path: Path) -> None:
    balanced(300, 1500).write_csv(tmp_path / "rows.csv")
    (tmp_path / "small.yaml").write_text(
        "task: classification\ndata:\n  path: rows.csv\n  target: kind\n  positive: rare\n"
        "  split: {kind: stratified}\nmodel: {kind: linear}\n"
    )
    with inside(tmp_path):
        ran = command("data", "check", "small.yaml", "--quick", "--json")
    assert ran.code == 4
    (one,) = (each for each in json.loads(ran.out)["findings"] if "on the line" in each["message"])
    assert (one["kind"], one["severity"]) == ("near_duplicates", "error")
    assert "after the split" in one["fix"]
