"""Forecasting from a contract: judged by origin, predicted with, resumed, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import command, stopped_at
from made_series import made_items, made_series, write_series
from trainwright.core.files import read_json
from trainwright.run.after.evaluate_rows import evaluate_rows
from trainwright.tracking.run_folder import RunFolder

CONTRACT = """\
name: sales
task: forecasting
data:
  kind: series
  path: sales.csv
  target: sales
  time: day
  series: shop
  horizon: 7
  season: 7
  known: [holiday]
  validation_steps: 42
  test_steps: 49
model: {kind: boosting, max_trees: 40}
"""


def write_contract(folder: Path, frame: pl.DataFrame | None = None, text: str = CONTRACT) -> Path:
    write_series(folder, frame)
    contract = folder / "sales.yaml"
    contract.write_text(text)
    return contract


RUNS = ("one", "other")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forecasting")
    contract = write_contract(folder, made_series(300))
    ran = command("train", contract, "--runs", folder / "runs", "--run", "one")
    assert ran.code in (0, 3), ran.err
    return folder / "runs" / "one"


def judged(run: Path) -> Any:
    return read_json(run / "evaluation.json")["evaluation"]


@pytest.mark.parametrize(
    ("settings", "status", "outcome"),
    [
        ((), "invalid", ["changes_decision"]),
        (
            ("data.audit.accept=[{finding: leak, columns: [booked], reason: sold out}]",),
            "met",
            ["accepted"],
        ),
        (("data.known=[holiday]",), "met", []),
    ],
)
def test_a_known_column_that_tells_the_target_makes_the_verdict_invalid(
    tmp_path: Path, settings: tuple[str, ...], status: str, outcome: list[str]
) -> None:
    noise = np.random.default_rng(0).normal(size=600)
    sales = made_series(300).with_columns(booked=pl.col("sales") / 2 + noise / 10)
    text = CONTRACT.replace("[holiday]", "[holiday, booked]") + "metric: {target: dummy}\n"
    contract = write_contract(tmp_path, sales, text)
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", contract, "--runs", tmp_path / "runs", "--run", "one", *words)
    assert ran.code in (0, 3), ran.err
    verdict = read_json(tmp_path / "runs/one/evaluation.json")["verdict"]
    assert verdict["status"] == status
    assert [one["outcome"] for one in verdict["findings"]] == outcome
    assert all(
        one["write"] in ("", "data: {known: [holiday], exclude: [booked]}")
        for one in verdict["findings"]
    )


OF_ITEMS = """\
task: forecasting
data: {kind: series, path: sales.csv, target: sales, time: day, series: shop, horizon: 5, \
test_steps: 30}
model: {kind: linear}
"""


def test_a_linear_forecast_is_not_met_while_the_last_value_is_better(tmp_path: Path) -> None:
    contract = write_contract(tmp_path, made_items(), OF_ITEMS)
    for target, code in (("baseline", 3), (100, 3), ("dummy", 0)):
        setting = f"metric.target={target}"
        ran = command("train", contract, "--runs", tmp_path / "runs", "--set", setting)
        assert ran.code == code, ran.err
        better = "mase minus persistence baseline < 0"
        assert (better in ran.out) == (code == 3)
        assert "the naive forecast (last known target) is better than the model: mase" in ran.out
        assert "mase: 260 of 520 values are of series that do not change" in ran.out
    ran = command("train", contract, "--runs", tmp_path / "runs", "--set", "metric.name=mape")
    assert (ran.code, "22% of their targets are 0" in ran.err) == (2, True)


@pytest.mark.extended
def test_the_model_is_held_against_every_forecast_without_a_model(trained: Path) -> None:
    evaluation = judged(trained)
    names = {"dummy", "linear", "persistence", "seasonal_naive", "drift"}
    assert set(evaluation["baselines"]) == names
    assert evaluation["units"] == 7
    own = evaluation["metrics"]["mase"]
    assert own["low"] < own["value"] < own["high"]
    assert own["high"] < evaluation["baselines"]["persistence"]["mase"]["value"]


@pytest.mark.extended
def test_metrics_are_those_of_the_written_forecasts(trained: Path) -> None:
    rows = pl.read_parquet(trained / "predictions.parquet")
    sales = made_series(300)
    # The training part ends where validation and test begin: its last step is the first origin.
    train = sales.group_by("shop", maintain_order=True).head(300 - 49 - 42)
    scales = {}
    for (shop,), one in train.group_by("shop"):
        values = one["sales"].to_numpy()
        scales[shop] = float(np.abs(values[7:] - values[:-7]).mean())
    errors = (rows["target"] - rows["prediction"]).abs()
    scale = rows["series"].replace_strict(scales, return_dtype=pl.Float64)
    found = judged(trained)["metrics"]
    assert found["mase"]["value"] == pytest.approx(float((errors / scale).mean()))
    both = rows["target"].abs() + rows["prediction"].abs()
    assert found["smape"]["value"] == pytest.approx(float((200 * errors / both).mean()))
    assert found["mae"]["value"] == pytest.approx(float(errors.mean()))
    joined = rows.join(
        sales.select("shop", "sales", pl.col("day").str.to_datetime(time_unit="us")),
        left_on=["series", "time"],
        right_on=["shop", "day"],
    )
    assert len(joined) == len(rows) == 2 * 43 * 7
    assert joined["target"].equals(joined["sales"].alias("target"))


def test_a_forecast_from_the_past_alone_is_the_one_that_was_judged(trained: Path) -> None:
    """Rows behind the origin lack what is not known beforehand: no forecast used it."""
    rows = pl.read_parquet(trained / "predictions.parquet")
    origin = rows["origin"].unique().sort()[20]
    date = pl.col("day").str.to_datetime(time_unit="us")
    past = made_series(300).with_columns(
        pl.when(date > origin).then(None).otherwise(pl.col(name)).alias(name)
        for name in ("sales", "temperature")
    )
    found = tw.load(trained).predict(past)
    wanted = rows.filter(pl.col("origin") == origin).sort("series", "step")
    assert found.columns == ["day", "shop", "origin", "step", "prediction"]
    assert found["day"].to_list() == wanted["time"].dt.date().to_list()
    assert found["shop"].to_list() == wanted["series"].to_list()
    assert found["prediction"].to_list() == wanted["prediction"].to_list()


def test_predict_writes_the_steps_that_follow(trained: Path, tmp_path: Path) -> None:
    longer = made_series(307)
    step = pl.int_range(pl.len()).over("shop")
    frame = longer.with_columns(pl.when(step < 300).then(pl.col("sales")).alias("sales"))
    file, written = write_series(tmp_path, frame), tmp_path / "forecasts.csv"
    ran = command("predict", trained, file, "-o", written)
    assert ran.code == 0, ran.err
    found = pl.read_csv(written)
    wanted = longer.filter(step >= 300)
    assert found["day"].to_list() == wanted["day"].to_list()
    assert set(found["origin"]) == {longer["day"][299]}
    assert float((found["prediction"] - wanted["sales"]).abs().mean()) < 20


def test_predict_asks_for_known_columns_and_a_history(trained: Path, tmp_path: Path) -> None:
    frame = made_series(300)
    ran = command("predict", trained, write_series(tmp_path, frame), "-o", tmp_path / "f.csv")
    assert ran.code == 2
    assert "'holiday', which is known beforehand, has no value at 14 times" in ran.err
    assert not (tmp_path / "f.csv").exists()
    none = frame.with_columns(pl.lit(None).alias("sales"))
    ran = command("predict", trained, write_series(tmp_path, none), "-o", tmp_path / "f.csv")
    assert ran.code == 2
    assert "too little history" in ran.err


def test_newer_rows_are_evaluated_behind_the_end_of_the_run(trained: Path, tmp_path: Path) -> None:
    file = write_series(tmp_path, made_series(360))
    found = evaluate_rows(RunFolder(trained), file).evaluation
    assert found.rows == 2 * 54 * 7
    assert found.metrics["mase"].value < found.baselines["dummy"]["mase"].value
    old = command("evaluate", trained, write_series(tmp_path, made_series(300)))
    assert old.code == 2
    assert "no forecast to judge" in old.err


def test_the_report_draws_the_newest_forecasts_and_errors_by_step(trained: Path) -> None:
    page = (trained / "report.html").read_text(encoding="utf-8")
    assert "Newest forecasts of north" in page
    assert "Newest forecasts of south" in page
    assert "Error by step" in page
    curves = judged(trained)["curves"]
    assert curves["steps"] == list(range(1, 8))
    own = judged(trained)["metrics"]["mase"]["value"]
    assert np.mean(curves["errors"]["model"]) == pytest.approx(own)
    (path, _) = curves["paths"]
    assert path["begins"] == [0, 7, 14, 21, 28, 35, 42]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("networks")
    text = CONTRACT.replace("{kind: boosting, max_trees: 40}", "{kind: mlp, hidden: [16]}")
    text += "training: {num_epochs: 3, batch_size: 64}\n"
    contract = write_contract(folder, made_series(200), text)
    runs = folder / "runs"
    ran = command("train", contract, "--runs", runs, "--run", "one")
    assert ran.code in (0, 3), ran.err
    ran = stopped_at(20, "train", str(contract), "--runs", str(runs), "--run", "other")
    assert ran.code == 75, ran.err
    ran = command("resume", runs / "other")
    assert ran.code in (0, 3), ran.err
    return runs


@pytest.mark.torch
def test_a_network_learns_and_goes_on_to_the_same_forecasts(networks: Path) -> None:
    one, other = (pl.read_parquet(networks / name / "predictions.parquet") for name in RUNS)
    assert one.equals(other)
    events = (networks / "one" / "events.jsonl").read_text().splitlines()
    seen = [json.loads(line) for line in events]
    values = [one["values"]["val_mase"] for one in seen if one["event"] == "validated"]
    assert values[-1] < values[0]
    # Of the validation part too, errors are in the unit of the series.
    assert values[-1] < 3


@pytest.mark.torch
def test_no_graph_is_written_that_lacks_the_levels(networks: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    words = ("weights", "export", networks / "one", "--to", "onnx", "-o", tmp_path / "graph")
    ran = command(*words)
    assert ran.code == 2
    assert "the level of each row" in ran.err
    assert not (tmp_path / "graph").exists()


def duplicated(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frame, frame[[10]]])


def irregular(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 4)
        .then(pl.lit("2020-01-05 07:30:00"))
        .otherwise(pl.col("day") + " 00:00:00")
        .alias("day")
    )


def on_two_weekdays(frame: pl.DataFrame) -> pl.DataFrame:
    weeks = frame.filter(pl.int_range(pl.len()).over("shop") % 7 == 0)
    later = pl.col("day").str.to_date().dt.offset_by("3d").cast(pl.String)
    return weeks.with_columns(
        pl.when(pl.col("shop") == "south").then(later).otherwise("day").alias("day")
    )


def of_words(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit("many").alias("sales"))


def short(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by("shop", maintain_order=True).head(90)


REFUSED: list[tuple[Callable[[pl.DataFrame], pl.DataFrame], tuple[str, ...]]] = [
    (duplicated, ("share a time with another row", "lines 12, 402", "remove the repeated")),
    (irregular, ("not equally spaced", "line 6", "a day apart", "aggregate the rows")),
    (on_two_weekdays, ("29 times are not", "a week apart", "to means of a week")),
    (of_words, ("sales", "not numbers")),
    (short, ("the history is too short", "90 time steps", "at least 105", "give a longer history")),
    (lambda frame: frame.drop("holiday"), ("no column 'holiday'", "data.known.0")),
    (lambda frame: frame.rename({"temperature": "step"}), ("called 'step'", "rename")),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_unusable_series_are_refused_with_place_and_fix(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], said: tuple[str, ...]
) -> None:
    contract = write_contract(tmp_path, change(made_series(200)))
    ran = command("train", contract, "--runs", tmp_path / "runs")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    for one in said:
        assert one in " ".join(ran.err.split()), ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("data.test_steps=5",), "shorter than the horizon"),
        (("data.known=[sales]",), "named twice"),
        (("model={kind: auto}",), "learned by one kind of model"),
        (("task=regression",), "data of kind series has no regression"),
        (("metric.name=accuracy",), "a metric of classification"),
        (("data.relative_to=nothing", "data.relation=ratio"), "relation to nothing"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, settings: tuple[str, ...], said: str) -> None:
    contract = write_contract(tmp_path, made_series(200))
    words = [word for one in settings for word in ("--set", one)]
    ran = command("check", contract, *words)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())


@pytest.mark.extended
def test_gaps_are_told_and_make_no_values_up(tmp_path: Path) -> None:
    frame = made_series(200)
    gone = frame.filter(~((pl.col("shop") == "south") & (pl.col("day") == "2020-02-10")))
    contract = write_contract(tmp_path, gone)
    ran = command("train", contract, "--runs", tmp_path / "runs", "--run", "one")
    assert ran.code in (0, 3), ran.err
    said = " ".join(ran.err.split())
    assert "1 time step has no row (2020-02-10 00:00:00)" in said
    split = read_json(tmp_path / "runs" / "one" / "data" / "split.json")
    whole = write_contract(tmp_path, frame)
    assert command("train", whole, "--runs", tmp_path / "runs", "--run", "all").code in (0, 3)
    rows = read_json(tmp_path / "runs" / "all" / "data" / "split.json")["rows"]
    assert split["rows"]["test"] == rows["test"]
    assert split["rows"]["train"] < rows["train"]


@pytest.mark.extended
def test_few_blocks_leave_the_verdict_undecided(tmp_path: Path) -> None:
    contract = write_contract(tmp_path, made_series(200))
    words = ("--runs", tmp_path / "runs", "--run", "one")
    ran = command("train", contract, "--set", "data.test_steps=14", *words)
    assert ran.code == 3
    assert read_json(tmp_path / "runs" / "one" / "evaluation.json")["verdict"]["status"] == (
        "undecided"
    )
    assert "data.test_steps: 41 gives enough" in ran.err
