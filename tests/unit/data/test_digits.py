"""Numbers keep their digits, where single or double precision cannot tell them apart: in every role
of a column, from every type of source, for every family."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from faults.tiers import in_test
from trainwright.contract.sections.data.sources import Sql
from trainwright.contract.sections.data.split import GroupSplit, RandomSplit, Split, TimeSplit
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model import sections
from trainwright.core.errors import DataMistake
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import Part, TableInputs
from trainwright.data.columns.column_kinds import ColumnType, best_typed
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.labelled_part import read_part
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.statistics.profile import distance, profile_column
from trainwright.data.types import Prepared
from trainwright.data.versions.snapshot import hash_rows
from trainwright.evaluation.experiments.probe import ProbeRows, encode, out_of_fold
from trainwright.model.families import library_family
from trainwright.model.library_family import LibraryJob

ROWS, DIFFERENT = 400, 40
STARTS = {"single": 2**26, "double": 2**60}
SOURCES = ("csv", "jsonl", "parquet", "decimals", "unsigned", "sqlite")


def made_rows(start: int) -> pl.DataFrame:
    draw = np.random.default_rng(3)
    steps = draw.integers(0, DIFFERENT, ROWS)
    values = [None if row % 50 == 7 else start + int(step) for row, step in enumerate(steps)]
    return pl.DataFrame(
        {
            "x": pl.Series(values, dtype=pl.Int64),
            "g": start + steps,
            "t": start + np.arange(ROWS) // 4,
            "other": draw.normal(size=ROWS),
            "y": np.sin(steps / 5) + 0.1 * draw.normal(size=ROWS),
        }
    )


def written(rows: pl.DataFrame, source: str, folder: Path) -> dict[str, Any]:
    """The data section's keys for the rows as a source of that type."""
    whole = ["x", "g", "t"]
    match source:
        case "csv":
            rows.write_csv(folder / "rows.csv")
        case "jsonl":
            rows.write_ndjson(folder / "rows.jsonl")
        case "sqlite":
            with sqlite3.connect(folder / "rows.db") as base:
                base.execute(f"create table rows ({', '.join(rows.columns)})")
                marks = ", ".join("?" * rows.width)
                base.executemany(f"insert into rows values ({marks})", rows.rows())
            return {"sql": Sql(url="sqlite:///rows.db", query="select * from rows")}
        case _:
            kinds = {"decimals": pl.Decimal(20, 0), "unsigned": pl.UInt64()}
            typed = rows.with_columns(pl.col(whole).cast(kinds.get(source, pl.Int64())))
            typed.write_parquet(folder / "rows.parquet")
            return {"path": "rows.parquet"}
    return {"path": f"rows.{source}"}


def prepared(
    rows: pl.DataFrame,
    folder: Path,
    split: Split | None = None,
    source: str = "parquet",
    numeric: str = "none",
) -> Prepared:
    features = FeaturesSection(numeric=numeric, impute="median")  # type: ignore[arg-type]
    where = written(rows, source, folder)
    data = TableData(
        target="y", split=split or RandomSplit(kind="random"), features=features, **where
    )
    return prepare_table(read_table(data, folder), data, "regression", 0)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_feature_is_encoded_as_if_counted_from_0(start: str, source: str, tmp_path: Path) -> None:
    from_0 = prepared(made_rows(0), tmp_path).train.inputs.columns().numeric
    far = prepared(made_rows(STARTS[start]), tmp_path, source=source)
    assert len(np.unique(far.train.inputs.columns().numeric[:, 0])) == DIFFERENT
    shift = far.train.inputs.columns().numeric - from_0
    assert (shift[:, :3] == shift[0, :3]).all()
    # New rows come as another source, and the encoder from its file.
    encoder = TableEncoder.from_json(far.features.to_json())
    assert isinstance(encoder, TableEncoder)
    new = encoder.transform(encoder.read(made_rows(STARTS[start]).cast(pl.String)))
    assert np.array_equal(new.numeric[far.train.rows], far.train.inputs.columns().numeric)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("role", ["group", "time", "key"])
def test_rows_are_split_as_if_counted_from_0(
    role: str, start: str, source: str, tmp_path: Path
) -> None:
    splits: dict[str, Split] = {
        "group": GroupSplit(kind="group", column="g"),
        "time": TimeSplit(kind="time", column="t"),
        "key": RandomSplit(kind="random", key="g"),
    }
    far = prepared(made_rows(STARTS[start]), tmp_path, splits[role], source)
    plain = made_rows(0)
    if role == "key":
        # A side hangs on the spelling of the key.
        plain = plain.with_columns(made_rows(STARTS[start])["g"].cast(pl.String))
    expected = prepared(plain, tmp_path, splits[role])
    for part in ("train", "validation", "test"):
        assert getattr(far, part).rows.tolist() == getattr(expected, part).rows.tolist()
    if role == "group":
        assert len(np.unique(far.test.units)) == len(np.unique(expected.test.units))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("source", SOURCES)
def test_queries_are_those_of_the_spelled_numbers(start: str, source: str, tmp_path: Path) -> None:
    rows = made_rows(STARTS[start]).with_columns(y=pl.int_range(ROWS) % 3)
    data = TableData(
        target="y",
        query="g",
        split=GroupSplit(kind="group", column="g"),
        **written(rows, source, tmp_path),
    )
    features = FeaturesSection(numeric="none", impute="median")
    data = data.model_copy(update={"features": features})
    far = prepare_table(read_table(data, tmp_path), data, "ranking", 0)
    judged = read_part(rows, far.features, far.target)  # type: ignore[arg-type]
    assert len(np.unique(judged.units)) == DIFFERENT


def test_two_clusters_that_no_center_serves_keep_their_order(tmp_path: Path) -> None:
    """Seconds of two hours, years apart: single precision holds them from neither."""
    rows = made_rows(0).with_columns(x=1_600_000_000 + pl.col("g") % 2 * 100_000_000 + pl.col("g"))
    numeric = prepared(rows, tmp_path).train.inputs.columns().numeric[:, 0]
    order = np.argsort(numeric, kind="stable")
    assert len(np.unique(numeric)) == DIFFERENT
    assert (np.diff(rows["x"].to_numpy()[prepared(rows, tmp_path).train.rows][order]) >= 0).all()


@pytest.mark.parametrize("start", ["1" + 24 * "0", "two ranges"])
def test_numbers_that_no_origin_tells_apart_are_categories(start: str, tmp_path: Path) -> None:
    """More digits than 64 bits have, or two ranges farther from each other than doubles reach."""
    group = pl.col("g")
    values = group % 20 + 2**60 + (group // 20) * 2**61
    if start != "two ranges":
        values = pl.lit(start[:-2]) + group.cast(pl.String).str.zfill(2)
    far = prepared(made_rows(0).with_columns(x=values, g=values), tmp_path, source="csv")
    kinds = {one.name: one.kind for one in far.features.columns}  # type: ignore[attr-defined]
    assert kinds["x"] == "categorical"
    assert far.features.cardinalities[0] > 30
    grouped = prepared(
        made_rows(0).with_columns(x=values, g=values),
        tmp_path,
        GroupSplit(kind="group", column="g"),
        "csv",
    )
    assert len({*grouped.train.units, *grouped.validation.units, *grouped.test.units}) == DIFFERENT


def test_a_target_that_doubles_do_not_tell_apart_is_refused(tmp_path: Path) -> None:
    rows = made_rows(0).with_columns(y=pl.int_range(ROWS) + 2**60)
    with pytest.raises(DataMistake, match="doubles"):
        prepared(rows, tmp_path)


SCALED = {"linear": "standard", "neighbours": "standard"}
FAMILIES = ("boosting", "xgboost", "catboost", "forest", "linear", "neighbours")


def few_trees(kind: str, objective: str = "squared_error") -> Any:
    """The section of a small model."""
    few = {"max_trees": 60, "trees": 30, "feature_fraction": 1.0, "objective": objective}
    section = sections()[kind](kind=kind)
    known = {key: few[key] for key in few if key in type(section).model_fields}
    return section.model_copy(update=known)


def job_of(data: Prepared, metric: str = "rmse") -> LibraryJob:
    return LibraryJob(data.train, data.validation, 1, data.features.cardinalities, 0, metric, 0.5)


def fitted(kind: str, data: Prepared, metric: str = "rmse") -> Any:
    is_relative = metric == "mape" and kind != "xgboost"
    section = few_trees(kind, "mape" if is_relative else "squared_error")
    return library_family(section).fit(section, job_of(data, metric)).scorer


def predictions(kind: str, data: Prepared, metric: str = "rmse") -> Any:
    return fitted(kind, data, metric).score(data.test.inputs)[:, 0]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_predicts_as_if_counted_from_0(kind: str, start: str, tmp_path: Path) -> None:
    numeric = SCALED.get(kind, "none")
    expected = predictions(kind, prepared(made_rows(0), tmp_path, numeric=numeric))
    far = predictions(kind, prepared(made_rows(STARTS[start]), tmp_path, numeric=numeric))
    assert np.allclose(far, expected, atol=1e-4)


@pytest.mark.parametrize("numeric", ["standard", "robust", "quantile", "none"])
def test_networks_read_columns_as_if_counted_from_0(numeric: str, tmp_path: Path) -> None:
    near, far = (
        TableInputs.of_kind(prepared(made_rows(start), tmp_path, numeric=numeric).train.inputs)
        for start in (0, 2**60)
    )
    different = [len(np.unique(one.numeric[:, 0])) for one in (near, far)]
    assert different == [DIFFERENT, DIFFERENT]


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize(("factor", "offset"), in_test(3, [(1.0, 1e9), (1e-9, 0.0), (1e15, 0.0)]))
def test_a_target_in_another_unit_is_predicted_alike(
    kind: str, factor: float, offset: float, tmp_path: Path
) -> None:
    rows = made_rows(0)
    moved = rows.with_columns(y=pl.col("y") * factor + offset)
    numeric = SCALED.get(kind, "none")
    expected = predictions(kind, prepared(rows, tmp_path, numeric=numeric))
    found = predictions(kind, prepared(moved, tmp_path, numeric=numeric))
    assert np.corrcoef((found - offset) / factor, expected)[0, 1] > 0.99
    assert np.allclose((found - offset) / factor, expected, atol=0.15)


@pytest.mark.parametrize("kind", ["boosting", "catboost", "xgboost"])
def test_relative_errors_are_those_of_any_unit(kind: str, tmp_path: Path) -> None:
    rows = made_rows(0).with_columns(y=(3 * pl.col("y")).exp())
    small, large = (
        predictions(kind, prepared(rows.with_columns(pl.col("y") * unit), tmp_path), "mape") / unit
        for unit in (1e-4, 1e4)
    )
    assert np.allclose(small, large, rtol=1e-3)


@pytest.mark.parametrize("kind", ["boosting", "xgboost", "catboost", "forest"])
def test_several_targets_far_from_0_are_learned(kind: str, tmp_path: Path) -> None:
    data = prepared(made_rows(0), tmp_path)

    def moved(part: Part) -> Part:
        return replace(part, target=np.stack([part.target + 1e9, part.target * 1e-9], axis=1))

    job = replace(job_of(data), train=moved(data.train), validation=moved(data.validation))
    section = few_trees(kind)
    fit = library_family(section).fit(section, replace(job, outputs=2))
    scores = fit.scorer.score(data.test.inputs)
    assert np.corrcoef(scores[:, 0] - 1e9, data.test.target)[0, 1] > 0.9
    assert np.corrcoef(scores[:, 1], data.test.target)[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["boosting", "xgboost", "catboost"])
def test_quantiles_far_from_0_are_learned(kind: str, tmp_path: Path) -> None:
    data = prepared(made_rows(0).with_columns(pl.col("y") + 1e9), tmp_path)
    section = few_trees(kind, "quantile")
    job = replace(job_of(data, "pinball"), quantiles=(0.1, 0.5, 0.9))
    scorer = library_family(section).fit(section, job).scorer
    scorer.write(tmp_path)
    scores = library_family(section).read(tmp_path).score(data.test.inputs)
    assert np.corrcoef(scores[:, 1] - 1e9, data.test.target - 1e9)[0, 1] > 0.9
    assert (scores[:, 0] < scores[:, 2]).mean() > 0.9


@pytest.mark.parametrize("kind", ["boosting", "xgboost", "catboost", "forest"])
def test_a_bundle_predicts_in_the_unit_of_its_target(kind: str, tmp_path: Path) -> None:
    data = prepared(made_rows(0).with_columns(pl.col("y") + 1e9), tmp_path)
    scorer = fitted(kind, data)
    scorer.write(tmp_path)
    again = library_family(sections()[kind](kind=kind)).read(tmp_path)
    assert np.array_equal(again.score(data.test.inputs), scorer.score(data.test.inputs))
    if kind in ("boosting", "xgboost"):
        each = scorer.contributions(data.test.inputs)[:, 0].sum(axis=1)
        assert np.allclose(each, scorer.score(data.test.inputs)[:, 0], atol=1e-3, rtol=0)


def test_a_long_sentinel_makes_no_neighbour_missing() -> None:
    cells = pl.Series("x", [2**63 - 1, 2**63 - 2, -9, None])
    cleaned = Cleaning(("9223372036854775807", "-9.0", "nan"), {}).cells(cells)
    assert cleaned.to_list() == [None, 2**63 - 2, None, None]


def test_new_rows_may_spell_long_numbers_with_an_exponent(tmp_path: Path) -> None:
    rows = made_rows(0).with_columns(x=pl.lit(2**60) + 256 * pl.col("g"))
    encoder = prepared(rows, tmp_path).features
    assert isinstance(encoder, TableEncoder)
    spelled = [repr(float(number)) for number in rows["x"]]
    near = encoder.read(rows.with_columns(x=pl.Series(spelled)))
    assert np.array_equal(encoder.transform(near).numeric, encoder.transform(rows).numeric)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_an_experiment_sees_a_leak_into_a_target_far_from_0(offset: float) -> None:
    draw = np.random.default_rng(0)
    copy = draw.normal(size=600)
    rows = ProbeRows(pl.DataFrame({"copy": copy + 1e9}), copy + offset, 1)
    column = ColumnType("copy", "numeric", "", 0, 600, "")
    scores = out_of_fold(rows, encode(rows, [column]), np.arange(600) % 5, "boosting", level=False)
    assert np.corrcoef(scores[:, 0] - offset, copy)[0, 1] > 0.95


def test_versions_of_data_differ_by_the_last_digit() -> None:
    ids = pl.Series("id", [2**60, 2**60 + 1, None], dtype=pl.Int64)
    words = hash_rows(ids.to_frame())
    assert len(set(words.tolist())) == len(ids)
    small = pl.Series("id", [1, 2, None], dtype=pl.Int64)
    as_doubles = hash_rows(small.cast(pl.Float64).to_frame())
    assert np.array_equal(hash_rows(small.to_frame()), as_doubles)
    before, after = (profile_column(2**60 + pl.Series("id", range(n, n + 8))) for n in (0, 8))
    assert distance(before, after) == 1


def test_large_measurements_stay_numbers_however_they_are_spelled(tmp_path: Path) -> None:
    group = pl.col("g").cast(pl.String)
    mixed = pl.when(pl.int_range(ROWS) % 2 == 0).then(group + "e17").otherwise(group + ".0E17")
    rows = made_rows(0).with_columns(x=mixed, y=pl.col("y") * 1e20)
    data = TableData(target="y", split=RandomSplit(kind="random"), **written(rows, "csv", tmp_path))
    facts = read_table(data, tmp_path).facts
    assert {one.name: one.kind for one in facts.columns}["x"] == "numeric"
    assert facts.target.kind == "numbers"
    assert best_typed(pl.Series(["1.5e300", "2e17", "3"])).dtype == pl.Float64
