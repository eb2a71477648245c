"""Features: fitted on training rows alone, kept as JSON, and strict about new rows."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from trainwright.contract.sections.data.split import RandomSplit
from trainwright.contract.sections.data.table_data import (
    Column,
    Encoding,
    Imputing,
    Scaling,
    TableData,
)
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.core.errors import DataMistake
from trainwright.data.base.row_storage import SLICE_ROWS
from trainwright.data.encoders.scaling import NumberRows, fit_numbers
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.data.types import Prepared
from trainwright.predictor.input_rows import frame_of


def table(rows: int = 120) -> pl.DataFrame:
    generator = np.random.default_rng(3)
    age = [None if i % 11 == 0 else f"{v:.3f}" for i, v in enumerate(generator.normal(40, 9, rows))]
    return pl.DataFrame(
        {
            "age": age,
            "hours": [str(v) for v in generator.integers(1, 60, rows)],
            "color": [["red", "green", "blue", None][v] for v in generator.integers(0, 4, rows)],
            "flag": ["True" if v else "False" for v in generator.integers(0, 2, rows)],
            "day": [f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(rows)],
            "y": [["no", "yes"][v] for v in generator.integers(0, 2, rows)],
        }
    )


def made(
    folder: Path,
    data: pl.DataFrame,
    scale: Scaling = "quantile",
    impute: Imputing = "median",
    rare_below: int = 5,
    categorical: Encoding = "codes",
) -> Prepared:
    data.write_csv(folder / "a.csv")
    section = TableData(
        path="a.csv",
        target="y",
        split=RandomSplit(kind="random"),
        features=FeaturesSection(
            numeric=scale, impute=impute, rare_below=rare_below, categorical=categorical
        ),
        columns={"color": Column(values={"rouge": "red"})},
    )
    return prepare_table(read_table(section, folder), section, "classification", seed=0)


SCALES: list[tuple[Scaling, Imputing]] = [
    ("none", "none"),
    ("none", "mean"),
    ("standard", "median"),
    ("standard", "none"),
    ("quantile", "median"),
    ("quantile", "none"),
    ("robust", "median"),
    ("log", "mean"),
    ("log", "none"),
]


@pytest.mark.parametrize(("scale", "impute"), SCALES)
def test_poisoned_validation_and_test_rows_change_nothing_fitted(
    tmp_path: Path, scale: Scaling, impute: Imputing
) -> None:
    data = table()
    clean = made(tmp_path, data, scale, impute)
    others = np.concatenate([clean.validation.rows, clean.test.rows]).tolist()
    poison = {"age": "1e9", "hours": "-5e8", "color": "poison", "day": "1999-01-01"}
    poisoned = data.with_columns(
        pl.when(pl.int_range(pl.len()).is_in(others))
        .then(pl.lit(value))
        .otherwise(pl.col(name))
        .alias(name)
        for name, value in poison.items()
    )
    dirty = made(tmp_path, poisoned, scale, impute)
    before, after = clean.features.to_json(), dirty.features.to_json()
    for told in (before, after):
        told.pop("columns")  # counts of the whole training file, which no model sees
    assert before == after
    assert (bits(clean.train.inputs.numeric) == bits(dirty.train.inputs.numeric)).all()
    assert clean.version != dirty.version


def bits(values: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return values.view(np.uint32)


@pytest.mark.parametrize(("scale", "impute"), SCALES)
def test_json_keeps_every_bit(tmp_path: Path, scale: Scaling, impute: Imputing) -> None:
    prepared = made(tmp_path, table(), scale, impute)
    again = TableEncoder.from_json(json.loads(json.dumps(prepared.features.to_json())))
    encoded = again.transform(again.read(read_source("a.csv", tmp_path).frame))
    for part in (prepared.train, prepared.validation, prepared.test):
        expected = encoded.take(part.rows)
        assert (bits(part.inputs.numeric) == bits(expected.numeric)).all()
        assert (part.inputs.categories == expected.categories).all()
    assert again.numeric_names == prepared.features.numeric_names
    assert again.cardinalities == prepared.features.cardinalities


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 99"):
        TableEncoder.from_json({"format": 99})


def test_numbers_are_those_of_scikit_learn(tmp_path: Path) -> None:
    for scale, reference in (
        ("standard", StandardScaler()),
        ("quantile", QuantileTransformer(n_quantiles=84, output_distribution="normal")),
    ):
        prepared = made(tmp_path, table(), scale)  # type: ignore[arg-type]
        names = prepared.features.numeric_names
        hours = prepared.train.frame["hours"].to_numpy()[:, None]
        expected = reference.fit_transform(hours)[:, 0].astype(np.float32)
        assert (prepared.train.inputs.numeric[:, names.index("hours")] == expected).all()


@pytest.mark.parametrize("rows", [1, 2, 7, 1500, 200_500])
def test_fill_and_quantiles_are_those_of_scikit_learn_to_the_last_bit(rows: int) -> None:
    draw = np.random.default_rng(0)
    whole = np.stack(
        [
            draw.normal(size=rows),
            draw.integers(0, 5, rows).astype(float),
            1e6 * draw.exponential(size=rows),
            np.full(rows, 3.0),
        ],
        axis=1,
    )
    holed = whole.copy()
    holed[1::9] = np.nan
    for impute in ("median", "mean"):
        expected = SimpleImputer(strategy=impute).fit(holed).statistics_
        fill = fit_numbers(NumberRows.of(holed), ["none"] * 4, [impute] * 4).fill
        # Sums of several slices are added up in another order.
        in_order = impute == "median" or rows <= SLICE_ROWS
        np.testing.assert_allclose(fill, expected, rtol=0 if in_order else 1e-13)
    state = fit_numbers(NumberRows.of(whole), ["quantile"] * 4, ["none"] * 4)
    reference = QuantileTransformer(
        n_quantiles=min(1000, rows), output_distribution="normal", subsample=200_000, random_state=0
    ).fit(whole)
    assert (state.quantiles == reference.quantiles_).all()
    asked = np.concatenate([whole[:500], 3 * whole[:50] - 1, np.full((1, 4), np.nan)])
    expected = reference.transform(np.where(np.isnan(asked), state.fill, asked)).astype(np.float32)
    np.testing.assert_array_equal(state.transform(asked), expected)


def test_missing_numbers_are_filled_and_marked(tmp_path: Path) -> None:
    prepared = made(tmp_path, table(), "none", "median")
    names = prepared.features.numeric_names
    assert names[-1] == "age (missing)"
    age = prepared.train.frame["age"]
    numeric = prepared.train.inputs.numeric
    assert (numeric[:, -1] == age.is_null().to_numpy()).all()
    filled = numeric[age.is_null().to_numpy(), names.index("age")]
    assert (filled == np.float32(np.median(age.drop_nulls().to_numpy()))).all()


def test_a_number_that_is_missing_only_later_is_filled(tmp_path: Path) -> None:
    features = made(tmp_path, table()).features
    assert "hours (missing)" not in features.numeric_names
    typed = features.read(table(3).with_columns(hours=pl.lit("")))
    assert np.isfinite(features.transform(typed).numeric).all()


def test_without_imputation_missing_stays_nan(tmp_path: Path) -> None:
    prepared = made(tmp_path, table(), "none", "none")
    column = prepared.features.numeric_names.index("age")
    missing = prepared.train.frame["age"].is_null().to_numpy()
    assert (np.isnan(prepared.train.inputs.numeric[:, column]) == missing).all()


def test_a_number_that_no_training_row_lacks_is_filled_without_imputation(tmp_path: Path) -> None:
    """A tree that never split on a missing number takes one for 0, or for the largest."""
    prepared = made(tmp_path, table(), "none", "none")
    features, names = prepared.features, prepared.features.numeric_names
    typed = features.read(table(3).with_columns(hours=pl.lit(""), day=pl.lit("")))
    assert features.count_unseen_in(typed) == {"hours": 3, "day": 3}
    numeric = TableEncoder.from_json(features.to_json()).transform(typed).numeric
    complete = [at for at, name in enumerate(names) if name.startswith(("hours", "day"))]
    train = prepared.train.inputs.numeric[:, complete]
    np.testing.assert_allclose(numeric[:, complete], [np.median(train, axis=0)] * 3, rtol=1e-6)


def test_codes_of_unknown_missing_rare_and_kept_categories(tmp_path: Path) -> None:
    data = table()
    rows = made(tmp_path, data).train.rows
    colors = data["color"].to_list()
    colors[int(rows[0])] = "mauve"
    features = made(tmp_path, data.with_columns(pl.Series("color", colors))).features
    vocabulary = features.vocabularies[features.categorical_names.index("color")]
    assert set(vocabulary.kept) == {"red", "green", "blue"}
    assert vocabulary.rare == ("mauve",)
    assert vocabulary.cardinality == 6
    new = table(5).with_columns(
        pl.Series("color", ["pink", None, "mauve", vocabulary.kept[0], "rouge"])
    )
    codes = features.transform(features.read(new)).categories
    column = codes[:, features.categorical_names.index("color")]
    assert column.tolist() == [0, 1, 2, 3, 3 + vocabulary.kept.index("red")]


def test_most_categories_are_the_commonest(tmp_path: Path) -> None:
    features = made(tmp_path, table(), rare_below=1000).features
    assert all(vocabulary.kept == () for vocabulary in features.vocabularies)
    assert set(features.cardinalities) == {3}


def test_date_parts_that_differ_become_numbers(tmp_path: Path) -> None:
    names = made(tmp_path, table()).features.numeric_names
    assert [name for name in names if name.startswith("day")] == [
        "day (month)",
        "day (day)",
        "day (weekday)",
    ]


@pytest.mark.parametrize("categorical", ["codes", "target"])
def test_new_rows_may_be_typed_reordered_and_wider(categorical: Encoding, tmp_path: Path) -> None:
    features = made(tmp_path, table(), categorical=categorical).table
    text = table(20)
    typed = text.select(
        pl.col("y"),
        pl.col("flag") == "True",
        pl.col("day").str.to_date(),
        pl.col("color").cast(pl.Categorical),
        pl.col("hours").cast(pl.Int16),
        pl.col("age").cast(pl.Float64),
        extra=pl.lit(1),
    )
    one, two = (features.transform(features.read(frame)) for frame in (text, typed))
    assert (bits(one.numeric) == bits(two.numeric)).all()
    assert (one.categories == two.categories).all()
    known = (*features.vocabularies, *(one.vocabulary for one in features.means))
    flag = next(vocabulary for vocabulary in known if vocabulary.name == "flag")
    assert (flag.encode(features.read(typed)["flag"]) >= 3).all()


def test_new_rows_that_cannot_be_read_are_told_all_at_once(tmp_path: Path) -> None:
    features = made(tmp_path, table()).features
    new = (
        table(3)
        .drop("color")
        .with_columns(
            age=pl.Series(["1", "old", "3"]),
            hours=pl.Series(["1", "2", "inf"]),
            day=pl.lit("today"),
        )
    )
    with pytest.raises(DataMistake) as caught:
        features.read(new.rename({"flag": "Flag"}))
    found = {problem.path: problem for problem in caught.value.problems}
    assert set(found) == {"age", "hours", "color", "flag", "day"}
    assert found["age"].found == "'old' in row 2"
    assert found["flag"].fix == "rename 'Flag'"
    assert "infinite" in found["hours"].message


@pytest.mark.parametrize(
    "labels", [("true", "false"), ("True", "False"), ("T", "F"), ("yes", "no")]
)
def test_booleans_of_new_rows_have_the_spelling_of_the_training_rows(
    labels: tuple[str, str], tmp_path: Path
) -> None:
    flags = [bool(i % 3) for i in range(120)]
    trained = table().with_columns(pl.Series("flag", [labels[not one] for one in flags]))
    features = made(tmp_path, trained).features
    encoder = TableEncoder.from_json(json.loads(json.dumps(features.to_json())))
    expected = encoder.transform(encoder.read(trained)).categories
    written = pl.Series("flag", flags)
    bits = written.cast(pl.Int64)
    for column in (
        written,
        bits,
        bits.cast(pl.Float64),
        bits.cast(pl.Float64).cast(pl.String),
        written.cast(pl.String).str.to_titlecase(),
        written.cast(pl.String).str.to_uppercase().cast(pl.Categorical),
        written.cast(pl.String).str.slice(0, 1),
    ):
        read = encoder.read(trained.with_columns(column))
        assert (encoder.transform(read).categories == expected).all(), column


def test_numbers_read_booleans_and_other_words_stay_as_they_are(tmp_path: Path) -> None:
    rows = table().with_columns(pl.Series("hours", [i % 2 for i in range(120)]))
    rows = rows.with_columns(pl.Series("flag", ["f", "m"] * 60))
    encoder = TableEncoder.of_kind(made(tmp_path, rows).features)
    read = encoder.read(rows.with_columns(pl.col("hours").cast(pl.Boolean)))
    assert read["hours"].to_list() == [float(i % 2) for i in range(120)]
    zeros = rows.with_columns(pl.Series("flag", ["0"] * 9 + ["f"] * 111))
    assert encoder.read(zeros)["flag"].to_list()[:10] == ["0"] * 9 + ["f"]


def test_files_of_parts_have_the_booleans_of_the_training_file(tmp_path: Path) -> None:
    rows = table().with_columns(pl.Series("y", [True, False] * 60))
    rows.with_columns(pl.col("flag") == "True").write_parquet(tmp_path / "train.parquet")
    rows.with_columns(pl.col("y").cast(pl.Int64)).write_csv(tmp_path / "test.csv")
    section = TableData(train_path="train.parquet", test_path="test.csv", target="y")
    frames = read_table(section, tmp_path).frames
    assert frames["test"]["flag"].equals(frames["train"]["flag"])
    assert frames["test"]["y"].equals(frames["train"]["y"])


@pytest.mark.parametrize("column", ["age", "color", "day"])
def test_columns_without_known_values_are_refused_unless_allowed(
    column: str, tmp_path: Path
) -> None:
    data = table()
    encoder = TableEncoder.of_kind(made(tmp_path, data).features)
    cells = data[column].to_list()
    unknown = "mauve" if column == "color" else "NA"
    for new in ([None] * 120, [None] * 70 + cells[70:], [unknown] * 120):
        rows = data.with_columns(pl.Series(column, new, dtype=pl.String))
        with pytest.raises(DataMistake, match="the column is empty or unknown in most rows"):
            encoder.read(rows)
        assert encoder.allow_unknown([column]).read(rows).height == 120
        # In few rows a value may well be unknown.
        assert encoder.read(rows.head(19)).height == 19
    rare = data.with_columns(pl.Series(column, [None] * 40 + cells[40:], dtype=pl.String))
    assert encoder.read(rare).height == 120


def test_columns_that_training_rows_lack_too_may_be_empty(tmp_path: Path) -> None:
    data = table().with_columns(pl.Series("age", ["1", "2", None, None, None, None] * 20))
    data = data.with_columns(pl.Series("color", [f"c{i // 2}" for i in range(120)]))
    encoder = TableEncoder.of_kind(made(tmp_path, data).features)
    rows = data.head(40).with_columns(age=pl.lit(None, dtype=pl.String))
    assert encoder.read(rows).height == 40
    unseen = pl.Series("color", [f"c{200 + i if i % 3 else i // 2}" for i in range(120)])
    assert encoder.read(data.with_columns(unseen)).height == 120


def zoned(rows: int = 600) -> pl.Series:
    hours = [dt.datetime(2023, 1, 1) + dt.timedelta(hours=13 * at) for at in range(rows)]
    return pl.Series("day", hours).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")


@pytest.mark.parametrize("written", ["typed", "text", "winter"])
def test_times_with_a_zone_are_those_of_its_clock(written: str, tmp_path: Path) -> None:
    times = zoned(120 if written == "winter" else 600)
    data = table(len(times)).with_columns(times)
    text = data.with_columns(times.dt.strftime("%Y-%m-%dT%H:%M:%S%:z"))
    (data if written == "typed" else text).write_parquet(tmp_path / "a.parquet")
    section = TableData(
        path="a.parquet",
        target="y",
        split=RandomSplit(kind="random"),
        features=FeaturesSection(numeric="none", impute="none"),
    )
    raw = read_table(section, tmp_path)
    features = prepare_table(raw, section, "classification", seed=0).features
    encoder = TableEncoder.from_json(json.loads(json.dumps(features.to_json())))
    later = table(600).with_columns(zoned())
    naive = later.with_columns(pl.col("day").dt.replace_time_zone(None))
    clock = naive["day"].cast(pl.Datetime("us"))
    assert encoder.read(naive)["day"].to_list() == clock.to_list()
    in_pandas = frame_of(later.to_pandas())
    spelled = later.with_columns(zoned().dt.strftime("%Y-%m-%dT%H:%M:%S%:z"))
    for new in (later, in_pandas, spelled):
        assert encoder.read(new)["day"].to_list() == clock.to_list()
    for elsewhere in (
        later.with_columns(pl.col("day").dt.convert_time_zone("America/New_York")),
        later.with_columns(zoned().dt.convert_time_zone("UTC").dt.strftime("%FT%TZ")),
    ):
        if written == "typed":
            assert encoder.read(elsewhere)["day"].to_list() == clock.to_list()
        else:
            with pytest.raises(DataMistake, match="are not dates"):
                encoder.read(elsewhere)


def test_times_of_several_zones_and_of_utc_stay_in_utc(tmp_path: Path) -> None:
    berlin, york = (zoned().dt.convert_time_zone(zone) for zone in ("UTC", "America/New_York"))
    berlin, york = (times.dt.strftime("%Y-%m-%dT%H:%M:%S%:z") for times in (berlin, york))
    opening = pl.Series("hours", ["08:00-17:00", "09:00-17:30"] * 300)
    for times in (pl.concat([berlin[:300], york[300:]]), berlin):
        data = table(600).with_columns(times.alias("day"), opening)
        data.write_csv(tmp_path / "a.csv")
        raw = read_table(TableData(path="a.csv", target="y"), tmp_path)
        instants = zoned().dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        assert raw.frames["train"]["day"].to_list() == instants.to_list()
        assert raw.frames["train"]["hours"].to_list() == opening.to_list()
