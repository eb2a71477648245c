"""The past of a row: no bit of it hangs on rows that are not older, in any part."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.tiers import times
from trainwright.contract.sections.data.split import TimeSplit
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.contract.sections.data.table_data import History as Section
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.time_features import LagFeatures
from trainwright.data.labelled_part import read_part
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.data.types import Prepared

STATISTICS = ("mean", "std", "min", "max", "sum", "count")
ROW = st.tuples(
    st.integers(0, 2),
    st.one_of(st.none(), st.integers(0, 9)),
    st.one_of(st.none(), st.floats(-1e6, 1e6)),
)


def frame_of(rows: list[tuple[int, int | None, float | None]]) -> pl.DataFrame:
    schema = {"g": pl.Int64, "t": pl.Int64, "v": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def past(frame: pl.DataFrame, section: Section) -> pl.DataFrame:
    history = LagFeatures((section,), ())
    return history.added_to({"train": frame})["train"].select(history.names)


def by_hand(frame: pl.DataFrame, section: Section) -> list[list[float | None]]:
    """The definition, a row at a time."""
    out: list[list[float | None]] = []
    rows = list(zip(frame["g"], frame["t"], frame["v"], strict=True))
    for group, moment, _ in rows:
        older = [
            (t, v)
            for g, t, v in rows
            if moment is not None and t is not None and g == group and t < moment
        ]
        older.sort(key=lambda row: row[0])
        values = [v for _, v in older]
        line = [values[-lag] if lag <= len(values) else None for lag in section.lags]
        known = values[: len(values) - section.horizon + 1] if section.horizon > 1 else values
        known = [] if len(values) < section.horizon else known
        for window in section.windows:
            seen = [v for v in known[-window:] if v is not None]
            line += [_statistic(name, seen) for name in section.statistics]
        out.append(line)
    return out


def _statistic(name: str, seen: list[float]) -> float | None:
    if name == "count":
        return float(len(seen))
    if not seen:
        return None
    mean = sum(seen) / len(seen)
    spread = math.sqrt(sum((v - mean) ** 2 for v in seen) / len(seen))
    known = {"mean": mean, "std": spread, "min": min(seen), "max": max(seen), "sum": sum(seen)}
    return known[name]


SECTIONS = st.builds(
    Section,
    time=st.just("t"),
    group=st.just("g"),
    columns=st.just(("v",)),
    lags=st.sampled_from([(2,), (2, 3), (4, 2)]),
    windows=st.sampled_from([(), (1,), (2, 4)]),
    statistics=st.just(STATISTICS),
    horizon=st.integers(1, 2),
)


@given(st.lists(ROW, min_size=1, max_size=24), SECTIONS)
@settings(deadline=None, max_examples=times(30, 120))
def test_it_is_the_definition(
    rows: list[tuple[int, int | None, float | None]], section: Section
) -> None:
    frame = frame_of(rows)
    found = past(frame, section).rows()
    for line, expected in zip(found, by_hand(frame, section), strict=True):
        assert len(line) == len(expected)
        for one, other in zip(line, expected, strict=True):
            assert (one is None) == (other is None)
            assert one is None or one == pytest.approx(other, rel=1e-9, abs=1e-6)


@given(st.lists(ROW, min_size=2, max_size=24), SECTIONS, st.integers(0, 9))
@settings(deadline=None, max_examples=times(30, 120))
def test_a_poisoned_future_changes_no_bit_of_the_past(
    rows: list[tuple[int, int | None, float | None]], section: Section, now: int
) -> None:
    frame = frame_of(rows)
    future = pl.col("t").is_null() | (pl.col("t") >= now)
    poisoned = frame.with_columns(
        pl.when(future).then(pl.lit(1e30)).otherwise(pl.col("v")).alias("v")
    )
    kept = frame.select((pl.col("t") <= now).fill_null(value=False)).to_series()
    before, after = past(frame, section).filter(kept), past(poisoned, section).filter(kept)
    assert before.fill_null(-7.0).to_numpy().tobytes() == after.fill_null(-7.0).to_numpy().tobytes()


def table(rows: int = 120) -> pl.DataFrame:
    draw = np.random.default_rng(4)
    hours = np.arange(rows) // 2
    return pl.DataFrame(
        {
            "when": [f"2021-03-{1 + h // 24:02d} {h % 24:02d}:00:00" for h in hours],
            "shop": ["north" if v % 2 else "south" for v in range(rows)],
            "sold": draw.integers(5, 60, rows),
            "rain": np.round(draw.normal(size=rows), 3),
        }
    )


def made(folder: Path, data: pl.DataFrame) -> Prepared:
    data.write_csv(folder / "a.csv")
    section = TableData(
        path="a.csv",
        target="sold",
        split=TimeSplit(kind="time", column="when"),
        features=FeaturesSection(
            numeric="none",
            impute="none",
            history=Section(
                time="when",
                group="shop",
                columns=("sold", "rain"),
                lags=(1, 3),
                windows=(4,),
                statistics=("mean", "max"),
            ),
        ),
    )
    return prepare_table(read_table(section, folder), section, "regression", seed=0)


def test_the_past_goes_on_across_the_borders_of_parts(tmp_path: Path) -> None:
    prepared = made(tmp_path, table())
    last = {
        shop: prepared.train.frame.filter(pl.col("shop") == shop)["sold"][-1]
        for shop in ("north", "south")
    }
    first = prepared.validation.frame.head(2)
    assert first["sold (lag 1)"].to_list() == [last[shop] for shop in first["shop"]]
    assert prepared.test.frame["sold (lag 3)"].null_count() == 0
    assert prepared.train.frame["sold (lag 1)"].null_count() == 2
    assert "sold (max of 4)" in prepared.table.numeric_names


def test_training_rows_see_nothing_of_validation_and_test(tmp_path: Path) -> None:
    data = table()
    clean = made(tmp_path, data)
    others = np.concatenate([clean.validation.rows, clean.test.rows]).tolist()
    poisoned = data.with_columns(
        pl.when(pl.int_range(pl.len()).is_in(others))
        .then(9999)
        .otherwise(pl.col("sold"))
        .alias("sold")
    )
    dirty = made(tmp_path, poisoned)
    assert clean.train.inputs.numeric.tobytes() == dirty.train.inputs.numeric.tobytes()
    assert clean.test.inputs.numeric.tobytes() != dirty.test.inputs.numeric.tobytes()


def test_new_rows_get_their_past_from_the_same_file(tmp_path: Path) -> None:
    prepared = made(tmp_path, table())
    again = TableEncoder.from_json(json.loads(json.dumps(prepared.features.to_json())))
    file = read_source("a.csv", tmp_path).frame
    encoded = again.transform(again.read(file))
    for part in (prepared.train, prepared.validation, prepared.test):
        assert part.inputs.numeric.tobytes() == encoded.take(part.rows).numeric.tobytes()
    # The last row is to be predicted: its own target is not known, and not needed.
    places = pl.int_range(pl.len())
    blank = file.with_columns(
        pl.when(places < len(file) - 1).then(pl.col("sold")).otherwise(None).alias("sold")
    )
    unknown = again.transform(again.read(blank))
    assert unknown.numeric[-1].tobytes() == encoded.numeric[-1].tobytes()
    judged = read_part(file, again, prepared.target)
    assert judged.inputs.numeric.tobytes() == encoded.numeric.tobytes()


def test_rows_without_any_past_are_refused(tmp_path: Path) -> None:
    features = made(tmp_path, table()).table
    file = read_source("a.csv", tmp_path).frame
    with pytest.raises(DataMistake, match="no row has an earlier row of its shop"):
        features.read(file.head(2))
    with pytest.raises(DataMistake, match="no column 'sold'"):
        features.read(file.drop("sold"))


def test_a_count_of_no_rows_is_no_past() -> None:
    counting = Section(time="t", columns=("v",), lags=(1,), windows=(2,), statistics=("count",))
    history = LagFeatures((counting,), ())
    with pytest.raises(DataMistake, match="no row has an earlier row"):
        history.added(frame_of([(0, 1, 1.0), (0, 1, 2.0)]))
    assert history.added(frame_of([(0, 1, None), (0, 2, 2.0)]).with_columns(v=1.0)).height == 2


def test_groups_may_be_numbers_in_one_file_and_words_in_another(tmp_path: Path) -> None:
    values = [0.5 * at for at in range(120)]
    rows = pl.DataFrame({"t": range(120), "g": [0, 1] * 60, "v": values, "y": [0, 1, 1] * 40})
    rows.write_csv(tmp_path / "a.csv")
    later = rows.with_columns(pl.col("t") + 120, g=pl.Series(["1", "new"] * 60))
    later.write_csv(tmp_path / "b.csv")
    past = Section(time="t", group="g", columns=("v",), lags=(1,))
    section = TableData(
        path="a.csv",
        test_path="b.csv",
        target="y",
        exclude=("g",),
        split=TimeSplit(kind="time", column="t"),
        features=FeaturesSection(numeric="none", impute="none", history=past),
    )
    test = prepare_table(read_table(section, tmp_path), section, "classification", 0).test.frame
    assert test["v (lag 1)"].to_list()[:4] == [59.5, None, 0.0, 0.5]


def test_a_column_of_the_file_is_not_overwritten(tmp_path: Path) -> None:
    data = table().with_columns(pl.lit(1.5).alias("sold (lag 1)"))
    with pytest.raises(DataMistake, match="names that the past gets"):
        made(tmp_path, data)


@pytest.mark.parametrize(
    ("columns", "found"),
    [(("sold", "gone"), "no column 'gone'"), (("shop",), "the past of 'shop' is no number")],
)
def test_a_column_without_numbers_is_refused(
    tmp_path: Path, columns: tuple[str, ...], found: str
) -> None:
    table().write_csv(tmp_path / "a.csv")
    history = Section(time="when", columns=columns, lags=(1,))
    section = TableData(
        path="a.csv",
        target="sold",
        split=TimeSplit(kind="time", column="when"),
        features=FeaturesSection(numeric="none", impute="none", history=history),
    )
    with pytest.raises(DataMistake, match=found):
        prepare_table(read_table(section, tmp_path), section, "regression", seed=0)
