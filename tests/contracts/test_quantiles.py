"""Contracts about quantiles: what is trained, sorted, kept, calibrated, judged and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import mean_pinball_loss

import trainwright as tw
from contract_runs import bits, train
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json, write_json
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import target_from_json
from trainwright.model.boosting.several_boosted import read_quantiles
from trainwright.predictor.bundle import read_bundle
from trainwright.run.judging.judge import crossing_notes
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

QUANTILES = (0.05, 0.5, 0.95)
NAMES = [f"quantile_{one:g}" for one in QUANTILES]
TREES = ("boosting", "xgboost", "catboost")
NETWORKS = ("mlp",)


def rows_of_spread(rows: int = 900, seed: int = 0) -> pl.DataFrame:
    """Values whose spread grows with a column."""
    draw = np.random.default_rng(seed)
    x, city = draw.uniform(0, 3, rows), draw.choice(["Bern", "Oslo", "Rome"], rows)
    y = 2 * x + 3 * (city == "Oslo") + (0.3 + x) * draw.normal(size=rows)
    return pl.DataFrame({"x": x, "city": city, "minutes": y})


def contract_of(kind: str, folder: Path, **metric: Any) -> dict[str, Any]:
    if not (folder / "rows.csv").exists():
        rows_of_spread().write_csv(folder / "rows.csv")
    settings = {"quantiles": list(QUANTILES), "target": "dummy", "resamples": 100, **metric}
    contract = {
        "task": "regression",
        "data": {"path": str(folder / "rows.csv"), "target": "minutes"},
        "model": {"kind": kind, **({"max_trees": 60} if kind in TREES else {})},
        "metric": {"name": "pinball", **settings},
    }
    if kind in NETWORKS:
        contract["training"] = {"num_epochs": 12, "batch_size": 32}
    return contract


def cases() -> list[Any]:
    libraries = [pytest.param(kind, id=kind) for kind in (*TREES, "linear")]
    return [*libraries, *(pytest.param(kind, marks=pytest.mark.torch) for kind in NETWORKS)]


@pytest.mark.extended
@pytest.mark.parametrize("kind", cases())
def test_a_family_predicts_quantiles(kind: str, tmp_path: Path) -> None:
    if kind in NETWORKS:
        pytest.importorskip("torch")
    run = tw.train(contract_of(kind, tmp_path), runs=tmp_path).folder
    stored = read_json(run / "evaluation.json")["evaluation"]
    test = pl.read_parquet(run / "predictions.parquet")
    quantiles = test.select(NAMES).to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    np.testing.assert_array_equal(test["prediction"], test["quantile_0.5"])
    truth, metrics = test["target"].to_numpy(), stored["metrics"]
    losses = [mean_pinball_loss(truth, quantiles[:, k], alpha=q) for k, q in enumerate(QUANTILES)]
    assert metrics["pinball"]["value"] == pytest.approx(np.mean(losses))
    inside = (quantiles[:, 0] <= truth) & (truth <= quantiles[:, -1])
    assert metrics["coverage"]["value"] == pytest.approx(inside.mean())
    assert metrics["coverage"]["low"] < inside.mean() < metrics["coverage"]["high"]
    assert inside.mean() > 0.7
    assert metrics["mae"]["value"] == pytest.approx(np.abs(truth - quantiles[:, 1]).mean())
    assert stored["gains"]["dummy"]["pinball"]["high"] < 0
    fresh = rows_of_spread(60, 1).drop("minutes")
    answer = tw.load(run).predict(fresh)
    assert answer.columns == ["prediction", *NAMES]
    widths = (answer[NAMES[-1]] - answer[NAMES[0]]).to_numpy()
    follows = np.corrcoef(widths, fresh["x"].to_numpy())[0, 1]
    assert follows > 0.5 or (kind == "linear" and np.ptp(widths) < 1e-9)
    again = read_predictions(RunFolder(run)).answers
    assert again.quantiles == QUANTILES
    np.testing.assert_allclose(again.scores, quantiles)


def test_each_quantile_has_the_trees_that_lightgbm_grows_for_it(tmp_path: Path) -> None:
    import lightgbm

    from trainwright.model.boosting.lightgbm_fit import (
        BoostingJob,
        BoostingRows,
        boosting_parameters,
        matrix_of,
    )
    from trainwright.run.library_fit import job_of

    contract = contract_of("boosting", tmp_path)
    contract["model"] |= {"max_trees": 200, "early_stopping_rounds": 8}
    run = tw.train(contract, runs=tmp_path).folder
    scorer: Any = read_bundle(run / "bundle").scorer
    ready = tw.prepare(contract).ready
    job = job_of(ready.plan.contract, ready.prepared)
    for quantile, ours in zip(QUANTILES, scorer.each, strict=True):
        own = BoostingJob(
            section=ready.plan.contract.model,  # type: ignore[arg-type]
            train=BoostingRows(job.train.inputs, job.train.target),
            validation=BoostingRows(job.validation.inputs, job.validation.target),
            outputs=1,
            seed=job.seed,
            watch="pinball",
            quantile=quantile,
        )
        columns = {"categorical_feature": [1], "params": {"verbosity": -1}}
        rows = lightgbm.Dataset(matrix_of(job.train.inputs), job.train.target, **columns)
        validation = lightgbm.Dataset(
            matrix_of(job.validation.inputs), job.validation.target, reference=rows, **columns
        )
        theirs = lightgbm.train(
            boosting_parameters(own),
            rows,
            num_boost_round=200,
            valid_sets=[validation],
            callbacks=[lightgbm.early_stopping(8, verbose=False)],
        )
        assert ours.trees == theirs.best_iteration < 200
        inputs = ready.prepared.test.inputs
        expected = theirs.predict(matrix_of(inputs), num_iteration=theirs.best_iteration)
        np.testing.assert_allclose(ours.score(inputs)[:, 0], expected, rtol=1e-12)


def test_crossing_rows_are_counted() -> None:
    raw = np.array([[1.0, 2.0, 3.0], [1.0, 0.5, 3.0], [2.0, 2.0, 1.0], [0.0, 0.0, 0.0]])
    (note,) = crossing_notes(raw)
    assert note == "the quantiles of 2 of 4 rows (50.0%) crossed: sorted"
    assert crossing_notes(raw[:1]) == ()


@pytest.mark.torch
def test_quantiles_that_cross_are_sorted_and_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    contract = contract_of("mlp", tmp_path, quantiles=[0.49, 0.495, 0.5, 0.505, 0.51])
    contract["training"] = {"num_epochs": 1, "batch_size": 64}
    run = tw.train(contract, runs=tmp_path).folder
    warnings = read_json(run / "evaluation.json")["evaluation"]["warnings"]
    assert any("crossed: sorted" in one for one in warnings), warnings
    test = pl.read_parquet(run / "predictions.parquet")
    assert (np.diff(test.drop("row", "unit", "target", "prediction").to_numpy()) >= 0).all()


@pytest.mark.extended
def test_conformal_shifts_mend_a_wrong_interval(tmp_path: Path) -> None:
    """Trees that overfit have too narrow an interval; the shifted one holds what it says."""
    rows_of_spread(3000).write_csv(tmp_path / "rows.csv")
    contract = contract_of("boosting", tmp_path, name="coverage", target=0.8)
    contract["model"] |= {"num_leaves": 200, "min_data_in_leaf": 1, "early_stopping_rounds": 60}
    contract["training"] = {"calibration": "conformal"}
    run = tw.train(contract, runs=tmp_path).folder
    stored = read_json(run / "evaluation.json")
    before, after = (
        stored["calibration"]["changes"]["coverage"][when]["value"] for when in ("before", "after")
    )
    assert before < 0.85
    assert abs(after - 0.9) < 0.04
    assert stored["calibration"]["method"] == "conformal"
    assert stored["evaluation"]["metrics"]["coverage"]["value"] == pytest.approx(after)
    assert any("covers" in one for one in stored["evaluation"]["warnings"]) == (
        not stored["evaluation"]["metrics"]["coverage"]["low"]
        <= 0.9
        <= stored["evaluation"]["metrics"]["coverage"]["high"]
    )
    predictor = read_bundle(run / "bundle")
    low, middle, high = predictor.calibration.shifts
    assert low < 0 == middle < high
    assert predictor.calibration.rows == stored["calibration"]["rows"]
    assert "Calibrated by conformal" in (run / "report.html").read_text()


def test_too_few_validation_rows_calibrate_nothing(tmp_path: Path) -> None:
    rows_of_spread(100).write_csv(tmp_path / "rows.csv")
    contract = contract_of("linear", tmp_path)
    contract["training"] = {"calibration": "conformal"}
    run = tw.train(contract, runs=tmp_path).folder
    warnings = read_json(run / "evaluation.json")["evaluation"]["warnings"]
    assert "not calibrated: 15 validation rows, and 19 are needed" in warnings
    assert not read_bundle(run / "bundle").calibration


def test_trees_that_are_interrupted_grow_again_to_the_same_trees(tmp_path: Path) -> None:
    from trainwright.core.errors import Interrupted
    from trainwright.testing.family_conformance import model_files

    class Stops:
        def reason(self, progress: Any) -> tuple[str, str] | None:
            return ("interrupted", "as asked") if progress.step == 5 else None

    contract = contract_of("boosting", tmp_path)
    contract["training"] = {"checkpointing": {"save_every_minutes": 60}}
    whole = tw.train(contract, runs=tmp_path, name="whole").folder
    with pytest.raises(Interrupted):
        tw.fit(contract, runs=tmp_path, name="cut", stop_rules=[Stops()], progress=False)
    done = tw.train(contract, runs=tmp_path, name="cut", resume=True).folder
    assert model_files(done) == model_files(whole)
    assert {"model.txt", "model_2.txt", "model_3.txt"} < set(model_files(whole))


def test_an_edited_model_of_a_quantile_is_refused(tmp_path: Path) -> None:
    bundle = tw.train(contract_of("boosting", tmp_path), runs=tmp_path).folder / "bundle"
    path = bundle / "model_3.txt"
    for wrong in (path.read_text().replace("split_feature=", "split_feature=99 ", 1), ""):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="cannot be right"):
            read_quantiles(bundle)


@pytest.mark.torch
def test_a_network_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from canary import Killed

    path = tmp_path / "contract.json"
    contract = contract_of("mlp", tmp_path)
    contract["training"] = {"num_epochs": 2, "batch_size": 64}
    contract["training"]["checkpointing"] = {"save_every_n_steps": 3}
    write_json(path, contract)
    whole = train(path, "whole")
    with pytest.raises(Killed):
        train(path, "cut", dies_at=8)
    assert bits(train(path, "cut")) == bits(whole)


def test_a_target_of_quantiles_is_read_back() -> None:
    target = Numbers("y", 1.0, 2.0, quantiles=QUANTILES)
    assert target_from_json(target.to_json()) == target
    assert target.to_json()["kind"] == "quantiles", "earlier versions refuse it"
    for wrong in ((0.5, 0.1), (0.1, 0.9), (0.0, 0.5)):
        with pytest.raises(ValueError, match="quantiles that do not ascend"):
            Numbers("y", 1.0, 2.0, quantiles=wrong).check()


def _refused(contract: dict[str, Any]) -> str:
    with pytest.raises(Mistake) as caught:
        tw.prepare(contract)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "metric", "said"),
    [
        ("boosting", {"quantiles": [0.95, 0.5, 0.05]}, "the median must lie among ascending"),
        ("boosting", {"quantiles": [0.1, 0.9]}, "the median must lie among ascending"),
        ("boosting", {"quantile": 0.9}, "metric.quantile is of a model that predicts one number"),
        ("forest", {}, "a model of kind forest predicts no quantiles"),
        ("auto", {}, "a model of kind auto predicts no quantiles"),
        ("boosting", {"name": "poisson_deviance"}, "the rate of a count has no quantiles"),
        ("boosting", {"name": "coverage"}, "a baseline may have any coverage"),
        ("boosting", {"name": "coverage", "quantiles": []}, "coverage is of models that predict"),
    ],
)
def test_what_is_no_set_of_quantiles_is_refused(
    kind: str, metric: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert said in _refused(contract_of(kind, tmp_path, **metric))


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("training", {"loss": {"name": "mse"}}, "mse learns no quantiles"),
        ("training", {"calibration": "platt"}, "platt calibrates probabilities"),
        ("model", {"kind": "boosting", "objective": "squared_error"}, "learns no quantiles"),
    ],
)
def test_what_learns_no_quantiles_is_refused(
    section: str, keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    contract = contract_of("mlp", tmp_path)
    contract[section] = keys
    if section == "model":
        del contract["training"]
    assert said in _refused(contract)


def test_conformal_is_refused_of_one_number(tmp_path: Path) -> None:
    contract = contract_of("boosting", tmp_path, name="mae", quantiles=[])
    contract["training"] = {"calibration": "conformal"}
    assert "conformal calibrates quantiles" in _refused(contract)


def test_classes_have_no_quantiles(tmp_path: Path) -> None:
    contract = contract_of("boosting", tmp_path)
    contract["data"]["target"] = "city"
    contract["task"] = "classification"
    contract["metric"] = {"name": "accuracy", "quantiles": list(QUANTILES)}
    assert "several quantiles are predicted of a number" in _refused(contract)
