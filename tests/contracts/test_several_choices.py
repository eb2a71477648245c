"""Several targets with thresholds, class weights and a second training, from the contract to what
the bundle decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import Ran, command, inside
from trainwright.core.files import read_json
from trainwright.evaluation.calibration.fit_threshold import fit_label_thresholds
from trainwright.predictor.bundle import read_bundle
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

CONTRACT = """\
name: several
data: {path: rows.csv, target: [common, rare, third], exclude: [high, low]}
model: {kind: boosting, max_trees: 15, num_leaves: 4}
metric: {name: f1_macro, target: dummy, resamples: 100}
"""
NUMBERS = ("data.target=[high, low]", "data.exclude=[common, rare, third]", "metric.name=r2")
JUDGED = (0, 3)
ROWS = 400


def write_rows() -> None:
    draw = np.random.default_rng(5)
    x, z = draw.normal(size=ROWS), draw.normal(size=ROWS)
    noise = draw.logistic(0, 0.5, (3, ROWS))
    pl.DataFrame(
        {
            "x": x,
            "z": z,
            "common": (x + noise[0] > 0).astype(int),
            "rare": (z + noise[1] > 2).astype(int),
            "third": (x - z + noise[2] > 1).astype(int),
            "high": x + draw.normal(size=ROWS),
            "low": np.exp(z) * 10 + draw.normal(size=ROWS),
        }
    ).write_csv("rows.csv")


def trains(run: str, *settings: str) -> Ran:
    words = [word for setting in settings for word in ("--set", setting)]
    quick = ("--set", "data.quality.look=quick")
    ran = command("train", "several.yaml", "--run", run, *quick, *words)
    assert ran.code in JUDGED, ran.err
    return ran


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the runs `plain` and `decided` of the same trees, and `again`, a second training."""
    folder = tmp_path_factory.mktemp("several")
    with inside(folder):
        write_rows()
        Path("several.yaml").write_text(CONTRACT, encoding="utf-8")
        trains("plain")
        trains("decided", "training.threshold=auto")
        trains(
            "again",
            "training.refit=true",
            "training.threshold=0.3",
            "model={kind: linear}",
        )
        yield folder


def judged(run: str) -> Any:
    return read_json(Path("runs", run, "evaluation.json"))


def test_thresholds_are_fitted_to_validation_rows_and_decide(project: Path) -> None:
    predictor = read_bundle(Path("runs/decided/bundle"))
    thresholds = predictor.calibration.thresholds
    assert len(thresholds) == 3
    assert any(one != 0.5 for one in thresholds)
    data = tw.prepare("several.yaml")
    part = data.ready.prepared.validation
    expected = fit_label_thresholds(predictor.score(part.inputs), part.target, "f1_macro")
    assert thresholds == expected
    stored = pl.read_parquet("runs/decided/predictions.parquet")
    plain = pl.read_parquet("runs/plain/predictions.parquet")
    for name, threshold in zip(predictor.target.target_names, thresholds, strict=True):
        score = stored[f"probability_{name}"]
        assert score.equals(plain[f"probability_{name}"])
        given = (score >= threshold).cast(pl.Int64)
        assert stored[f"prediction_{name}"].equals(given.alias(f"prediction_{name}"))
    rows = pl.read_csv("rows.csv")
    new = tw.load("runs/decided").predict(rows)
    rare = thresholds[1]
    assert (new["prediction_rare"] == (new["probability_rare"] >= rare).cast(pl.Int64)).all()


def test_metrics_and_stored_answers_are_those_of_the_decisions(project: Path) -> None:
    from sklearn.metrics import f1_score

    found = read_predictions(RunFolder(Path("runs/decided")))
    chosen = found.answers.chosen()
    value = judged("decided")["evaluation"]["metrics"]["f1_macro"]["value"]
    assert value == pytest.approx(f1_score(found.answers.truth, chosen, average="macro"))
    effect = judged("decided")["calibration"]
    before = judged("plain")["evaluation"]["metrics"]["f1_macro"]["value"]
    assert effect["changes"]["f1_macro"]["before"]["value"] == pytest.approx(before)
    assert list(effect["thresholds"]) == ["common", "rare", "third"]
    page = Path("runs/decided/report.html").read_text(encoding="utf-8")
    assert "A row is given common from" in page
    rare = judged("decided")["evaluation"]["targets"][1]["metrics"]["f1"]["value"]
    assert rare == pytest.approx(f1_score(found.answers.truth[:, 1], chosen[:, 1]))
    again = command("evaluate", "decided", "rows.csv")
    assert again.code in JUDGED, again.err


def test_a_second_training_has_all_rows_and_keeps_the_threshold(project: Path) -> None:
    found = judged("again")["refit"]
    assert found["rows"] == found["first_rows"] + found["validation_rows"]
    assert read_bundle(Path("runs/again/bundle")).calibration.thresholds == (0.3, 0.3, 0.3)


def test_each_target_has_its_own_length_of_the_second_training(project: Path) -> None:
    trains(
        "numbers",
        *NUMBERS,
        "training.refit=true",
        "model.early_stopping_rounds=3",
        "model.learning_rate=0.4",
        "model.max_trees=60",
    )
    first, second = (
        read_json(Path("runs/numbers", where, "boosting.json"))["kept"]
        for where in ("refits/01/bundle", "bundle")
    )
    assert first == second
    assert len(set(second)) == 2
    assert max(second) < 60
    assert sum(second) == judged("numbers")["refit"]["length"]


def test_weights_of_rare_labels_raise_their_probabilities(project: Path) -> None:
    trains("weighed", "model.class_weights=balanced")
    rare = "probability_rare"
    heavy, plain = (
        pl.read_parquet(f"runs/{run}/predictions.parquet") for run in ("weighed", "plain")
    )
    assert heavy[rare].mean() > 1.5 * plain[rare].mean()


@pytest.mark.extended
@pytest.mark.torch
def test_a_network_weighs_and_decides_each_label(project: Path) -> None:
    pytest.importorskip("torch")
    network = ("model={kind: mlp, hidden: [8]}", "training.num_epochs=3")
    weighs = "training.loss={name: binary_cross_entropy, class_weights: balanced}"
    refit, threshold = "training.refit=true", "training.threshold=auto"
    trains("net", *network)
    trains("heavy", *network, weighs, refit, threshold, "metric.name=f1_micro")
    rare = "probability_rare"
    heavy, plain = (pl.read_parquet(f"runs/{run}/predictions.parquet") for run in ("heavy", "net"))
    assert heavy[rare].mean() > plain[rare].mean()
    assert len(read_bundle(Path("runs/heavy/bundle")).calibration.thresholds) == 3


@pytest.mark.extended
def test_thresholds_of_folds_decide_their_rows(project: Path) -> None:
    trains(
        "folds",
        "data.split={kind: random, folds: 2}",
        "training.threshold=auto",
        "metric.name=hamming_loss",
    )
    stored = pl.read_parquet("runs/folds/predictions.parquet")
    for fold in (1, 2):
        own = read_bundle(Path(f"runs/folds/folds/{fold:02d}/bundle")).calibration.thresholds
        rows = stored.filter(pl.col("fold") == fold)
        given = (rows["probability_rare"] >= own[1]).cast(pl.Int64)
        assert (rows["prediction_rare"] == given).all()


@pytest.mark.parametrize("kind", ["xgboost", "catboost"])
def test_trees_that_serve_all_targets_are_trained_again_as_many(kind: str, project: Path) -> None:
    pytest.importorskip(kind)
    trains(
        kind,
        *NUMBERS,
        "training.refit=true",
        f"model={{kind: {kind}, max_trees: 40, learning_rate: 0.4, early_stopping_rounds: 3}}",
    )
    first, second = (
        read_json(Path("runs", kind, where, "boosting.json"))
        for where in ("refits/01/bundle", "bundle")
    )
    assert first["kept"] == second["kept"] == judged(kind)["refit"]["length"] < 40
    assert first["targets"] == second["targets"] == 2
    asked = command(
        "train", "several.yaml", "--set", f"model={{kind: {kind}, class_weights: balanced}}"
    )
    assert asked.code == 2
    assert "remove class_weights" in asked.err
