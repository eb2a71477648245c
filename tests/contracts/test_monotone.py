"""`model.monotone`: the prediction follows a column in one direction, whatever the rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import command, inside
from trainwright.contract.sections.model import sections
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json
from trainwright.model.family import LearningTask
from trainwright.model.tree_growth import monotone_problems

KINDS = [kind for kind, one in sections().items() if "monotone" in one.model_fields]
ROUNDS = {"boosting": "max_trees", "xgboost": "max_trees", "catboost": "max_trees"}


def contract_of(kind: str, task: str, way: str, folder: Path, positive: str = "b") -> Any:
    """A target that rises with `x` but for a deep dent, and with a number that has a kink."""
    draw = np.random.default_rng(0)
    x, y = draw.uniform(0, 1, 700), draw.normal(size=700)
    value = 2 * x - 2.5 * ((x > 0.4) & (x < 0.6)) + y + draw.normal(0, 0.2, 700)
    y[::9] = np.nan
    columns: dict[str, Any] = {"x": x, "y": y, "city": draw.choice(["Oslo", "Rome"], 700)}
    columns["target"] = value if task == "regression" else np.where(value > 0.5, "b", "a")
    pl.DataFrame(columns).with_columns(pl.col("y").fill_nan(None)).write_csv(folder / "rows.csv")
    data: dict[str, Any] = {"path": str(folder / "rows.csv"), "target": "target"}
    if task == "classification":
        data["positive"] = positive
    return {
        "task": task,
        "data": data,
        "model": {"kind": kind, ROUNDS.get(kind, "trees"): 40, "monotone": {"x": way}},
        "metric": {"target": "dummy", "resamples": 100},
    }


def predicted(run: Path, answer: str) -> np.ndarray:
    """Predictions along `x` [80] for ten rows that differ elsewhere."""
    along = np.linspace(-0.1, 1.1, 80)
    draw = np.random.default_rng(1)
    found = []
    for _ in range(10):
        rows = {"x": along, "y": [draw.normal()] * 80, "city": ["Oslo"] * 80}
        found.append(tw.load(run).predict(pl.DataFrame(rows))[answer].to_numpy())
    return np.stack(found)


@pytest.mark.extended
@pytest.mark.parametrize("way", ["increasing", "decreasing"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_follows_the_column(kind: str, way: str, tmp_path: Path) -> None:
    contract = contract_of(kind, "regression", way, tmp_path)
    values = predicted(tw.train(contract, runs=tmp_path).folder, "prediction")
    steps = np.diff(values, axis=1) * (1 if way == "increasing" else -1)
    assert steps.min() >= 0
    if way == "increasing":
        assert np.ptp(values, axis=1).min() > 0.1
    contract["model"]["monotone"] = {}
    free = predicted(tw.train(contract, runs=tmp_path).folder, "prediction")
    assert np.diff(free, axis=1).min() < 0 < np.diff(free, axis=1).max()


@pytest.mark.extended
@pytest.mark.parametrize("metric", ["mae", "mape", "poisson_deviance"])
@pytest.mark.parametrize("kind", ROUNDS)
def test_it_holds_with_every_metric_of_a_number(kind: str, metric: str, tmp_path: Path) -> None:
    """The leaves of absolute errors are medians, which LightGBM and XGBoost do not constrain."""
    contract = contract_of(kind, "regression", "increasing", tmp_path)
    rows = pl.read_csv(tmp_path / "rows.csv")
    rows.with_columns((pl.col("target").abs() * 4).round() + 1).write_csv(tmp_path / "rows.csv")
    contract["metric"]["name"] = metric
    run = tw.train(contract, runs=tmp_path)
    assert np.diff(predicted(run.folder, "prediction"), axis=1).min() >= 0
    chosen = read_json(run.folder / "plan.json")["contract"]["model"]["objective"]
    own = {"mae": "absolute_error", "poisson_deviance": "poisson"}.get(metric, metric)
    assert chosen == (own if kind == "catboost" or own == "poisson" else "squared_error")


@pytest.mark.parametrize("kind", ROUNDS)
def test_quantiles_have_no_direction(kind: str, tmp_path: Path) -> None:
    contract = contract_of(kind, "regression", "increasing", tmp_path)
    contract["metric"] |= {"name": "pinball", "quantiles": [0.1, 0.5, 0.9]}
    with pytest.raises(Mistake, match="quantile breaks monotone constraints") as caught:
        tw.train(contract, runs=tmp_path / "runs")
    (problem,) = caught.value.problems
    assert (problem.path, problem.fix) == ("model.monotone", "remove monotone or metric.quantiles")
    assert not (tmp_path / "runs").exists()


@pytest.mark.extended
@pytest.mark.parametrize("positive", ["a", "b"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_positive_class_follows_the_column(kind: str, positive: str, tmp_path: Path) -> None:
    contract = contract_of(kind, "classification", "increasing", tmp_path, positive)
    run = tw.train(contract, runs=tmp_path).folder
    assert np.diff(predicted(run, f"probability_{positive}"), axis=1).min() >= -1e-12


def test_what_has_no_direction_is_refused(tmp_path: Path) -> None:
    contract = contract_of("boosting", "regression", "increasing", tmp_path)
    cases = [
        ({"objective": "absolute_error"}, "breaks monotone constraints"),
        ({"monotone": {"city": "increasing"}}, "'city' is no numeric feature of the model"),
        ({"monotone": {"z": "increasing"}}, "the data has no column 'z'"),
        ({"monotone": {"x": "up"}}, "increasing"),
    ]
    for keys, said in cases:
        changed = {**contract, "model": {**contract["model"], **keys}}
        with pytest.raises(Mistake, match=said):
            tw.fit(changed, runs=tmp_path / "runs", progress=False)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("why", ["target", "excluded", "constant", "group", "time"])
def test_a_number_that_is_no_feature_is_refused(why: str, tmp_path: Path) -> None:
    contract = contract_of("boosting", "regression", "increasing", tmp_path)
    rows = pl.read_csv(tmp_path / "rows.csv").with_columns(
        one=pl.lit(1.5), when=pl.int_range(700) // 2
    )
    rows.write_csv(tmp_path / "rows.csv")
    name = {"excluded": "x", "constant": "one", "target": "target"}.get(why, "when")
    if why == "excluded":
        contract["data"]["exclude"] = ["x"]
    if why in ("group", "time"):
        contract["data"]["split"] = {"kind": why, "column": "when"}
    contract["model"]["monotone"] = {name: "increasing"}
    with pytest.raises(Mistake, match=f"'{name}' is no numeric feature of the model") as found:
        tw.fit(contract, runs=tmp_path / "runs", progress=False)
    assert f"model.monotone.{name}" in str(found.value)
    assert not (tmp_path / "runs").exists()


def test_a_family_without_constraints_names_those_that_have_them(tmp_path: Path) -> None:
    contract_of("boosting", "regression", "increasing", tmp_path)
    (tmp_path / "contract.yaml").write_text(
        "task: regression\ndata: {path: rows.csv, target: target}\n"
        "model: {kind: linear, monotone: {x: increasing}}\n"
    )
    with inside(tmp_path):
        ran = command("check", "contract.yaml")
    assert ran.code == 2
    assert f"another kind of model ({', '.join(KINDS)})" in ran.err


def test_several_classes_have_no_direction() -> None:
    task = LearningTask("classification", "f1_macro", 3, has_texts=False)
    found = list(monotone_problems({"x": "increasing"}, task))
    assert [problem.path for problem in found] == ["model.monotone"]
    assert not list(monotone_problems({}, task))
