"""Mean targets, texts, dates on a circle and single columns: nothing but training rows is in them,
and JSON keeps every bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import GroupSplit, RandomSplit, Split
from trainwright.contract.sections.data.table_data import (
    Column,
    ColumnFeatures,
    Encoding,
    TableData,
    TextFeatures,
)
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.time_features import fit_dates
from trainwright.data.labelled_part import read_part
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.data.types import Prepared

WORDS = ("river", "stone", "cloud", "bridge", "walks", "under", "slowly", "north")
SVD = TextFeatures(terms=40, reduce="svd", components=5, words=2, rows=2)
RANDOM = RandomSplit(kind="random")
TERMS = TextFeatures(terms=12, reduce="none", words=1, rows=1)


def table(rows: int = 160, classes: int = 2) -> pl.DataFrame:
    draw = np.random.default_rng(7)
    city = draw.integers(0, 9, rows)
    target = (city + draw.integers(0, 5, rows)) % classes
    return pl.DataFrame(
        {
            "city": [f"city {v}" for v in city],
            "shop": [f"shop {v}" for v in draw.integers(0, 30, rows)],
            "note": [
                None if at % 13 == 0 else " ".join(WORDS[v] for v in draw.integers(0, 8, 6))
                for at in range(rows)
            ],
            "when": [f"2020-{1 + v % 12:02d}-05 {v % 24:02d}:00:00" for v in range(rows)],
            "price": [f"{v:.3f}" for v in np.exp(draw.normal(3, 2, rows))],
            "g": [f"group {v}" for v in draw.integers(0, 20, rows)],
            "y": [f"class {v}" for v in target],
        }
    )


def made(
    folder: Path,
    data: pl.DataFrame,
    text: TextFeatures = SVD,
    split: Split = RANDOM,
) -> Prepared:
    data.write_csv(folder / "a.csv")
    section = TableData(
        path="a.csv",
        target="y",
        split=split,
        exclude=() if isinstance(split, GroupSplit) else ("g",),
        columns={
            "note": Column(kind="text"),
            "shop": Column(features=ColumnFeatures(categorical="codes", rare_below=2)),
            "price": Column(features=ColumnFeatures(numeric="log")),
        },
        features=FeaturesSection(
            numeric="robust", impute="median", categorical="target", dates="cyclic", text=text
        ),
    )
    return prepare_table(read_table(section, folder), section, "classification", seed=0)


@pytest.mark.parametrize("text", [SVD, TERMS])
@pytest.mark.parametrize("classes", [2, 3])
def test_poisoned_rows_and_targets_outside_of_training_change_nothing(
    tmp_path: Path, text: TextFeatures, classes: int
) -> None:
    data = table(classes=classes)
    clean = made(tmp_path, data, text)
    others = np.concatenate([clean.validation.rows, clean.test.rows]).tolist()
    poison = {
        "city": "nowhere",
        "note": "poison poison poison",
        "when": "1999-01-01 03:00:00",
        "price": "1e9",
        "y": "class 0",
    }
    poisoned = data.with_columns(
        pl.when(pl.int_range(pl.len()).is_in(others))
        .then(pl.lit(value))
        .otherwise(pl.col(name))
        .alias(name)
        for name, value in poison.items()
    )
    dirty = made(tmp_path, poisoned, text)
    before, after = clean.features.to_json(), dirty.features.to_json()
    for told in (before, after):
        told.pop("columns")  # counts of the whole training file, which no model sees
    assert before == after
    assert clean.train.inputs.numeric.tobytes() == dirty.train.inputs.numeric.tobytes()
    assert not any("poison" in name for name in clean.table.numeric_names)


@pytest.mark.parametrize("text", [SVD, TERMS])
def test_a_saved_copy_encodes_new_rows_to_the_same_bits(tmp_path: Path, text: TextFeatures) -> None:
    prepared = made(tmp_path, table(classes=3), text)
    again = TableEncoder.from_json(json.loads(json.dumps(prepared.features.to_json())))
    assert again.numeric_names == prepared.table.numeric_names
    encoded = again.transform(again.read(read_source("a.csv", tmp_path).frame))
    assert encoded.dense().numeric.shape[1] == len(again.numeric_names)
    for part in (prepared.validation, prepared.test):
        expected = encoded.take(part.rows)
        assert part.inputs.numeric.tobytes() == expected.numeric.tobytes()
        assert part.inputs.terms.dense().tobytes() == expected.terms.dense().tobytes()
        assert (part.inputs.categories == expected.categories).all()
    judged = read_part(read_source("a.csv", tmp_path).frame, again, prepared.target)
    assert judged.inputs.numeric.tobytes() == encoded.numeric.tobytes()
    assert judged.inputs.terms.dense().tobytes() == encoded.terms.dense().tobytes()


def test_a_training_row_does_not_see_its_own_target(tmp_path: Path) -> None:
    """The other class in one row changes the means of rows in other folds, and not its own."""
    data = table()
    clean = made(tmp_path, data)
    at = clean.table.numeric_names.index("city (mean)")
    row = 3
    flipped = data.with_columns(
        pl.when(pl.int_range(pl.len()) == int(clean.train.rows[row]))
        .then(
            pl.lit("class 0" if data["y"][int(clean.train.rows[row])] == "class 1" else "class 1")
        )
        .otherwise(pl.col("y"))
        .alias("y")
    )
    dirty = made(tmp_path, flipped)
    # The scaling of the column sees all rows: compared is what was scaled.
    before, after = (
        one.train.inputs.numeric[:, at].astype(np.float64) * one.table.numbers.spread[at]
        + one.table.numbers.center[at]
        for one in (clean, dirty)
    )
    assert abs(before[row] - after[row]) < 1e-6
    assert (np.abs(before - after) > 1e-6).any()


def test_rows_of_a_group_share_a_fold(tmp_path: Path) -> None:
    """Under a group split all rows of a group and a city are encoded alike."""
    prepared = made(tmp_path, table(), split=GroupSplit(kind="group", column="g"))
    at = prepared.table.numeric_names.index("city (mean)")
    seen: dict[tuple[str, str], set[float]] = {}
    values = prepared.train.inputs.numeric[:, at].tolist()
    frame = prepared.train.frame
    for key in zip(frame["g"], frame["city"], strict=True):
        seen.setdefault(key, set()).add(values.pop(0))
    assert max(map(len, seen.values())) == 1
    assert len(seen) > 60


def test_hours_lie_on_a_circle_and_the_settings_of_a_column_win(tmp_path: Path) -> None:
    prepared = made(tmp_path, table())
    names = prepared.table.numeric_names
    assert {"when (month sin)", "when (month cos)", "when (hour sin)"} <= set(names)
    assert not any("year" in name or "weekday year" in name for name in names)  # one year alone
    assert not any("(day " in name for name in names)  # always the fifth
    numbers = prepared.table.numbers
    hour = prepared.train.frame["when"].dt.hour().to_numpy()
    at = names.index("when (hour cos)")
    cosine = prepared.train.inputs.numeric[:, at] * numbers.spread[at] + numbers.center[at]
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * hour / 24), atol=1e-6)
    assert numbers.scale[names.index("price")] == "log"
    assert numbers.scale[at] == "robust"
    assert prepared.table.categorical_names == ("shop",)


def test_the_version_does_not_hang_on_the_last_bits_of_a_decomposition(tmp_path: Path) -> None:
    features = made(tmp_path, table()).table
    told = features.to_json()
    assert "values" in told["texts"][0]
    assert "values" not in features.identity()["texts"][0]


@pytest.mark.parametrize(
    ("encoding", "coded", "averaged"),
    [
        ("codes", {"few", "many"}, set()),
        ("target", set(), {"few", "many"}),
        ("both", {"few", "many"}, {"few", "many"}),
        ("by_count", {"few", "many"}, {"many"}),
    ],
)
def test_a_column_of_many_categories_becomes_codes_and_mean_targets(
    tmp_path: Path, encoding: Encoding, coded: set[str], averaged: set[str]
) -> None:
    rows = 4000
    values = {
        "few": [f"f{at % 40}" for at in range(rows)],
        "many": [f"m{at % 150}" for at in range(rows)],
        "y": [at % 7 + 0.5 for at in range(rows)],
    }
    pl.DataFrame(values).write_csv(tmp_path / "a.csv")
    section = TableData(
        path="a.csv",
        target="y",
        split=RandomSplit(kind="random"),
        features=FeaturesSection(numeric="none", impute="none", categorical=encoding),
    )
    prepared = prepare_table(read_table(section, tmp_path), section, "regression", seed=0)
    assert set(prepared.table.categorical_names) == coded
    assert set(prepared.table.numeric_names) == {f"{name} (mean)" for name in averaged}


def test_minutes_of_timestamps_are_kept() -> None:
    times = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 1, 1), "5m", time_unit="us", eager=True
    )
    frame = pl.DataFrame({"at": times})
    parts = {one.name: one for one in fit_dates(frame, ["at"], "parts")}
    assert set(parts) == {"at (hour)", "at (minute)"}
    assert parts["at (minute)"].values(frame).to_list() == times.dt.minute().to_list()
    quarter = {one.name: one for one in fit_dates(frame, ["at"], "cyclic")}["at (minute sin)"]
    assert quarter.values(frame)[3] == pytest.approx(1.0)
