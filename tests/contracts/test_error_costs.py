"""Contracts whose errors have costs: what is decided, kept, measured and said."""

from __future__ import annotations

import shutil
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import command
from guide import GUIDE, blocks
from trainwright.core.errors import Mistake
from trainwright.core.files import hash_file, read_json, write_json
from trainwright.predictor.bundle import MANIFEST, read_bundle
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

COSTS = {"low": {"mid": 1, "top": 4}, "mid": {"low": 3, "top": 1}, "top": {"low": 20, "mid": 9}}
TWO = {"no": {"yes": 1}, "yes": {"no": 8}}
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "costs" / "contract.yaml"


def rows(classes: int, count: int = 500) -> pl.DataFrame:
    draws = np.random.default_rng(classes)
    x, city = draws.normal(size=count), draws.choice(["Bern", "Oslo"], count)
    score = x + 0.7 * (city == "Oslo") + draws.logistic(0, 0.5, count)
    names = ["no", "yes"] if classes == 2 else ["low", "mid", "top"]
    bounds = [1.0] if classes == 2 else [0.3, 1.4]
    return pl.DataFrame({"x": x, "city": city, "y": np.array(names)[np.digitize(score, bounds)]})


def contract_of(folder: Path, classes: int, **sections: Any) -> dict[str, Any]:
    if not (folder / "rows.csv").exists():
        rows(classes).write_csv(folder / "rows.csv")
    return {
        "data": {"path": str(folder / "rows.csv"), "target": "y"},
        "metric": {"costs": COSTS if classes == 3 else TWO, "target": "dummy", "resamples": 100},
        **sections,
    }


def trained(folder: Path, classes: int, **sections: Any) -> Path:
    return tw.train(contract_of(folder, classes, **sections), runs=folder).folder


def mean_cost(test: pl.DataFrame, costs: dict[str, dict[str, int]]) -> float:
    pairs = zip(test["target"], test["prediction"], strict=True)
    return float(np.mean([costs[true].get(said, 0) for true, said in pairs]))


def networks() -> list[Any]:
    network = {"training": {"num_epochs": 4, "early_stopping": {"metric": "val_cost"}}}
    return [
        pytest.param({"model": {"kind": "linear"}}, id="linear"),
        pytest.param({"model": {"kind": "forest", "trees": 20}}, id="forest"),
        pytest.param({"model": {"kind": "mlp", "hidden": [8]}, **network}, marks=pytest.mark.torch),
        pytest.param(
            {
                "model": {
                    "kind": "auto",
                    "candidates": ["linear", "boosting"],
                    "ensemble": "always",
                    "bagging": "off",
                }
            },
            id="auto",
        ),
    ]


@pytest.mark.extended
@pytest.mark.parametrize("sections", networks())
def test_several_classes_are_decided_by_expected_cost(
    sections: dict[str, Any], tmp_path: Path
) -> None:
    run = trained(tmp_path, 3, **sections)
    assert read_json(run / "plan.json")["contract"]["metric"]["name"] == "cost"
    stored = read_json(run / "evaluation.json")
    test = pl.read_parquet(run / "predictions.parquet")
    given = test.select("probability_low", "probability_mid", "probability_top").to_numpy()
    matrix = np.array([[COSTS[true].get(said, 0) for said in COSTS] for true in COSTS])
    chosen = np.array(list(COSTS))[np.argmin(given @ matrix, axis=1)]
    assert test["prediction"].to_list() == chosen.tolist()
    assert (chosen != np.array(list(COSTS))[given.argmax(axis=1)]).any()
    metric = stored["evaluation"]["metrics"]["cost"]
    assert metric["value"] == pytest.approx(mean_cost(test, COSTS))
    change = stored["calibration"]["changes"]["cost"]
    assert change["after"]["value"] == pytest.approx(metric["value"])
    likeliest = np.array(list(COSTS))[given.argmax(axis=1)]
    ece = stored["calibration"]["changes"]["calibration_error"]
    assert ece["before"]["value"] == ece["after"]["value"]
    before = mean_cost(test.with_columns(prediction=pl.Series(likeliest)), COSTS)
    assert change["before"]["value"] == pytest.approx(before)
    # The bundle decides alone, and the run is read as it was judged.
    new = rows(3, 40).drop("y")
    answer = tw.load(run).predict(new)
    scores = answer.select("probability_low", "probability_mid", "probability_top").to_numpy()
    expected = np.array(list(COSTS))[np.argmin(scores @ matrix, axis=1)]
    assert answer["prediction"].to_list() == expected.tolist()
    answers = read_predictions(RunFolder.open(run)).answers
    assert float(answers.row_costs().mean()) == pytest.approx(metric["value"])


def test_two_classes_are_decided_by_the_threshold_of_their_costs(tmp_path: Path) -> None:
    run = trained(tmp_path, 2, model={"kind": "linear"}, training={"calibration": "platt"})
    stored = read_json(run / "evaluation.json")
    assert stored["calibration"]["threshold"] == 0.5
    test = pl.read_parquet(run / "predictions.parquet")
    chosen = ["yes" if p > 1 / 9 else "no" for p in test["probability_yes"]]
    assert test["prediction"].to_list() == chosen
    value = stored["evaluation"]["metrics"]["cost"]["value"]
    assert value == pytest.approx(mean_cost(test, TWO))
    assert value < stored["calibration"]["changes"]["cost"]["before"]["value"]
    page = unescape((run / "report.html").read_text(encoding="utf-8"))
    assert "class of least expected cost" in page


@pytest.mark.extended
def test_folds_and_a_refit_decide_by_the_costs(tmp_path: Path) -> None:
    linear = {"kind": "linear"}
    again = trained(tmp_path, 2, model=linear, training={"refit": True})
    test = pl.read_parquet(again / "predictions.parquet")
    chosen = ["yes" if p > 1 / 9 else "no" for p in test["probability_yes"]]
    assert test["prediction"].to_list() == chosen
    split = {"kind": "stratified", "folds": 2}
    data = {**contract_of(tmp_path, 2)["data"], "split": split}
    folded = trained(tmp_path, 2, model=linear, data=data)
    test = pl.read_parquet(folded / "predictions.parquet")
    stored = read_json(folded / "evaluation.json")
    value = stored["evaluation"]["metrics"]["cost"]["value"]
    assert value == pytest.approx(mean_cost(test, TWO))
    of_folds = [
        mean_cost(test.filter(fold=fold), TWO) for fold in test["fold"].unique().sort().to_list()
    ]
    assert stored["by_fold"]["means"]["cost"]["value"] == pytest.approx(np.mean(of_folds))


def test_costs_that_leave_nothing_to_decide_are_told(tmp_path: Path) -> None:
    metric = {"costs": {"no": {"yes": 1}, "yes": {"no": 5000}}, "resamples": 100}
    run = trained(tmp_path, 2, model={"kind": "linear"}, metric=metric)
    warnings = read_json(run / "evaluation.json")["evaluation"]["warnings"]
    (said,) = [one for one in warnings if "decides nothing" in one]
    assert "75 validation rows 'yes'" in said
    assert set(pl.read_parquet(run / "predictions.parquet")["prediction"]) == {"yes"}


def test_a_bundle_with_impossible_costs_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path, 3, model={"kind": "linear"})
    bundle = tmp_path / "copied"
    shutil.copytree(run / "bundle", bundle)
    assert read_json(bundle / MANIFEST)["format"] == 4
    target = read_json(bundle / "target.json")
    target["costs"][0] = [0.0, -1.0, 4.0]
    write_json(bundle / "target.json", target)
    manifest = read_json(bundle / MANIFEST)
    size = (bundle / "target.json").stat().st_size
    changed = {"size_bytes": size, "sha256": hash_file(bundle / "target.json")}
    manifest["files"]["target.json"] = {**manifest["files"]["target.json"], **changed}
    write_json(bundle / MANIFEST, manifest)
    with pytest.raises(Mistake, match="negative"):
        read_bundle(bundle)


@pytest.mark.extended
def test_the_page_shows_its_example_and_what_it_prints(tmp_path: Path) -> None:
    page = GUIDE / "costs.md"
    assert EXAMPLE.read_text(encoding="utf-8") in blocks(page, "yaml")
    ran = command("train", str(EXAMPLE), "--runs", str(tmp_path), "--run", "one")
    assert ran.code in (0, 3), ran.err
    line = next(one for one in ran.err.splitlines() if one.startswith("calibrate"))
    assert line in page.read_text(encoding="utf-8")
