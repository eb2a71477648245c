"""Leaks: what gives the target away is found, what merely predicts it is not."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl
import pytest

from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.statistics.dependence import told_share
from trainwright.data.statistics.leak_tests import Leak, find_leaks, find_suspicions

ROWS = 400
GENERATOR = np.random.default_rng(5)
NOISE = GENERATOR.normal(size=(ROWS, 4))
LABELS = pl.Series("y", np.where(GENERATOR.random(ROWS) < 0.1, "yes", "no"))
NUMBERS = pl.Series("y", NOISE[:, 0] + 2 * NOISE[:, 1])


def leaks(target: pl.Series, **columns: object) -> tuple[Leak, ...]:
    frame = pl.DataFrame(columns)
    kinds = tuple(
        ColumnType(
            series.name,
            "categorical" if series.dtype == pl.String else "numeric",
            "",
            series.null_count(),
            series.n_unique(),
            "",
        )
        for series in frame.get_columns()
    )
    return find_leaks(frame.with_columns(target.alias("target")), kinds, "target")


def test_a_category_with_one_class_per_value() -> None:
    assert leaks(LABELS, other=GENERATOR.choice(["a", "b"], ROWS)) == ()
    exact = LABELS.replace_strict({"yes": "A", "no": "B"})
    (leak,) = leaks(LABELS, other=GENERATOR.choice(["a", "b"], ROWS), copy=exact)
    assert leak.columns == ("copy",)
    assert "100.00%" in leak.message
    half = exact.set(pl.Series(np.arange(ROWS) % 2 > 0), "C")
    assert leaks(LABELS, half=half) == ()


def test_a_value_that_is_missing_for_one_class_only() -> None:
    values = pl.Series("a", np.arange(ROWS) % 7).set(LABELS == "yes", None)
    (leak,) = leaks(LABELS, a=values.clip(0, 0))
    assert leak.columns == ("a",)


def test_a_rare_class_does_not_make_every_column_a_leak() -> None:
    rare = pl.Series("y", ["yes"] * 1 + ["no"] * (ROWS - 1))
    assert leaks(rare, a=GENERATOR.choice(["a", "b"], ROWS)) == ()


def test_values_that_hardly_repeat_tell_nothing() -> None:
    assert leaks(LABELS, key=[f"k{i}" for i in range(ROWS)]) == ()


def test_a_number_that_separates_the_classes() -> None:
    score = (LABELS == "yes").cast(pl.Float64) * 10 + NOISE[:, 0]
    (leak,) = leaks(LABELS, score=score, noise=NOISE[:, 1])
    assert leak.columns == ("score",)
    assert "ROC AUC of 1.0000" in leak.message
    assert leaks(LABELS, score=(LABELS == "yes").cast(pl.Float64) + NOISE[:, 0]) == ()
    assert leaks(LABELS, score=-score)[0].columns == ("score",)


def test_a_number_that_is_the_target_in_other_units() -> None:
    (leak,) = leaks(NUMBERS, other=NUMBERS * 3 - 7, noise=NOISE[:, 2])
    assert leak.columns == ("other",)
    (leak,) = leaks(NUMBERS, other=NUMBERS.exp())
    assert "rank correlation" in leak.message


def test_an_exact_sum_names_its_members_only() -> None:
    (leak,) = leaks(NUMBERS, a=NOISE[:, 0], b=NOISE[:, 1] * 50, c=NOISE[:, 2], d=NOISE[:, 3])
    assert leak.columns == ("a", "b")
    assert "R2 of 1.000000" in leak.message
    noisy = NUMBERS + 0.1 * NOISE[:, 3]
    assert leaks(noisy, a=NOISE[:, 0], b=NOISE[:, 1], c=NOISE[:, 2]) == ()


def test_every_way_to_the_target_is_found() -> None:
    sizes = np.exp(NOISE)
    target = pl.Series(sizes[:, 0])
    found = leaks(
        target,
        part=NOISE[:, 1],
        rest=sizes[:, 0] - NOISE[:, 1],
        rate=sizes[:, 2],
        count=sizes[:, 0] / sizes[:, 2],
        often_missing=pl.Series([*NOISE[:20, 3], *[None] * (ROWS - 20)], dtype=pl.Float64),
    )
    assert [set(leak.columns) for leak in found] == [{"part", "rest"}, {"rate", "count"}]


def test_trends_without_a_clock_are_suspects_and_a_form_of_the_target_leaks() -> None:
    trend = np.cumsum(np.abs(NOISE[:, 0]) - 0.01) + 50
    frame = pl.DataFrame({"y": trend, "other": trend + NOISE[:, 1], "logarithm": np.log(trend)})
    columns = [ColumnType(name, "numeric", "", 0, ROWS, "") for name in ("other", "logarithm")]
    (leak,) = find_leaks(frame, columns, "y")
    assert leak.columns == ("logarithm",)
    (suspect,) = find_suspicions(frame, columns[:1], "y")
    assert "perhaps two trends" in suspect.message


def test_few_rows_show_nothing() -> None:
    frame = pl.DataFrame({"a": np.arange(20.0)})
    column = ColumnType("a", "numeric", "", 0, 20, "")
    assert find_leaks(frame.with_columns(y="a"), [column], "y") == ()


def test_suspicions_are_close_and_no_leaks() -> None:
    close = NUMBERS + 0.5 * NOISE[:, 2]
    frame = pl.DataFrame({"close": -close, "far": NOISE[:, 3], "y": NUMBERS, "kind": LABELS})
    columns = [ColumnType(name, "numeric", "", 0, ROWS, "") for name in ("close", "far")]
    (suspicion,) = find_suspicions(frame, columns, "y")
    assert suspicion.columns == ("close",)
    assert -0.999 < suspicion.number < -0.9
    assert find_leaks(frame, columns, "y") == ()
    assert find_suspicions(frame, columns, "kind") == ()


def test_one_row_far_away_makes_no_product() -> None:
    random = np.random.default_rng(0)
    numbers = random.normal(10, 2, (500, 3))
    numbers[0] = 300, 300, 90_000
    assert leaks(pl.Series("y", numbers[:, 2]), a=numbers[:, 0], b=numbers[:, 1]) == ()


def test_two_columns_of_many_classes_take_no_column_each() -> None:
    """One number for each of 20,000 rows and 200 classes would be 32 MB, and be held many times."""
    random = np.random.default_rng(0)
    one, other = random.integers(0, 20, (2, 20_000))
    target = [f"c{code}" for code in (one * 20 + other) % 200]
    frame = pl.DataFrame({"one": one, "other": other, "y": target})
    columns = [ColumnType(name, "numeric", "", 0, 20, "") for name in ("one", "other")]
    tracemalloc.start()
    (suspicion,) = find_suspicions(frame, columns, "y")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert suspicion.columns == ("one", "other")
    assert peak < 10e6


def sheet(kind: str) -> pl.DataFrame:
    """400 rows of independent columns and a target that one of them moves a little, with one row of
    totals at the end, or one every month too."""
    random = np.random.default_rng(8)
    frame = pl.DataFrame(
        {
            "x": random.normal(100, 20, ROWS).round(1),
            "z": random.normal(50, 10, ROWS).round(1),
            "count": random.poisson(3, ROWS).astype(float),
        }
    ).with_columns(y=(0.3 * pl.col("x") + random.normal(80, 20, ROWS)).round(1))
    if kind == "subtotals":
        months = [frame[at : at + 33] for at in range(0, ROWS, 33)]
        return pl.concat([part for one in months for part in (one, one.sum())] + [frame.sum()])
    return pl.concat([frame, frame.sum() if kind == "totals" else frame[:1] * 500])


@pytest.mark.parametrize("kind", ["totals", "subtotals", "a slip"])
def test_a_row_of_totals_makes_no_leak(kind: str) -> None:
    frame = sheet(kind)
    target = frame["y"]
    assert abs(float(np.corrcoef(frame["x"], target)[0, 1])) > 0.99
    columns = [ColumnType(name, "numeric", "", 0, ROWS, "") for name in ("x", "z", "count")]
    assert find_leaks(frame, columns, "y") == ()
    assert find_suspicions(frame, columns, "y") == ()
    assert all(told_share(frame[one.name], target) < 0.9 for one in columns)


@pytest.mark.parametrize("kind", ["totals", "subtotals", "a slip"])
def test_a_leak_beside_a_row_of_totals_is_found(kind: str) -> None:
    frame = sheet(kind)
    assert leaks(frame["y"], copy=frame["y"] * 1.19)[0].columns == ("copy",)
    noise = np.random.default_rng(3).normal(0, 0.1, frame.height)
    assert leaks(frame["y"], x=frame["x"], near=frame["y"] + noise)[0].columns == ("near",)
    both = leaks(frame["y"], x=frame["x"], rest=frame["y"] - frame["x"])
    assert [leak.columns for leak in both] == [("x", "rest")]


HEAVY = {
    "Cauchy": np.random.default_rng(1).standard_cauchy(ROWS),
    "lognormal": np.random.default_rng(2).lognormal(0, 3, ROWS),
    "mostly 0": np.where(np.arange(ROWS) % 50 == 0, np.random.default_rng(3).normal(size=ROWS), 0),
}


@pytest.mark.parametrize("tail", HEAVY)
def test_a_multiple_of_a_target_with_a_heavy_tail_is_a_leak(tail: str) -> None:
    target = pl.Series("y", HEAVY[tail])
    (leak,) = leaks(target, euro=target * 0.92, noise=NOISE[:, 2])
    assert leak.columns == ("euro",)


@pytest.mark.parametrize("rows", [50, 52, 60])
def test_a_copy_in_the_fewest_rows_is_a_leak(rows: int) -> None:
    target = NUMBERS[:rows]
    (leak,) = leaks(target, other=target * 3 - 7)
    assert "has a correlation of 1.00000" in leak.message
