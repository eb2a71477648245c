"""`training.refit`: the model is trained again on training and validation rows, as long as the
first training took."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import NETWORK, PROCESS, command, inside, stopped_at, write_project
from guide import GUIDE, blocks
from trainwright.core.errors import Mistake
from trainwright.core.files import hash_file, read_json
from trainwright.tracking.event_log import read_events
from trainwright.tracking.signals import read_signals

AGAIN = NETWORK.replace("training:\n", "training:\n  refit: true\n")


def write_numbers(folder: Path, rows: int = 600) -> pl.DataFrame:
    draw = np.random.default_rng(3)
    x, z = draw.normal(size=rows).round(3), draw.normal(size=rows).round(3)
    label = np.where(x + 0.5 * draw.normal(size=rows) > 0.3, "b", "a")
    frame = pl.DataFrame({"x": x, "z": z, "label": label})
    frame.write_csv(folder / "rows.csv")
    return frame


def contract_of(folder: Path, kind: str = "boosting", **training: Any) -> dict[str, Any]:
    model = {"kind": kind} | ({"max_trees": 300} if kind in ("boosting", "xgboost") else {})
    return {
        "task": "classification",
        "data": {
            "path": str(folder / "rows.csv"),
            "target": "label",
            "positive": "b",
            "split": {"kind": "random"},
        },
        "model": model,
        "metric": {"name": "log_loss", "target": "dummy", "resamples": 100},
        "training": {"refit": True, **training},
    }


def evaluation(run: Path) -> Any:
    return read_json(run / "evaluation.json")


@pytest.mark.extended
def test_trees_are_those_of_the_library_on_both_parts_with_the_kept_rounds(tmp_path: Path) -> None:
    frame = write_numbers(tmp_path)
    run = tw.train(contract_of(tmp_path), runs=tmp_path).folder
    found = evaluation(run)["refit"]
    kept = read_json(run / "bundle" / "boosting.json")
    assert found["length"] == kept["kept"] > 1
    assert (found["first_rows"], found["validation_rows"], found["rows"]) == (420, 90, 510)
    tested = np.sort(pl.read_parquet(run / "predictions.parquet")["row"].to_numpy())
    others = np.setdiff1d(np.arange(frame.height), tested)
    numbers = frame.select("x", "z").to_numpy().astype(np.float32)
    target = (frame["label"] == "b").to_numpy().astype(float)
    settings = {
        "objective": "binary",
        "learning_rate": 0.05,
        "feature_fraction": 0.8,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "min_data_in_leaf": 5,
        "seed": (seed := read_json(run / "plan.json")["contract"]["seed"]),
        "data_random_seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    rows = lightgbm.Dataset(numbers[others], target[others], free_raw_data=False)
    trees = lightgbm.train(settings, rows, num_boost_round=found["length"])
    asked = tw.load(run).predict(frame[tested.tolist()])["probability_b"].to_numpy()
    np.testing.assert_array_equal(asked, trees.predict(numbers[tested]))
    (value,) = found["first_on_validation"].values()
    history = read_json(run / "bundle" / "boosting.json")["curve"]
    assert all(np.isnan(float(point[2])) for point in history), "no validation rows are left"
    assert 0 < value < 0.7


def test_a_threshold_is_that_of_the_first_model(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    both = {}
    for again in (True, False):
        contract = contract_of(tmp_path, refit=again, threshold="auto", calibration="platt")
        contract["metric"]["name"] = "f1"
        run = tw.train(contract, runs=tmp_path, name=f"again-{again}".lower()).folder
        both[again] = read_json(run / "bundle" / "calibration.json")
    assert both[True] == both[False]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["linear", "forest", "xgboost"])
def test_every_family_of_a_library_is_trained_again(kind: str, tmp_path: Path) -> None:
    write_numbers(tmp_path)
    contract = contract_of(tmp_path, kind)
    again = tw.train(contract, runs=tmp_path, name="again")
    found = evaluation(again.folder)["refit"]
    assert found["rows"] == 510
    assert (found["length"] > 0) == (kind == "xgboost")
    contract["training"]["refit"] = False
    once = tw.train(contract, runs=tmp_path, name="once")
    assert "refit" not in evaluation(once.folder)
    rows = {name: run.evaluation.rows for name, run in (("once", once), ("again", again))}
    assert rows["once"] == rows["again"] == 90
    asked = pl.DataFrame({"x": [0.1, 0.5], "z": [0.0, 0.0]})
    scores = [one.predictor.predict(asked)["probability_b"].to_list() for one in (once, again)]
    assert scores[0] != scores[1]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["boosting", "linear"])
def test_a_model_of_counts_is_trained_again_as_one(kind: str, tmp_path: Path) -> None:
    frame = write_numbers(tmp_path)
    draw = np.random.default_rng(4)
    counts = pl.Series("label", draw.poisson(np.exp(frame["x"].to_numpy() / 2)))
    frame.with_columns(counts).write_csv(tmp_path / "rows.csv")
    contract = contract_of(tmp_path, kind)
    contract["task"] = "regression"
    del contract["data"]["positive"]
    contract["metric"]["name"] = "poisson_deviance"
    run = tw.train(contract, runs=tmp_path).folder
    assert read_json(run / "bundle" / "target.json")["kind"] == "counts"
    asked = pl.DataFrame({"x": [-3.0, 3.0], "z": [0.0, 0.0]})
    low, high = tw.load(run).predict(asked).to_series(0).to_list()
    assert 0 < low < 1 < high


def test_validation_rows_are_known_as_rows_that_trained_it(tmp_path: Path) -> None:
    frame = write_numbers(tmp_path)
    run = tw.train(contract_of(tmp_path), runs=tmp_path).folder
    tested = pl.read_parquet(run / "predictions.parquet")["row"].to_numpy()
    others = np.setdiff1d(np.arange(frame.height), tested)
    frame[others.tolist()].write_csv(tmp_path / "others.csv")
    ran = command("evaluate", str(run), str(tmp_path / "others.csv"))
    assert "510 of the 510 rows (100.0%) equal rows" in ran.out + ran.err


@pytest.mark.extended
def test_trees_that_are_killed_in_the_second_training_end_the_same(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    (tmp_path / "c.yaml").write_text(json.dumps(contract_of(tmp_path)))
    with inside(tmp_path):
        whole = command("train", "c.yaml", "--run", "whole")
        assert whole.code in (0, 3), whole.err
        assert "refit" in whole.err
        grown = evaluation(Path("runs/whole"))["refit"]["length"] + 100
        killed = subprocess.run(
            [*PROCESS, "train", "c.yaml", "--run", "cut"],
            env={**os.environ, "TRAINWRIGHT_FAULT": f"tree:{grown + 5}:kill"},
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -9
        assert list(Path("runs/cut/refits").glob("*")), "the first training was over"
        resumed = command("train", "c.yaml", "--run", "cut", "--resume")
        assert resumed.code in (0, 3), resumed.err
        files = [hash_file(Path("runs", run, "bundle/model.txt")) for run in ("whole", "cut")]
        assert files[0] == files[1]
        judged = [evaluation(Path("runs", run)) for run in ("whole", "cut")]
        assert judged[0]["evaluation"] == judged[1]["evaluation"]
        assert judged[0]["refit"] == judged[1]["refit"]
        verified = command("runs", "verify", "cut")
        assert verified.code == 0, verified.out
        assert "refit 01: " in verified.out


@pytest.mark.extended
@pytest.mark.torch
def test_a_network_makes_as_many_updates_on_the_same_schedule(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_project(tmp_path, AGAIN)
    with inside(tmp_path):
        whole = command("train", "small.yaml", "--run", "whole")
        assert whole.code in (0, 3), whole.err
        run = Path("runs/whole")
        found = evaluation(run)["refit"]
        first, again = (read_signals(path / "signals.jsonl") for path in (run, run / "refits/01"))
        made = found["length"]
        assert len(again["step"]) == made <= len(first["step"])
        assert list(again["learning_rate"]) == list(first["learning_rate"])[:made]
        events = read_events(run / "refits/01/events.jsonl")
        assert "ended" in {one["event"] for one in events}
        assert "validated" not in {one["event"] for one in events}
        cut = stopped_at(len(first["step"]) + made // 2, "train", "small.yaml", "--run", "cut")
        assert cut.code == 75, cut.err
        resumed = command("train", "small.yaml", "--run", "cut", "--resume")
        assert resumed.code in (0, 3), resumed.err
        weights = [
            hash_file(Path("runs", name, "bundle/network.safetensors")) for name in ("whole", "cut")
        ]
        assert weights[0] == weights[1]
        assert evaluation(Path("runs/cut"))["refit"] == found
        further = command("resume", "runs/whole", "--for", "1 epoch")
        assert further.code == 2
        assert "training.refit" in further.err


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"data": {"split": {"kind": "random", "folds": 3}}}, "training.refit"),
        ({"training": {"seeds": 2}}, "training.seeds"),
        (
            {"data": {"val_path": "{folder}/other.csv", "split": {"kind": "random"}}},
            "training.refit",
        ),
    ],
)
def test_what_cannot_be_trained_again_is_refused(
    change: dict[str, Any], path: str, tmp_path: Path
) -> None:
    write_numbers(tmp_path).write_csv(tmp_path / "other.csv")
    contract = contract_of(tmp_path)
    for section, values in change.items():
        contract[section] |= values
    if val_path := contract["data"].get("val_path"):
        contract["data"]["train_path"] = contract["data"].pop("path")
        contract["data"]["val_path"] = val_path.format(folder=tmp_path)
    with pytest.raises(Mistake) as caught:
        tw.train(contract, runs=tmp_path)
    assert [one.path for one in caught.value.problems if one.fix] == [path]


@pytest.mark.extended
def test_weights_of_validation_rows_are_read_before_the_first_training(tmp_path: Path) -> None:
    frame = write_numbers(tmp_path)
    part = np.repeat(["train", "validation", "test"], [400, 100, 100])
    weight = pl.Series([1.5 if one == "train" else None for one in part])
    frame.with_columns(part=part, weight=weight).write_csv(tmp_path / "rows.csv")
    contract = contract_of(tmp_path, refit=False)
    contract["data"] |= {"weight": "weight", "split": {"kind": "column", "column": "part"}}
    del contract["training"]
    tw.train(contract, runs=tmp_path / "runs", name="once")
    contract["training"] = {"refit": True}
    with pytest.raises(Mistake, match="100 training rows without a weight"):
        tw.train(contract, runs=tmp_path / "runs", name="again")
    assert not (tmp_path / "runs" / "again").exists()


@pytest.mark.extended
def test_a_fit_from_python_is_judged_like_the_run_of_its_contract(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    contract = contract_of(tmp_path)
    whole = tw.train(contract, runs=tmp_path, name="whole")
    fitted = tw.fit(contract, runs=tmp_path, name="two-steps")
    assert np.isnan(fitted.score), "it has no validation rows"
    judged = tw.judge(fitted)
    assert judged.evaluation.to_json() == whole.evaluation.to_json()
    assert evaluation(judged.folder)["refit"] == evaluation(whole.folder)["refit"]
    assert command("runs", "verify", "two-steps", "--runs", str(tmp_path)).code == 0


@pytest.mark.extended
def test_a_model_without_validation_rows_is_not_explained_by_them(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    run = tw.train(contract_of(tmp_path), runs=tmp_path).folder
    ran = command("explain", str(run))
    assert ran.code == 2
    assert "trained on the validation rows" in ran.err


@pytest.mark.extended
def test_the_page_shows_the_example_and_it_trains(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "refit" / "contract.yaml"
    assert blocks(GUIDE / "refit.md", "yaml") == [example.read_text(encoding="utf-8")]
    run = tw.train(example, overrides=["metric.resamples=100"], runs=tmp_path).folder
    assert evaluation(run)["refit"]["rows"] == 510
