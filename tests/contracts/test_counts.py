"""Contracts about counts: what is trained, kept, judged and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import mean_poisson_deviance

import trainwright as tw
from contract_runs import bits, train
from trainwright.core.errors import DataMistake, Mistake
from trainwright.core.files import read_json, write_json
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import target_from_json
from trainwright.evaluation.baselines.fit_baselines import fit_baselines

ROUNDS = {"boosting": "max_trees", "xgboost": "max_trees", "catboost": "max_trees"}
LIBRARIES = ("boosting", "xgboost", "catboost", "linear")
NETWORKS = ("mlp", "tabular_resnet")


def rows_of_counts(rows: int = 500, seed: int = 0) -> pl.DataFrame:
    """Counts whose rate is a product, many of them 0."""
    draw = np.random.default_rng(seed)
    x, city = draw.normal(size=rows), draw.choice(["Bern", "Oslo", "Rome"], rows)
    rate = np.exp(0.3 + 0.9 * x + 0.8 * (city == "Oslo"))
    return pl.DataFrame({"x": x, "city": city, "visits": draw.poisson(rate)})


def contract_of(kind: str, folder: Path, **metric: Any) -> dict[str, Any]:
    if not (folder / "rows.csv").exists():
        rows_of_counts().write_csv(folder / "rows.csv")
    model: dict[str, Any] = {"kind": kind}
    if kind in ROUNDS:
        model[ROUNDS[kind]] = 30
    metric = {"name": "poisson_deviance", "target": "dummy", "resamples": 100, **metric}
    contract = {
        "task": "regression",
        "data": {"path": str(folder / "rows.csv"), "target": "visits"},
        "model": model,
        "metric": metric,
    }
    if kind in NETWORKS:
        contract["training"] = {"num_epochs": 8, "batch_size": 16}
    return contract


def cases() -> list[Any]:
    libraries = [pytest.param(kind, id=kind) for kind in LIBRARIES]
    return [*libraries, *(pytest.param(kind, marks=pytest.mark.torch) for kind in NETWORKS)]


@pytest.mark.extended
@pytest.mark.parametrize("kind", cases())
def test_a_family_predicts_rates(kind: str, tmp_path: Path) -> None:
    if kind in NETWORKS:
        pytest.importorskip("torch")
    run = tw.train(contract_of(kind, tmp_path), runs=tmp_path).folder
    stored = read_json(run / "evaluation.json")["evaluation"]
    test = pl.read_parquet(run / "predictions.parquet")
    assert test["prediction"].min() > 0  # type: ignore[operator]
    value = mean_poisson_deviance(test["target"], test["prediction"])
    assert stored["metrics"]["poisson_deviance"]["value"] == pytest.approx(value)
    assert stored["metrics"]["poisson_deviance"]["high"] > value
    assert stored["gains"]["dummy"]["poisson_deviance"]["high"] < 0
    fresh = rows_of_counts(40, 1)
    predicted = tw.load(run).predict(fresh.drop("visits"))["prediction"].to_numpy()
    assert predicted.min() > 0
    assert np.corrcoef(predicted, fresh["visits"].to_numpy())[0, 1] > 0.5


def test_baselines_are_above_0(tmp_path: Path) -> None:
    data = tw.prepare(contract_of("boosting", tmp_path))
    prepared = data.ready.prepared
    assert prepared.target.is_count
    fitted = fit_baselines(prepared, data.ready.plan.contract.data)
    scores = fitted.scores(prepared.test)
    assert min(float(one.min()) for one in scores.values()) > 0
    usual = fit_baselines(tw.prepare(contract_of("boosting", tmp_path, name="rmse")).ready.prepared)
    assert usual.linear.score_part(prepared.test).min() < 0, "what a ridge regression predicts"


def test_other_contracts_are_as_they_were(tmp_path: Path) -> None:
    prepared = tw.prepare(contract_of("boosting", tmp_path, name="rmse")).ready.prepared
    counted = tw.prepare(contract_of("boosting", tmp_path)).ready.prepared
    assert not prepared.target.is_count
    assert prepared.version == counted.version
    assert prepared.target.to_json()["kind"] == "numbers"


def test_trees_follow_the_metric(tmp_path: Path) -> None:
    for name in ("poisson_deviance", "rmsle"):
        plan = tw.prepare(contract_of("boosting", tmp_path, name=name)).ready.plan
        assert plan.contract.model.objective == "poisson"  # type: ignore[union-attr]


@pytest.mark.torch
def test_a_network_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from canary import Killed

    path = tmp_path / "contract.json"
    contract = contract_of("mlp", tmp_path)
    contract["training"]["checkpointing"] = {"save_every_n_steps": 3}
    write_json(path, contract)
    whole = train(path, "whole")
    with pytest.raises(Killed):
        train(path, "cut", dies_at=8)
    assert bits(train(path, "cut")) == bits(whole)


def _refused(contract: dict[str, Any]) -> str:
    with pytest.raises(Mistake) as caught:
        tw.prepare(contract)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["forest", "neighbours"])
def test_a_mean_of_neighbours_is_no_rate(kind: str, tmp_path: Path) -> None:
    said = _refused(contract_of(kind, tmp_path))
    assert f"a model of kind {kind} predicts no rates" in said
    assert "boosting, xgboost, catboost, linear, mlp" in said


def test_counts_below_0_are_refused(tmp_path: Path) -> None:
    rows = rows_of_counts()
    below = pl.Series("visits", [-3, *rows["visits"][1:]])
    rows.with_columns(below).write_csv(tmp_path / "rows.csv")
    said = _refused(contract_of("linear", tmp_path))
    assert "1 row has a target below 0" in said
    assert "down to -3, in row 1" in said
    assert "metric.name: rmse" in said


def test_rows_without_any_count_are_refused(tmp_path: Path) -> None:
    rows_of_counts().with_columns(visits=pl.lit(0.0)).write_csv(tmp_path / "rows.csv")
    contract = contract_of("linear", tmp_path)
    contract["data"]["columns"] = {"visits": {"kind": "numeric"}}
    assert "the target has the same value in every row" in _refused(contract)


def test_new_rows_with_counts_below_0_are_refused(tmp_path: Path) -> None:
    target = target_from_json(Numbers("visits", 2.0, 1.0, counts=True).to_json())
    assert target.is_count
    with pytest.raises(DataMistake, match="1 row has a count below 0"):
        target.encode(pl.Series([1.0, -1.0]))
    assert target.readable(pl.Series([1.0, -1.0])).to_list() == [True, False]


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("training", {"loss": {"name": "mse"}}, "mse may predict rates below 0"),
        ("model", {"kind": "boosting", "objective": "squared_error"}, "may predict rates below 0"),
    ],
)
def test_a_loss_without_rates_is_refused(
    section: str, keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    contract = contract_of("mlp", tmp_path)
    contract[section] = keys
    if section == "model":
        del contract["training"]
    assert said in _refused(contract)


def test_a_slice_measures_rates_only_of_models_of_counts(tmp_path: Path) -> None:
    contract = contract_of("boosting", tmp_path, name="rmse")
    contract["slices"] = [{"column": "city", "metric": "poisson_deviance"}]
    assert "poisson_deviance is of models of counts" in _refused(contract)
