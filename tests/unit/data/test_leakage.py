"""Leaks: what gives the target away is found, what merely predicts it is not."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl

from trainwright.data.columns.column_kinds import ColumnType
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
    return find_leaks(frame, kinds, target)


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


def test_few_rows_show_nothing() -> None:
    frame = pl.DataFrame({"a": np.arange(20.0)})
    column = ColumnType("a", "numeric", "", 0, 20, "")
    assert find_leaks(frame, [column], frame["a"].alias("y")) == ()


def test_suspicions_are_close_and_no_leaks() -> None:
    close = NUMBERS + 0.5 * NOISE[:, 2]
    frame = pl.DataFrame({"close": -close, "far": NOISE[:, 3]})
    columns = [ColumnType(name, "numeric", "", 0, ROWS, "") for name in frame.columns]
    (suspicion,) = find_suspicions(frame, columns, NUMBERS)
    assert suspicion.columns == ("close",)
    assert -0.999 < suspicion.number < -0.9
    assert find_leaks(frame, columns, NUMBERS) == ()
    assert find_suspicions(frame, columns, LABELS) == ()


def test_one_row_far_away_makes_no_product() -> None:
    random = np.random.default_rng(0)
    numbers = random.normal(10, 2, (500, 3))
    numbers[0] = 300, 300, 90_000
    assert leaks(pl.Series("y", numbers[:, 2]), a=numbers[:, 0], b=numbers[:, 1]) == ()


def test_two_columns_of_many_classes_take_no_column_each() -> None:
    """One number for each of 20,000 rows and 200 classes would be 32 MB, and be held many times."""
    random = np.random.default_rng(0)
    one, other = random.integers(0, 20, (2, 20_000))
    frame = pl.DataFrame({"one": one, "other": other})
    target = pl.Series("y", [f"c{code}" for code in (one * 20 + other) % 200])
    columns = [ColumnType(name, "numeric", "", 0, 20, "") for name in frame.columns]
    tracemalloc.start()
    (suspicion,) = find_suspicions(frame, columns, target)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert suspicion.columns == ("one", "other")
    assert peak < 10e6
