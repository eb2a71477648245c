"""Tables with a leak and honest tables that look as if they had one.

Each maker draws a table for training and a fresh one as the model would meet it in use: other
persons, later days, rows that are no copies, a column that is not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

TARGET = "y"


@dataclass(frozen=True)
class Made:
    """Rows to train on, and rows like those met in use. `hidden` are columns that are not known
    then; `more` are further keys of the contract's `data`."""

    rows: pl.DataFrame
    fresh: pl.DataFrame
    split: Mapping[str, Any] = field(default_factory=lambda: {"kind": "random"})
    hidden: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


Maker = Callable[[np.random.Generator], Made]


def _signal(random: np.random.Generator, rows: int, noise: float) -> dict[str, np.ndarray]:
    """Four features, of which three matter, and a target."""
    a, b, c, d = random.normal(size=(4, rows))
    y = a + 0.7 * b * b + np.where(c > 0, 0.8, -0.8) + random.normal(0, noise, rows)
    return {"a": a, "b": b, "c": c, "d": d, TARGET: y}


def as_classes(frame: pl.DataFrame, middle: float) -> pl.DataFrame:
    dear = pl.when(pl.col(TARGET) > middle).then(pl.lit("yes")).otherwise(pl.lit("no"))
    return frame.with_columns(dear.alias(TARGET))


def _persons(
    random: np.random.Generator,
    name: str,
    strength: float,
    *,
    persons: tuple[int, int] = (40, 120),
    classes: bool = False,
) -> Made:
    """Persons with many rows each, told apart by what was measured of them."""

    def draw(first: int, count: int) -> pl.DataFrame:
        rows = int(count * random.integers(12, 30))
        person = random.integers(0, count, rows)
        marks = random.normal(size=(2, count))[:, person] + random.normal(0, 0.02, (2, rows))
        made = _signal(random, rows, 0.7)
        made[TARGET] = made[TARGET] + strength * random.normal(size=count)[person]
        columns = {**made, "height": marks[0], "voice": marks[1]}
        return pl.DataFrame({name: [f"p{first + one}" for one in person], **columns})

    rows, fresh = draw(0, int(random.integers(*persons))), draw(1000, 100)
    if classes:
        middle = float(rows[TARGET].median())  # type: ignore[arg-type]
        rows, fresh = as_classes(rows, middle), as_classes(fresh, middle)
    return Made(rows, fresh)


def persons(random: np.random.Generator) -> Made:
    return _persons(random, "subject", random.uniform(1.0, 2.5))


def persons_of_classes(random: np.random.Generator) -> Made:
    return _persons(random, "patient_id", random.uniform(1.5, 3.0), classes=True)


def persons_without_a_name(random: np.random.Generator) -> Made:
    """A column that only its values make a group: looked at from 100 values on."""
    return _persons(random, "code", random.uniform(1.0, 2.5), persons=(130, 250))


def _wandering(random: np.random.Generator, days: int) -> np.ndarray:
    """An autoregressive series that forgets half of a deviation in two weeks."""
    level = np.zeros(days)
    for day in range(1, days):
        level[day] = 0.95 * level[day - 1] + random.normal(0, 0.7)
    return level


def days(random: np.random.Generator) -> Made:
    """Hours of days whose level wanders around a mean, with weather that goes with the day."""
    count, later = int(random.integers(150, 400)), 100
    level, *weather = (_wandering(random, count + later) for _ in range(3))
    day = np.repeat(np.arange(count + later), 8)
    made = _signal(random, len(day), 0.7)
    made[TARGET] = made[TARGET] + level[day]
    frame = pl.DataFrame(
        {
            "date": [datetime(2020, 1, 1) + timedelta(days=int(one)) for one in day],
            **made,
            "warmth": weather[0][day] + random.normal(0, 0.02, len(day)),
            "wind": weather[1][day] + random.normal(0, 0.02, len(day)),
        }
    )
    old = day < count
    train = frame.filter(pl.Series(old)).sample(fraction=1.0, shuffle=True, seed=1)
    return Made(train, frame.filter(pl.Series(~old)))


def copies(random: np.random.Generator) -> Made:
    """Rows that stand in the file twice or more."""
    frame = pl.DataFrame(_signal(random, 2400, 1.5))
    return _copied(random, frame)


def copies_with_rounding(random: np.random.Generator) -> Made:
    """Copies whose numbers were written with fewer digits."""
    made = _copied(random, pl.DataFrame(_signal(random, 2400, 1.5)))
    noise = [pl.col(name) + pl.Series(random.normal(0, 2e-4, made.rows.height)) for name in "abcd"]
    return Made(made.rows.with_columns(noise), made.fresh)


def _copied(random: np.random.Generator, frame: pl.DataFrame) -> Made:
    rows, fresh = frame[:1400], frame[1400:]
    share = random.uniform(0.3, 0.8)
    again = [rows.sample(fraction=share, seed=seed) for seed in (1, 2, 3)]
    return Made(pl.concat([rows, *again]).sample(fraction=1.0, shuffle=True, seed=4), fresh)


def a_later_column(random: np.random.Generator) -> Made:
    """A column that was written after the target was known."""
    frame = pl.DataFrame(_signal(random, 3000, 1.0))
    y = frame[TARGET]
    forms = (2.5 * y - 3, (y / 4).exp(), (y + 30) ** 2, y + random.normal(0, 0.02, len(y)))
    known = forms[int(random.integers(len(forms)))].alias("billed")
    return Made(frame[:1500].with_columns(known[:1500]), frame[1500:], hidden=("billed",))


def a_later_column_of_classes(random: np.random.Generator) -> Made:
    """The reason of leaving, which only those have who left."""
    frame = pl.DataFrame(_signal(random, 3000, 1.0))
    middle = float(frame[TARGET].median())  # type: ignore[arg-type]
    frame = as_classes(frame, middle)
    reasons = np.where(frame[TARGET] == "yes", random.choice(["price", "moved"], 3000), "none")
    known = pl.Series("reason", reasons)
    return Made(frame[:1500].with_columns(known[:1500]), frame[1500:], hidden=("reason",))


def a_category(random: np.random.Generator) -> Made:
    """An informative category of many values, rows drawn independently."""
    return _category(random, f"{random.choice(['kind', 'code', 'customer', 'device_id'])}")


def a_category_of_classes(random: np.random.Generator) -> Made:
    return _category(random, "merchant", classes=True)


def _category(random: np.random.Generator, name: str, *, classes: bool = False) -> Made:
    values = int(random.choice([20, 100, 300, 1000]))
    rows = 10_000 if values > 300 else 4000
    made = _signal(random, 2 * rows, 1.0)
    value = random.integers(0, values, 2 * rows)
    made[TARGET] = made[TARGET] + random.uniform(0.3, 1.5) * random.normal(size=values)[value]
    frame = pl.DataFrame({name: [f"v{one}" for one in value], **made})
    if classes:
        frame = as_classes(frame, float(frame[TARGET].median()))  # type: ignore[arg-type]
    return Made(frame[:rows], frame[rows:])


def whole_numbers(random: np.random.Generator) -> Made:
    """Continuous columns that are written as whole numbers, and so repeat."""
    made = _signal(random, 6000, 1.0)
    age = random.integers(18, 90, 6000)
    people = np.round(random.lognormal(5, 1, 6000))
    made[TARGET] = made[TARGET] + np.abs(age - 50) / 10 + np.log(people)
    frame = pl.DataFrame({**made, "age": age, "people": people, "rooms": np.round(people * 3.1)})
    return Made(frame[:3000], frame[3000:])


def coarse(random: np.random.Generator) -> Made:
    """Rows of so few values that many are equal by chance."""
    rows = 6000
    answers = random.integers(0, int(random.integers(2, 5)), (6, rows))
    score = answers.sum(axis=0) + random.normal(0, random.uniform(0.3, 2.0), rows)
    frame = pl.DataFrame({f"q{at}": one for at, one in enumerate(answers)} | {TARGET: score})
    frame = as_classes(frame, float(np.median(score)))
    return Made(frame[:3000], frame[3000:])


def overlapping(random: np.random.Generator) -> Made:
    """Classes that overlap: labels drawn from probabilities."""
    made = _signal(random, 6000, 4.0)
    frame = as_classes(pl.DataFrame(made), float(np.median(made[TARGET])))
    return Made(frame[:3000], frame[3000:])


def two_clocks(random: np.random.Generator) -> Made:
    """A local date beside UTC, under a split by time."""
    made = _signal(random, 4000, 1.0)
    times = [
        datetime(2021, 1, 1) + timedelta(minutes=15 * int(one))
        for one in np.sort(random.integers(0, 20_000, 4000))
    ]
    local = [one + timedelta(hours=2 if 3 < one.month < 11 else 1) for one in times]
    frame = pl.DataFrame({"utc": times, "local": local, **made})
    return Made(frame[:3000], frame[3000:], split={"kind": "time", "column": "utc"})


def sorted_by_target(random: np.random.Generator) -> Made:
    """A file sorted by its target, but for rounding."""
    frame = pl.DataFrame(_signal(random, 6000, 0.7))
    rows = frame[:3000].sort(pl.col(TARGET).round(0), maintain_order=True)
    return Made(rows, frame[3000:])


def a_good_sensor(random: np.random.Generator) -> Made:
    """An honest feature that follows the target closely."""
    frame = pl.DataFrame(_signal(random, 6000, 1.0))
    error = random.uniform(0.35, 0.8)
    frame = frame.with_columns(sensor=pl.col(TARGET) + pl.Series(random.normal(0, error, 6000)))
    return Made(frame[:3000], frame[3000:])


def dates_that_say_nothing(random: np.random.Generator) -> Made:
    """Independent rows, each with a date."""
    frame = pl.DataFrame(_signal(random, 6000, 1.0))
    day = [datetime(2020, 1, 1) + timedelta(days=int(one)) for one in random.integers(0, 700, 6000)]
    frame = frame.with_columns(pl.Series("date", day))
    return Made(frame[:3000], frame[3000:])


LEAKING: Mapping[str, Maker] = MappingProxyType(
    {
        "persons": persons,
        "persons, classes": persons_of_classes,
        "persons without a name": persons_without_a_name,
        "days that resemble each other": days,
        "copies of rows": copies,
        "copies with rounding": copies_with_rounding,
        "a column written later": a_later_column,
        "a column written later, classes": a_later_column_of_classes,
    }
)

HONEST: Mapping[str, Maker] = MappingProxyType(
    {
        "an informative category of many values": a_category,
        "the same, classes": a_category_of_classes,
        "continuous columns in whole numbers": whole_numbers,
        "honest repeats of coarse values": coarse,
        "overlapping classes": overlapping,
        "a local date beside UTC": two_clocks,
        "a file sorted by its target": sorted_by_target,
        "a feature that follows the target closely": a_good_sensor,
        "dates without meaning": dates_that_say_nothing,
    }
)
