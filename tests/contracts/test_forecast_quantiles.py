"""Forecasts by quantiles: judged by step, calibrated by step, held against baselines, resumed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import mean_pinball_loss

import trainwright as tw
from command import command, stopped_at
from made_series import SECTION, made_series, write_series
from trainwright.core.files import read_json
from trainwright.data.columns.number_target import ForecastTarget
from trainwright.data.columns.target import target_from_json
from trainwright.data.series.series_encoder import SeriesEncoder
from trainwright.predictor.bundle import read_bundle
from trainwright.run.after.evaluate_rows import evaluate_rows
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

QUANTILES = (0.1, 0.5, 0.9)
NAMES = [f"quantile_{one:g}" for one in QUANTILES]
DAYS, TEST, VALIDATION, HORIZON = 300, 49, 42, 7
TRAINED = DAYS - TEST - VALIDATION


def contract_of(folder: Path, kind: str, **sections: Any) -> dict[str, Any]:
    if not (folder / "sales.csv").exists():
        write_series(folder, made_series(DAYS))
    data = {**SECTION, "path": str(folder / "sales.csv"), "test_steps": TEST}
    few = {"max_trees": 30} if kind == "boosting" else {}
    return {
        "task": "forecasting",
        "data": data,
        "model": {"kind": kind, **few},
        "metric": {"quantiles": list(QUANTILES), "target": "dummy", "resamples": 100},
        **sections,
    }


def judged(run: Path) -> Any:
    return read_json(run / "evaluation.json")["evaluation"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forecast_quantiles")


@pytest.fixture(scope="module")
def contract(folder: Path) -> dict[str, Any]:
    return contract_of(folder, "boosting", training={"calibration": "conformal"})


@pytest.fixture(scope="module")
def trained(folder: Path, contract: dict[str, Any]) -> Path:
    return tw.train(contract, runs=folder, name="trees").folder


@pytest.fixture(scope="module")
def linear(folder: Path) -> Path:
    return tw.train(contract_of(folder, "linear"), runs=folder, name="linear").folder


def scales() -> Mapping[str, float]:
    train = made_series(DAYS).group_by("shop", maintain_order=True).head(TRAINED)
    return {
        str(shop): float(np.abs(one["sales"].to_numpy()[7:] - one["sales"].to_numpy()[:-7]).mean())
        for (shop,), one in train.group_by("shop")
    }


@pytest.mark.extended
def test_metrics_are_those_of_the_written_quantiles(trained: Path) -> None:
    rows = pl.read_parquet(trained / "predictions.parquet")
    quantiles, truth = rows.select(NAMES).to_numpy(), rows["target"].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    np.testing.assert_array_equal(rows["prediction"], rows["quantile_0.5"])
    found = {name: one["value"] for name, one in judged(trained)["metrics"].items()}
    losses = [mean_pinball_loss(truth, quantiles[:, k], alpha=q) for k, q in enumerate(QUANTILES)]
    assert found["pinball"] == pytest.approx(np.mean(losses))
    unit = rows["series"].replace_strict(scales(), return_dtype=pl.Float64).to_numpy()
    apart = truth[:, None] - quantiles
    levels = np.array(QUANTILES)
    each = np.where(apart >= 0, levels * apart, (levels - 1) * apart)
    assert found["scaled_pinball"] == pytest.approx((each / unit[:, None]).mean())
    inside = (quantiles[:, 0] <= truth) & (truth <= quantiles[:, 2])
    assert found["coverage"] == pytest.approx(inside.mean())
    assert found["interval_width"] == pytest.approx((quantiles[:, 2] - quantiles[:, 0]).mean())
    assert found["mase"] == pytest.approx((np.abs(apart[:, 1]) / unit).mean())
    assert judged(trained)["units"] == TEST // HORIZON
    again = read_predictions(RunFolder(trained)).answers
    assert again.quantiles == QUANTILES
    np.testing.assert_allclose(again.scores, quantiles)


def test_each_step_has_its_coverage_width_and_loss(trained: Path) -> None:
    rows = pl.read_parquet(trained / "predictions.parquet").with_columns(
        pl.col("series").replace_strict(scales(), return_dtype=pl.Float64).alias("unit"),
        pl.col("target").is_between("quantile_0.1", "quantile_0.9").alias("inside"),
    )
    width = (pl.col("quantile_0.9") - pl.col("quantile_0.1")) / pl.col("unit")
    by_step = rows.group_by("step").agg(pl.col("inside").mean(), width.mean().alias("width"))
    by_step = by_step.sort("step")
    (found,) = judged(trained)["curves"]["intervals"]
    assert found["said"] == pytest.approx(0.8)
    np.testing.assert_allclose(found["coverage"]["model"], by_step["inside"])
    np.testing.assert_allclose(found["width"]["model"], by_step["width"])
    own = judged(trained)["metrics"]["scaled_pinball"]["value"]
    assert np.mean(found["pinball"]["model"]) == pytest.approx(own)
    assert set(found["coverage"]) == {"model", *judged(trained)["baselines"]}
    page = (trained / "report.html").read_text(encoding="utf-8")
    for said in ("with the interval of each", "Coverage by step", "Width by step"):
        assert said in page
    (path, _) = judged(trained)["curves"]["paths"]
    assert all(low <= high for low, high in zip(path["low"], path["high"], strict=True))
    assert len(path["low"]) == len(path["truth"]) == TEST


@pytest.mark.extended
def test_shifts_of_each_step_are_those_of_its_validation_origins(
    trained: Path, contract: dict[str, Any]
) -> None:
    """By hand: the rank of split conformal quantile regression among the residuals of the step, in
    the unit that the trees learn, and Student's factor for the windows that do not overlap."""
    calibration = read_bundle(trained / "bundle").calibration
    assert not calibration.shifts
    part = tw.prepare(contract).ready.prepared.validation
    scorer = read_bundle(trained / "bundle").scorer
    scores = np.sort(scorer.score(part.inputs), axis=1)
    levels = part.inputs.levels
    truth = (part.target - levels.offset) / levels.scale
    steps = part.frame["step"].to_numpy()
    assert len(calibration.step_shifts) == HORIZON
    windows = 2 * (VALIDATION - HORIZON + 1) / HORIZON + 1
    factor = np.sqrt(1 + 1 / windows) * stats.t.ppf(0.9, windows - 1) / stats.norm.ppf(0.9)
    assert 1 < factor < 1.3
    for step, (low, middle, high) in enumerate(calibration.step_shifts, start=1):
        rows = steps == step
        count = int(rows.sum())
        assert count == 2 * (VALIDATION - HORIZON + 1)
        rank = int(np.ceil(0.9 * (count + 1)))
        assert middle == 0
        for shift, column, sign in ((high, 2, 1), (low, 0, -1)):
            reach = sign * (scores[rows, column] - scores[rows, 1]).mean()
            missed = np.sort(sign * (truth[rows] - scores[rows, column]))[rank - 1]
            assert sign * shift == pytest.approx(max(factor * (reach + missed), reach) - reach)
    predicted = read_bundle(trained / "bundle").score(part.inputs)
    shifted = scores + np.array(calibration.step_shifts)[steps.astype(int) - 1]
    by_hand = np.sort(shifted, axis=1) * levels.scale[:, None] + levels.offset[:, None]
    np.testing.assert_allclose(predicted, by_hand, rtol=1e-12)
    stored = read_json(trained / "evaluation.json")["calibration"]
    assert stored["changes"]["scaled_pinball"]["before"]["value"] is not None


@pytest.mark.extended
def test_naive_forecasts_have_the_quantiles_of_their_own_residuals(trained: Path) -> None:
    sales = {
        str(shop): one["sales"].to_numpy() for (shop,), one in made_series(DAYS).group_by("shop")
    }
    rows = pl.read_parquet(trained / "predictions.parquet")
    first = rows["origin"].min()
    features = read_bundle(trained / "bundle").features
    assert isinstance(features, SeriesEncoder)
    earliest = features.lookback.fewest - 1
    losses: dict[str, list[float]] = {"persistence": [], "seasonal_naive": []}
    columns = rows.select("series", pl.col("step").cast(int), "origin", "target")
    for shop, step, origin, truth in columns.rows():
        values, at = sales[shop], DAYS - 1 - TEST + (origin - first).days
        # Training origins have a level, and their forecast lies in the training part.
        origins = np.arange(earliest, TRAINED - step)
        backs = {"persistence": step, "seasonal_naive": 7}
        for name, back in backs.items():
            begun = origins + step - back
            residuals = values[origins + step] - values[np.where(begun >= 0, begun, origins)]
            shifts = np.quantile(residuals, QUANTILES)
            apart = truth - (values[at + step - back] + shifts)
            levels = np.array(QUANTILES)
            loss = np.where(apart >= 0, levels * apart, (levels - 1) * apart).mean()
            losses[name].append(float(loss / scales()[shop]))
    for name, each in losses.items():
        found = judged(trained)["baselines"][name]["scaled_pinball"]["value"]
        # Widened a little to hold on the validation rows.
        assert found == pytest.approx(np.mean(each), rel=0.02), name


@pytest.mark.extended
def test_a_linear_model_has_an_interval_of_each_step(linear: Path) -> None:
    scorer: Any = read_bundle(linear / "bundle").scorer
    assert scorer.by_step.shape == (HORIZON, 3)
    part = tw.prepare(contract_of(linear.parent, "linear")).ready.prepared.train
    levels = part.inputs.levels
    truth = (part.target - levels.offset) / levels.scale
    scores, steps = scorer.score(part.inputs), part.frame["step"].to_numpy()
    for step in range(1, HORIZON + 1):
        below = truth[steps == step, None] <= scores[steps == step] + 1e-9
        np.testing.assert_allclose(below.mean(axis=0), QUANTILES, atol=0.01)
    rows = pl.read_parquet(linear / "predictions.parquet")
    assert (np.diff(rows.select(NAMES).to_numpy(), axis=1) > 0).all()
    of_model, of_baseline = judged(linear)["metrics"], judged(linear)["baselines"]["linear"]
    assert of_model["scaled_pinball"]["value"] == pytest.approx(
        of_baseline["scaled_pinball"]["value"], rel=0.1
    )


@pytest.mark.extended
def test_future_steps_have_an_interval(trained: Path, linear: Path) -> None:
    longer = made_series(DAYS + HORIZON)
    step = pl.int_range(pl.len()).over("shop")
    frame = longer.with_columns(pl.when(step < DAYS).then(pl.col("sales")).alias("sales"))
    for run in (trained, linear):
        found = tw.load(run).predict(frame)
        assert found.columns == ["day", "shop", "origin", "step", "prediction", *NAMES]
        quantiles = found.select(NAMES).to_numpy()
        assert found.height == 2 * HORIZON
        assert (np.diff(quantiles, axis=1) >= 0).all()
        truth = longer.filter(step >= DAYS)["sales"].to_numpy()
        assert np.mean((quantiles[:, 0] <= truth) & (truth <= quantiles[:, 2])) > 0.3


def test_newer_rows_are_judged_by_quantiles(trained: Path, tmp_path: Path) -> None:
    found = evaluate_rows(RunFolder(trained), write_series(tmp_path, made_series(DAYS + 60)))
    metrics, dummy = found.evaluation.metrics, found.evaluation.baselines["dummy"]
    assert found.evaluation.rows == 2 * 54 * HORIZON
    assert metrics["scaled_pinball"].value < dummy["scaled_pinball"].value
    assert 0.3 < metrics["coverage"].value <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["xgboost", "catboost"])
def test_every_boosting_library_forecasts_quantiles(kind: str, folder: Path) -> None:
    pytest.importorskip(kind)
    contract = contract_of(folder, kind, training={"calibration": "conformal"})
    contract["model"]["max_trees"] = 40
    run = tw.train(contract, runs=folder).folder
    quantiles = pl.read_parquet(run / "predictions.parquet").select(NAMES).to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert judged(run)["gains"]["dummy"]["scaled_pinball"]["high"] < 0
    assert judged(run)["metrics"]["coverage"]["value"] > 0.5
    assert len(read_bundle(run / "bundle").calibration.step_shifts) == HORIZON


@pytest.mark.extended
def test_steps_with_few_validation_origins_take_those_of_their_neighbours(folder: Path) -> None:
    contract = contract_of(folder, "linear", metric={"quantiles": [0.05, 0.5, 0.95]})
    contract["data"] |= {"validation_steps": 9}
    run = tw.train(contract, runs=folder).folder
    assert judged(run)["metrics"]["coverage"]["value"] > 0.85
    assert len(read_bundle(run / "bundle").calibration.step_shifts) == HORIZON
    contract["data"] |= {"validation_steps": 7}
    run = tw.train(contract, runs=folder).folder
    assert "not calibrated: 14 validation rows, and 19 are needed" in judged(run)["warnings"]
    assert not read_bundle(run / "bundle").calibration


def growing_series(folder: Path) -> Path:
    """Twelve years of months whose season grows with their level, as of airline passengers."""
    draw, month = np.random.default_rng(1), np.arange(144)
    season = 0.2 * np.sin(2 * np.pi * month / 12) + 0.06 * np.cos(2 * np.pi * month / 6)
    level = np.exp(4.8 + 0.01 * month + season + 0.03 * draw.normal(size=144))
    names = [f"{1949 + at // 12}-{at % 12 + 1:02d}" for at in month]
    pl.DataFrame({"month": names, "passengers": level.round()}).write_csv(folder / "air.csv")
    return folder / "air.csv"


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["linear", "boosting"])
def test_intervals_hold_on_the_test_years_of_a_growing_series(kind: str, tmp_path: Path) -> None:
    data = {"kind": "series", "path": str(growing_series(tmp_path)), "target": "passengers"}
    data |= {"time": "month", "horizon": 12, "test_steps": 36}
    contract = contract_of(tmp_path, kind, data=data, model={"kind": kind})
    found = judged(tw.train(contract, runs=tmp_path).folder)
    covered = {who: one["coverage"]["value"] for who, one in found["baselines"].items()}
    assert found["metrics"]["coverage"]["value"] > 0.75
    assert min(covered["persistence"], covered["seasonal_naive"]) > 0.7
    contract["training"] = {"calibration": "none"}
    found = judged(tw.train(contract, runs=tmp_path).folder)
    assert found["metrics"]["coverage"]["value"] < 0.7


@pytest.mark.extended
@pytest.mark.torch
def test_a_network_learns_quantiles_and_goes_on_with_the_same_bits(folder: Path) -> None:
    pytest.importorskip("torch")
    text = contract_of(folder, "mlp")
    text["model"]["hidden"] = [16]
    text["data"]["lags"] = [1, 7]
    text["training"] = {"num_epochs": 3, "batch_size": 64, "calibration": "conformal"}
    path, runs = folder / "network.json", folder / "networks"
    path.write_text(json.dumps(text))
    ran = command("train", path, "--runs", runs, "--run", "one")
    assert ran.code in (0, 3), ran.err
    cut = random.Random(5).randrange(2, 100)
    ran = stopped_at(cut, "train", str(path), "--runs", str(runs), "--run", "other")
    assert ran.code == 75, ran.err
    assert command("resume", runs / "other").code in (0, 3)
    one, other = (pl.read_parquet(runs / name / "predictions.parquet") for name in ("one", "other"))
    assert one.equals(other)
    assert (np.diff(one.select(NAMES).to_numpy(), axis=1) >= 0).all()
    assert judged(runs / "one")["gains"]["dummy"]["scaled_pinball"]["high"] < 0
    assert len(read_bundle(runs / "one" / "bundle").calibration.step_shifts) == HORIZON


def test_a_target_of_quantiles_is_read_back() -> None:
    target = ForecastTarget("y", 1.0, 2.0, QUANTILES)
    assert target_from_json(target.to_json()) == target
    assert target.to_json()["kind"] == "forecast_quantiles", "earlier versions refuse it"
    assert ForecastTarget("y", 1.0, 2.0).to_json()["kind"] == "forecasts"
    with pytest.raises(ValueError, match="quantiles that do not ascend"):
        ForecastTarget("y", 1.0, 2.0, (0.9, 0.5)).check()


@pytest.mark.extended
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("metric.quantiles=[0.5, 0.1, 0.9]",), "the median must lie among ascending"),
        (("model={kind: neighbours}",), "a model of kind neighbours predicts no quantiles"),
        (("metric.quantile=0.9",), "metric.quantile is of a model that predicts one number"),
        (("metric={name: coverage, target: 0.8}",), "coverage is of models that predict quantiles"),
        (("metric={name: scaled_pinball}",), "scaled_pinball is of models that predict quantiles"),
        (("metric.name=coverage",), "a baseline may have any coverage"),
        (("training.calibration=platt",), "platt calibrates probabilities"),
    ],
)
def test_what_is_no_forecast_by_quantiles_is_refused(
    folder: Path, settings: tuple[str, ...], said: str
) -> None:
    path = folder / "refused.json"
    path.write_text(json.dumps(contract_of(folder, "boosting")))
    words = [word for one in settings for word in ("--set", one)]
    ran = command("check", path, *words)
    assert ran.code == 2, ran.err
    assert said in " ".join(ran.err.split())
    assert "fix" in ran.err
