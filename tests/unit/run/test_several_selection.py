"""`model: {kind: auto}` for several targets: the ladder, the ensemble, and both trainings."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, r2_score

import trainwright as tw
from command import command, inside
from faults.zygote import Zygote
from trainwright.core.files import read_json
from trainwright.evaluation.calibration.fit_threshold import fit_label_thresholds
from trainwright.predictor.bundle import read_bundle

NUMBERS = """
task: regression
data:
  path: rows.csv
  target: [small, large]
  exclude: [high, odd]
  quality: {look: quick}
model: {kind: auto, candidates: [dummy, linear, boosting, xgboost], ensemble: always}
metric: {name: r2, target: dummy, resamples: 100}
"""
LABELS = (
    "task=multilabel",
    "data.target=[high, odd]",
    "data.exclude=[small, large]",
    "metric.name=average_precision",
)
JUDGED = (0, 3)


def write_rows() -> None:
    draw = np.random.default_rng(4)
    x, z = draw.normal(size=(2, 360))
    city = draw.choice(["Bern", "Oslo", "Rome"], 360)
    small = x + 0.5 * (city == "Oslo") + draw.normal(0, 0.3, 360)
    large = 5000 + 900 * (z**2 + x) + draw.normal(0, 200, 360)
    high, odd = (small > 0.3).astype(int), ((z > 0) ^ (draw.random(360) < 0.1)).astype(int)
    columns = {"x": x, "z": z, "city": city}
    targets = {"small": small, "large": large, "high": high, "odd": odd}
    pl.DataFrame({**columns, **targets}).write_csv("rows.csv")


def trains(run: str, *settings: str) -> dict[str, Any]:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "several.yaml", "--run", run, *words)
    assert ran.code in JUDGED, ran.err
    ladder: dict[str, Any] = read_json(Path("runs", run, "ladder.json"))
    return ladder


def bits(run: Path) -> dict[str, bytes]:
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted((run / "bundle").rglob("*"))
        if path.is_file() and path.name not in ("bundle.json", "profile.json")
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the run `plain`, whose candidates are compared on the validation rows."""
    pytest.importorskip("xgboost")
    folder = tmp_path_factory.mktemp("several")
    with inside(folder):
        write_rows()
        Path("several.yaml").write_text(NUMBERS, encoding="utf-8")
        trains("plain", "model.bagging=off")
        yield folder


def test_candidates_are_compared_by_the_mean_over_the_targets(project: Path) -> None:
    ladder = read_json(Path("runs/plain/ladder.json"))
    part = tw.prepare("several.yaml").ready.prepared.validation
    assert [rung["name"] for rung in ladder["rungs"]] == [
        *("dummy", "linear", "boosting", "xgboost", "ensemble")
    ]
    for rung in ladder["rungs"][:-1]:
        model = read_bundle(Path("runs/plain/candidates", rung["name"], "01/bundle"))
        scores = model.score_part(part)
        assert rung["score"]["value"] == pytest.approx(r2_score(part.target, scores))
    best = max(ladder["rungs"][:-1], key=lambda rung: rung["score"]["value"])
    assert best["gain"]["low"] == best["gain"]["high"] == 0


def test_an_ensemble_is_the_weighted_mean_of_each_target(project: Path) -> None:
    (facts,) = read_json(Path("runs/plain/ladder.json"))["ensemble"]
    new = pl.read_csv("rows.csv").head(20)
    wanted = np.zeros((20, 2))
    for name, weight in facts["weights"].items():
        found = tw.load(Path("runs/plain/candidates", name, "01/bundle")).predict(new)
        wanted += weight * found.select("prediction_small", "prediction_large").to_numpy()
    own = tw.load("runs/plain").predict(new)
    np.testing.assert_allclose(own.select("prediction_small", "prediction_large"), wanted)
    judged = read_json(Path("runs/plain/evaluation.json"))["evaluation"]
    assert [one["name"] for one in judged["targets"]] == ["small", "large"]


@pytest.mark.extended
def test_a_kept_candidate_has_the_trees_of_its_own_contract_in_both_trainings(
    project: Path,
) -> None:
    """Each target has its own number of trees; their sum would be too many for both."""
    one = ("model={kind: auto, candidates: [boosting], bagging: off}", "training.refit=true")
    trains("kept", *one)
    asked = ("--set", "model={kind: boosting}", "--set", "training.refit=true")
    assert command("train", "several.yaml", "--run", "alone", *asked).code in JUDGED
    auto, alone = bits(Path("runs/kept")), bits(Path("runs/alone"))
    assert auto["bundle/boosting.json"] == alone["bundle/boosting.json"]
    trees = [name for name in auto if name.endswith(".txt")]
    assert len(trees) == 2
    assert [auto[name] for name in trees] == [alone[name] for name in trees]


@pytest.mark.extended
def test_labels_are_ranked_and_decided_each_by_itself(project: Path) -> None:
    chosen = "model={kind: auto, candidates: [dummy, linear, boosting], ensemble: false}"
    ladder = trains("labels", *LABELS, chosen)
    settings = {"task": "multilabel", "data.target": ["high", "odd"]}
    overrides = [f"{key}={value}" for key, value in settings.items()]
    overrides += ["data.exclude=[small, large]", "metric.name=average_precision"]
    part = tw.prepare("several.yaml", overrides=overrides).ready.prepared.validation
    for rung in ladder["rungs"]:
        model = read_bundle(Path("runs/labels/candidates", rung["name"], "01/bundle"))
        expected = average_precision_score(part.target, model.score_part(part))
        assert rung["score"]["value"] == pytest.approx(expected)
    threshold = ("metric.name=f1_macro", "training.threshold=auto")
    trains("decided", *LABELS, chosen, *threshold)
    predictor = read_bundle(Path("runs/decided/bundle"))
    fitted = fit_label_thresholds(predictor.score_part(part), part.target, "f1_macro")
    assert predictor.calibration.thresholds == fitted


def test_a_killed_selection_goes_on_to_the_same_bits(project: Path, zygote: Zygote) -> None:
    """Folds of several targets, killed after any of their bundles, the second trainings too."""
    settings = (
        "model.candidates=[boosting]",
        "model.bagging=2",
        "training.refit=true",
    )
    words = [word for setting in settings for word in ("--set", setting)]
    command("train", "several.yaml", "--run", "whole", *words)
    cut = random.Random().randint(1, 3)
    killed = ("train", "several.yaml", "--run", "cut", "--resume", *words)
    ran = zygote.run(killed, Path.cwd(), fault=f"export:{cut}:kill")
    assert ran.code == -signal.SIGKILL, f"at bundle {cut}"
    assert command("resume", "runs/cut").code in JUDGED
    assert bits(Path("runs/cut")) == bits(Path("runs/whole")), f"killed at bundle {cut}"


def test_what_predicts_one_value_is_named_and_a_second_level_refused(project: Path) -> None:
    ladder = trains("few", "model={kind: auto, candidates: [dummy, neighbours]}")
    skipped = {rung["name"]: rung["skipped"] for rung in ladder["rungs"]}
    assert "predicts one value of a row" in skipped["neighbours"]
    ran = command("train", "several.yaml", "--run", "never", "--set", "model.ensemble=stacked")
    assert ran.code == 2
    assert "write model.ensemble: weighted" in ran.err
    assert not Path("runs/never").exists()
