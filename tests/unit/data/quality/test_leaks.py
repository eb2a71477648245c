"""Columns that give the target away in other ways than as a copy, and honest ones beside them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from trainwright.data.quality.columns.useless_columns import leaks
from trainwright.data.quality.examined_data import examine

ROWS = 900
Random = np.random.Generator
Made = Callable[[np.ndarray, Random], object]


def honest(random: Random) -> dict[str, object]:
    return {
        "age": random.uniform(18, 80, ROWS),
        "height": random.normal(170, 9, ROWS),
        "city": random.choice(["Bern", "Oslo", "Rome"], ROWS),
    }


def found_with(target: np.ndarray, **columns: object) -> list[tuple[str, tuple[str, ...]]]:
    frame = pl.DataFrame({**honest(np.random.default_rng(1)), **columns, "y": target})
    return [(one.kind, one.columns) for one in leaks(examine(frame, "y"))]


def answers() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    return np.where(random.random(ROWS) < 0.4, "yes", "no"), random.normal(0, 1, ROWS)


CLASSES: dict[str, Made] = {
    "mistyped now and then": lambda y, r: np.where(r.random(ROWS) < 0.01, "no", y),
    "small where it is yes": lambda y, r: np.where(
        y == "yes", r.normal(0, 0.3, ROWS), r.choice([-5, 5], ROWS) + r.normal(0, 0.3, ROWS)
    ),
    "a date after it": lambda y, r: [
        f"{2021 if one == 'yes' else 2019}-0{month}-01"
        for one, month in zip(y, r.integers(1, 9, ROWS), strict=True)
    ],
    "a number that is missing": lambda y, r: [
        None if one == "yes" else float(number)
        for one, number in zip(y, r.normal(size=ROWS), strict=True)
    ],
    "a date that is missing": lambda y, r: [
        None if one == "yes" else f"2021-0{month}-01"
        for one, month in zip(y, r.integers(1, 9, ROWS), strict=True)
    ],
}  # fmt: skip


@pytest.mark.parametrize("made", CLASSES.values(), ids=CLASSES)
def test_forms_of_a_class(made: Made) -> None:
    said, _ = answers()
    assert found_with(said) == []
    assert found_with(said, x=made(said, np.random.default_rng(3))) == [("leak", ("x",))]


NUMBERS: dict[str, Made] = {
    "its distance": lambda y, _: np.abs(y - 0.5),
    "a band of it": lambda y, _: [f"band {int(one)}" for one in np.floor(3 * y)],
}


@pytest.mark.parametrize("made", NUMBERS.values(), ids=NUMBERS)
def test_columns_that_were_made_of_a_number(made: Made) -> None:
    _, numbers = answers()
    assert found_with(numbers) == []
    assert found_with(numbers, x=made(numbers, np.random.default_rng(3))) == [("leak", ("x",))]


@pytest.mark.parametrize("signs", ["positive", "both"])
@pytest.mark.parametrize("how", ["times", "over"])
def test_a_target_that_is_two_columns_together(how: str, signs: str) -> None:
    random = np.random.default_rng(4)
    amount = random.uniform(1, 50, ROWS) - (20 if signs == "both" else 0)
    price = random.uniform(1, 9, ROWS)
    target = amount * price if how == "times" else amount / price
    found = found_with(target, amount=amount, price=price)
    assert ("leak", ("amount", "price")) in [(kind, tuple(sorted(c))) for kind, c in found]
    assert found_with(target + random.normal(0, target.std() / 5, ROWS), price=price) == []


def test_two_columns_that_tell_the_class_only_together() -> None:
    said, _ = answers()
    one = np.random.default_rng(5).random(ROWS) < 0.5
    other = np.where(one ^ (said == "yes"), "p", "q")
    assert found_with(said, one=one, other=other) == [("suspicious_feature", ("one", "other"))]
    assert found_with(said, other=other) == []


def test_a_telling_measurement_beside_others_like_it_is_no_leak() -> None:
    """Where others come near, it is the rows that are easy."""
    random = np.random.default_rng(6)
    said, _ = answers()
    petals = {name: (said == "yes") + random.normal(0, 0.32, ROWS) for name in ("long", "wide")}
    assert [kind for kind, _ in found_with(said, **petals)] in ([], ["suspicious_feature"] * 2)


def test_one_good_sensor_among_poor_ones_is_worth_a_look() -> None:
    said, _ = answers()
    sensor = 3.2 * (said == "yes") + np.random.default_rng(7).normal(size=ROWS)
    assert found_with(said, sensor=sensor) == [("suspicious_feature", ("sensor",))]


def test_a_leak_of_few_rows_that_have_a_target() -> None:
    """Only these are looked at, so that only these are thinned."""
    random = np.random.default_rng(8)
    target = np.full(200_000, np.nan)
    known = random.choice(len(target), 190, replace=False)
    target[known] = random.normal(size=190)
    frame = pl.DataFrame({"x": np.nan_to_num(target), "y": target}, nan_to_null=True)
    (found,) = leaks(examine(frame, "y"))
    assert (found.kind, found.columns) == ("leak", ("x",))


def test_a_leak_is_said_once() -> None:
    _, numbers = answers()
    assert found_with(numbers, x=2 * numbers + 1) == [("leak", ("x",))]
