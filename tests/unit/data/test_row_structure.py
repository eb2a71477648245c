"""What rows share: names are no evidence, what the rows show is."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from trainwright.data.statistics.clocks import time_parts
from trainwright.data.statistics.row_structure import (
    RowStructure,
    explained_changes,
    find_structures,
    names_rows,
)

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def the_same_draws_in_any_order_of_tests() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state


def first(**columns: object) -> RowStructure | None:
    """The most convincing structure of rows with a random target `y`."""
    frame = pl.DataFrame(columns, strict=False)
    frame = frame.with_columns(pl.lit(pl.Series(RANDOM.normal(size=frame.height))).alias("y"))
    frame = frame.with_columns(
        pl.col(name).cast(pl.Float64) for name in frame.columns if frame[name].dtype.is_integer()
    )
    return next(iter(find_structures(frame, "y")), None)


def split_of(**columns: object) -> tuple[str, str, tuple[str, ...]]:
    structure = first(**columns)
    assert structure is not None
    return structure.kind, structure.entity, structure.clock


ROWS = 300
MEASUREMENTS = {
    "years of schooling": {"school": RANDOM.binomial(16, 0.7, ROWS)},
    "years of schooling and the degree they give": {
        "school": (schooling := RANDOM.binomial(20, 0.6, ROWS)),
        "education": np.digitize(schooling, [8, 11, 13]),
    },
    "countries of which one has nearly all rows": {
        "native_country": RANDOM.choice(np.arange(30), ROWS, p=[0.9, *[0.1 / 29] * 29])
    },
    "a sampling weight": {"weight": RANDOM.integers(1, 60, ROWS) * 1000},
    "months in prison": {"case_months": RANDOM.poisson(9, ROWS)},
    "seconds of a call": {"duration": RANDOM.integers(1, 120, ROWS)},
    "members of a household": {"household": RANDOM.poisson(2, ROWS) + 1},
    "a truncated identifier": {"id": RANDOM.integers(0, 200, ROWS)},
    "counts along a file": {"girls": np.arange(ROWS) % 13, "boys": np.arange(ROWS) // 13},
    "survey rows sorted by state": {"state": np.sort(RANDOM.integers(1, 20, ROWS))},
    "years of cars": {"year": np.sort(RANDOM.integers(70, 83, ROWS))},
    "a date of birth": {"birth_year": np.arange(ROWS) // 10 + 1950},
    "an acid": {"acid": np.repeat(np.arange(60), 5)},
}


@pytest.mark.parametrize("what", MEASUREMENTS)
def test_a_measurement_is_no_unit(what: str) -> None:
    x = {"x": RANDOM.normal(size=ROWS).round(1), "sex": RANDOM.choice(["f", "m"], ROWS)}
    assert first(**MEASUREMENTS[what], **x) is None


def test_numbers_that_start_again_at_each_site_are_no_units() -> None:
    sites = np.repeat([f"S{site}" for site in range(9)], 36)
    plots = np.tile(np.arange(36), 9)
    assert split_of(site=sites, block=plots // 9, plot=plots) == ("group", "site", ())


def twice(count: int, *, order: bool = True) -> np.ndarray:
    rows = np.repeat(np.arange(count), 2)
    return rows if order else RANDOM.permutation(rows)


UNITS: dict[str, tuple[str, dict[str, object]]] = {
    "few persons": ("id", {"id": np.repeat(np.arange(20), 3)}),
    "an abbreviation": ("RESP", {"RESP": np.repeat(np.arange(40), 10)}),
    "pairs": ("pair", {"pair": twice(21)}),
    "workers in a balanced design": ("Worker", {"Worker": np.tile(np.repeat(range(6), 3), 3)}),
    "tasters of nearly as many samples": (
        "subject",
        {"subject": RANDOM.permutation(np.arange(700) % 12)[:690]},
    ),
    "persons of whom few came again": (
        "subject_id",
        {
            "subject_id": (seen := np.concatenate([np.arange(200), np.arange(40)])),
            "sex": RANDOM.choice(["f", "m"], 200)[seen],
        },
    ),
    "dogs of which each side has its rows": (
        "Dog",
        {
            "Dog": np.tile(dogs := np.repeat(np.arange(10), RANDOM.integers(2, 9, 10)), 2),
            "Side": np.repeat(["L", "R"], len(dogs)),
        },
    ),
    "many districts that lie together": ("district", {"district": np.repeat(np.arange(60), 5)}),
    "patients in no order, of one sex each": (
        "patid",
        {"patid": (ids := twice(60, order=False)), "sex": np.where(ids % 3 == 0, "f", "m")},
    ),
    "customers in no order": ("customer", {"customer": RANDOM.permutation(np.arange(600) % 60)}),
    "counties with a measurement each": (
        "county",
        {
            "county": (counties := np.repeat(np.arange(30), 6)),
            "uranium": RANDOM.normal(size=30)[counties],
        },
    ),
    "persons of whom two things were measured again": (
        "code",
        {
            "code": np.char.add(
                "p", (codes := RANDOM.permutation(np.arange(600) % 60)).astype(str)
            ),
            "height": RANDOM.normal(size=60)[codes] + RANDOM.normal(0, 0.02, 600),
            "voice": RANDOM.normal(size=60)[codes] + RANDOM.normal(0, 0.02, 600),
        },
    ),
    "districts by code": ("dcode", {"dcode": np.repeat(np.arange(50) * 10 + 1010, 4)}),
    "numbers without a name that lie together and fix two columns": (
        "v1",
        {
            "v1": (numbers := np.repeat(np.arange(100), 4)),
            "v2": RANDOM.choice(["a", "b"], 100)[numbers],
            "v3": RANDOM.choice(["c", "d", "e"], 100)[numbers],
        },
    ),
}


@pytest.mark.parametrize("what", UNITS)
def test_a_unit_of_several_rows_is_a_group(what: str) -> None:
    name, columns = UNITS[what]
    rows = len(next(iter(columns.values())))  # type: ignore[arg-type]
    assert split_of(**columns, x=RANDOM.normal(size=rows)) == ("group", name, ())


DAYS = [date(2020, 1, 1) + timedelta(days=day) for day in range(200)]
SERIES: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "dates": (("day",), {"day": DAYS}),
    "the newest first": (("day",), {"day": DAYS[::-1]}),
    "dates with a slip": (("day",), {"day": [DAYS[1], DAYS[0], *DAYS[2:]]}),
    "years": (("Year",), {"Year": range(1871, 1971)}),
    "years called time": (("time",), {"time": 1970 + np.arange(80) / 4}),
    "years with several rows": (("year",), {"year": np.arange(300) // 10 + 1980}),
    "dates as numbers": (("date",), {"date": [int(f"{day:%y%m%d}") for day in DAYS]}),
    "numbered steps with gaps": (("time",), {"time": np.delete(np.arange(1.0, 101), [5, 17])}),
    "day and hour": (("day", "hr"), {"day": np.arange(240) // 24, "hr": np.arange(240) % 24}),
    "year, month and day": (
        ("year", "month", "day"),
        {name: [getattr(day, name) for day in DAYS] for name in ("year", "month", "day")},
    ),
}


@pytest.mark.parametrize("what", SERIES)
def test_a_clock_that_runs_through_the_file_makes_a_series(what: str) -> None:
    clock, columns = SERIES[what]
    frame = {
        name: pl.Series(values).cast(pl.Datetime("us"))
        if name == "day" and len(clock) == 1
        else values
        for name, values in columns.items()
    }
    assert split_of(**frame) == ("series", "", clock)


def test_parts_of_two_times_are_none() -> None:
    built = {"YearBuilt": np.arange(300) // 10 + 1950, "MonthSold": np.arange(300) % 12 + 1}
    assert time_parts(pl.DataFrame(built).cast(pl.Float64)) in ((), ("YearBuilt",))
    sold = {**built, "YearSold": np.arange(300) // 100 + 2001}
    assert time_parts(pl.DataFrame(sold).cast(pl.Float64)) == ("YearSold", "MonthSold")


def test_a_unit_and_a_clock_that_name_the_rows_make_a_panel() -> None:
    persons, years = np.repeat(np.arange(50), 8), np.tile(np.arange(1980, 1988), 50)
    assert split_of(nr=persons, year=years) == ("panel", "nr", ("year",))
    by_year = np.argsort(years, kind="stable")
    countries = np.array([f"C{person}" for person in persons])
    assert split_of(country=countries[by_year], year=years[by_year]) == (
        "panel",
        "country",
        ("year",),
    )
    structure = first(id=persons, visit=years - 1979)
    assert structure is not None
    assert not structure.is_series, "visits are counted from each one's own start"
    drawn = RANDOM.integers(0, 8, 400)
    assert split_of(nr=persons, year=1980 + drawn)[0] == "group", "years of one person coincide"


def test_a_panel_may_have_a_row_for_each_level_at_each_time() -> None:
    rows = np.arange(30 * 20 * 3)
    columns = {
        "disease": np.array(["measles", "mumps", "polio"])[rows // 600],
        "state": np.array([f"S{state}" for state in rows // 20 % 30]),
        "year": 1930 + rows % 20,
    }
    assert split_of(**columns) == ("panel", "state", ("year",))


def test_a_panel_whose_units_have_one_target_each_is_split_by_unit() -> None:
    frame = pl.DataFrame(
        {
            "state": np.tile([f"S{state}" for state in range(50)], 20),
            "year": np.repeat(np.arange(1920.0, 2000, 4), 50),
            "south": np.tile(RANDOM.choice(["yes", "no"], 50), 20),
        }
    )
    (structure,) = find_structures(frame, "south")
    assert (structure.kind, structure.entity) == ("group", "state")


def test_columns_one_to_one_with_the_unit_name_it_too() -> None:
    rows = np.repeat(np.arange(40), 5)
    structure = first(iso=[f"C{row}" for row in rows], country=[f"land {row}" for row in rows])
    assert structure is not None
    assert structure.aliases == ("iso",)
    assert names_rows([structure]) == {"country", "iso"}


def test_excluded_columns_and_the_target_count() -> None:
    frame = pl.DataFrame(
        {
            "rownames": np.arange(200.0),
            "id": np.repeat(np.arange(40.0), 5),
            "y": np.repeat(RANDOM.choice(["f", "m"], 40), 5),
        }
    )
    (structure,) = find_structures(frame, "y")
    assert (structure.entity, names_rows([structure])) == ("id", frozenset({"id"}))
    assert "each has one value of 'y'" in structure.reason


def test_two_trends_share_no_changes() -> None:
    years = np.arange(1900.0, 2000)
    trend = np.exp(years / 40)
    frame = pl.DataFrame(
        {
            "year": years,
            "other": trend * RANDOM.normal(1, 0.01, 100),
            "made": 3 * trend + 7,
            "y": trend * (noise := RANDOM.normal(1, 0.01, 100)),
            "copy": 2 * trend * noise,
        }
    )
    structures = find_structures(frame, "y")
    assert explained_changes(frame, structures, ["other"], "y") < 0.7
    assert explained_changes(frame, structures, ["copy"], "y") > 0.999
    shuffled = frame.sample(fraction=1, shuffle=True, seed=0)
    assert explained_changes(shuffled, [], ["other"], "y") == 1.0
