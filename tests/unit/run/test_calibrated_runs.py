"""Runs whose probabilities are calibrated: what is fitted, kept, applied and said."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score

from command import CONTRACT, command, inside, project_in, train_one
from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json, write_json
from trainwright.evaluation.calibration.fit_calibration import fit_calibration, mean_log_loss
from trainwright.evaluation.calibration.fit_threshold import fit_threshold
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.predictor.bundle import read_bundle
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder

PLATT = "training.calibration=platt"
BUNDLE = Path("runs/one/bundle")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, CONTRACT)


@pytest.mark.usefixtures("project")
def test_it_is_fitted_on_the_validation_rows_alone() -> None:
    assert train_one(PLATT).code in (0, 3)
    predictor = read_bundle(BUNDLE)
    request = Request(Path("small.yaml"), (PLATT,))
    prepared = make_ready(request, StageTimes(), StreamScreen(io.StringIO())).prepared
    part = prepared.validation
    scores = predictor.uncalibrated(part.inputs)
    assert predictor.calibration == fit_calibration(scores, part.target, part.units, "platt", 0)
    test = prepared.test
    stored = read_json(Path("runs/one/evaluation.json"))
    changes = stored["calibration"]["changes"]
    before = mean_log_loss(predictor.uncalibrated(test.inputs), test.target)
    after = mean_log_loss(predictor.score(test.inputs), test.target)
    assert changes["log_loss"]["before"]["value"] == pytest.approx(before)
    assert changes["log_loss"]["after"]["value"] == pytest.approx(after)
    assert stored["evaluation"]["metrics"]["log_loss"]["value"] == pytest.approx(after)
    assert set(changes) == {"calibration_error", "log_loss", "brier", "roc_auc"}
    assert stored["calibration"]["rows"] == len(part)


@pytest.mark.usefixtures("project")
def test_predict_evaluate_and_report_use_it() -> None:
    ran = train_one(PLATT)
    assert "calibrate platt · calibration_error " in ran.err
    predicted = pl.read_csv(command("predict", "one", "rows.csv").out.encode())
    predictor = read_bundle(BUNDLE)
    rows = pl.read_csv("rows.csv", infer_schema=False)
    scores = predictor.scorer.score(predictor.features.read_new(_Rows(rows)))
    assert np.abs(scores[:, 1] - predicted["probability_yes"].to_numpy()).max() > 1e-3
    mapped = predictor.calibration.apply(scores)
    np.testing.assert_allclose(mapped[:, 1], predicted["probability_yes"].to_numpy())
    judged = json.loads(command("evaluate", "one", "rows.csv", "--json").out)
    truth = (rows["bought"] == "yes").cast(pl.Int64).to_numpy()
    assert judged["metrics"]["log_loss"]["value"] == pytest.approx(mean_log_loss(mapped, truth))
    page = Path("runs/one/report.html").read_text()
    assert "Calibrated by platt on 45 validation rows." in page
    assert "by its own map" not in page + ran.err
    assert re.search(r"log_loss \d\.\d{4} -> \d\.\d{4} ", ran.err)


class _Rows:
    """Rows as a predictor is given them."""

    source = "the rows"

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows

    def frame(self) -> pl.DataFrame:
        return self._rows

    def images(self) -> np.ndarray:
        raise NotImplementedError


@pytest.mark.usefixtures("project")
def test_without_it_nothing_of_it_is_written() -> None:
    assert train_one().code in (0, 3)
    assert not (BUNDLE / "calibration.json").exists()
    assert read_json(BUNDLE / "bundle.json")["format"] == 2
    assert "calibration" not in read_json(Path("runs/one/evaluation.json"))


@pytest.mark.usefixtures("project")
def test_a_calibrated_bundle_is_of_a_format_that_earlier_versions_refuse() -> None:
    train_one(PLATT)
    assert read_json(BUNDLE / "bundle.json")["format"] == 3
    about = read_json(BUNDLE / "bundle.json")
    del about["files"]["calibration.json"]
    write_json(BUNDLE / "bundle.json", about)
    (BUNDLE / "calibration.json").unlink()
    with pytest.raises(Mistake, match="does not list the files"):
        read_bundle(BUNDLE)


@pytest.mark.extended
@pytest.mark.usefixtures("project")
def test_the_order_of_rows_stays_so_a_ranking_does() -> None:
    train_one()
    before = read_json(Path("runs/one/evaluation.json"))["evaluation"]["metrics"]["roc_auc"]
    words = ("train", "small.yaml", "--run", "two", "--set", "training.calibration=temperature")
    command(*words)
    after = read_json(Path("runs/two/evaluation.json"))["evaluation"]["metrics"]["roc_auc"]
    assert after["value"] == pytest.approx(before["value"])


@pytest.mark.usefixtures("project")
def test_each_fold_is_calibrated_on_its_own_validation_rows() -> None:
    folds = "data.split={kind: stratified, folds: 3}"
    ran = train_one(PLATT, folds)
    assert ran.code in (0, 3)
    of_run = "each fold by its own map and threshold; these are those of the run's model"
    assert " · each fold by its own" in ran.err
    page = unescape(Path("runs/one/report.html").read_text())
    assert f"E{of_run[1:]}." in page
    found = [read_bundle(Path(f"runs/one/folds/{number:02d}/bundle")) for number in (1, 2, 3)]
    assert len({one.calibration.lines for one in found}) == 3
    changes = read_json(Path("runs/one/evaluation.json"))["calibration"]["changes"]
    assert changes["log_loss"]["before"]["value"] != changes["log_loss"]["after"]["value"]


F1 = ("metric.name=f1", "metric.target=dummy", "training.threshold=auto")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("more", [(), (PLATT,)], ids=str)
def test_a_threshold_decides_wherever_classes_are_chosen(more: tuple[str, ...]) -> None:
    assert train_one(*F1, *more).code in (0, 3)
    predictor = read_bundle(BUNDLE)
    threshold = predictor.calibration.threshold
    assert threshold != 0.5
    predicted = pl.read_csv(command("predict", "one", "rows.csv").out.encode())
    is_yes = predicted["probability_yes"] >= threshold
    assert (is_yes == (predicted["prediction"] == "yes")).all()
    assert (is_yes != (predicted["probability_yes"] >= 0.5)).any()
    judged = json.loads(command("evaluate", "one", "rows.csv", "--json").out)
    truth = (pl.read_csv("rows.csv")["bought"] == "yes").to_numpy()
    assert judged["metrics"]["f1"]["value"] == pytest.approx(f1_score(truth, is_yes.to_numpy()))
    folder = RunFolder(Path("runs/one"))
    stored = read_json(folder.evaluation)
    of_test = read_predictions(folder).answers
    value = measure("f1", of_test, Metric(name="f1"))
    assert stored["evaluation"]["metrics"]["f1"]["value"] == pytest.approx(value)
    changes = stored["calibration"]["changes"]["f1"]
    assert changes["after"]["value"] == pytest.approx(value)
    usual = replace(of_test, decided=None)
    if not more:
        assert changes["before"]["value"] == pytest.approx(measure("f1", usual, Metric(name="f1")))
    assert "A row is positive from a probability of" in folder.report.read_text()


@pytest.mark.usefixtures("project")
def test_a_threshold_is_fitted_on_the_validation_rows_alone() -> None:
    train_one(*F1)
    predictor = read_bundle(BUNDLE)
    prepared = make_ready(
        Request(Path("small.yaml"), F1), StageTimes(), StreamScreen(io.StringIO())
    ).prepared
    part = prepared.validation
    scores = predictor.score(part.inputs)
    assert predictor.calibration.threshold == fit_threshold(scores, part.target, 1, "f1")


@pytest.mark.extended
@pytest.mark.usefixtures("project")
def test_folds_have_thresholds_of_their_own() -> None:
    folds = "data.split={kind: stratified, folds: 3}"
    assert train_one(*F1, folds).code in (0, 3)
    found = [read_bundle(Path(f"runs/one/folds/{number:02d}/bundle")) for number in (1, 2, 3)]
    assert len({one.calibration.threshold for one in found}) > 1
    folder = RunFolder(Path("runs/one"))
    frame = pl.read_parquet(folder.predictions)
    thresholds = np.array([one.calibration.threshold for one in found])
    of_row = thresholds[frame["fold"].to_numpy() - 1]
    is_yes = frame["probability_yes"].to_numpy() >= of_row
    np.testing.assert_array_equal(is_yes, (frame["prediction"] == "yes").to_numpy())
    truth = (frame["target"] == "yes").to_numpy()
    stored = read_json(folder.evaluation)
    assert stored["evaluation"]["metrics"]["f1"]["value"] == pytest.approx(f1_score(truth, is_yes))
    by_fold = [one["metrics"]["f1"] for one in stored["by_fold"]["folds"]]
    for number, value in enumerate(by_fold, 1):
        own = (frame["fold"] == number).to_numpy()
        assert value == pytest.approx(f1_score(truth[own], is_yes[own]))


@pytest.mark.extended
@pytest.mark.usefixtures("project")
def test_seeds_have_thresholds_of_their_own() -> None:
    assert train_one(*F1, "training.seeds=2").code in (0, 3)
    other = read_bundle(Path("runs/one/seeds/01/bundle"))
    prepared = make_ready(
        Request(Path("small.yaml"), F1), StageTimes(), StreamScreen(io.StringIO())
    ).prepared
    scores = other.score(prepared.test.inputs)
    is_yes = scores[:, 1] >= other.calibration.threshold
    by_seed = read_json(Path("runs/one/evaluation.json"))["by_seed"]
    assert by_seed["metrics"]["f1"][1] == pytest.approx(f1_score(prepared.test.target, is_yes))


@pytest.mark.usefixtures("project")
def test_a_written_threshold_counts_for_any_metric() -> None:
    assert train_one("training.threshold=0.2").code in (0, 3)
    assert read_bundle(BUNDLE).calibration.threshold == 0.2
    predicted = pl.read_csv(command("predict", "one", "rows.csv").out.encode())
    is_yes = predicted["probability_yes"] >= 0.2
    assert (is_yes == (predicted["prediction"] == "yes")).all()


@pytest.mark.usefixtures("project")
def test_a_ranking_has_no_best_threshold() -> None:
    ran = train_one("training.threshold=auto")
    assert ran.code == 2
    assert "training.threshold: roc_auc has no best threshold" in ran.err
    assert not Path("runs").exists()


@pytest.mark.usefixtures("project")
def test_a_threshold_decides_between_two_classes() -> None:
    words = ("data.target=city", "metric.name=f1_macro", "training.threshold=0.3")
    Path("small.yaml").write_text(
        CONTRACT.replace('  positive: "yes"\n', "").partition("slices:")[0]
    )
    ran = train_one(*words)
    assert ran.code == 2
    assert "a threshold decides between two classes" in ran.err
    assert "found: 3 classes" in ran.err


@pytest.mark.usefixtures("project")
def test_numbers_have_no_probabilities() -> None:
    settings = ("task=regression", "data.target=age", "metric.name=rmse", "metric.target=dummy")
    Path("small.yaml").write_text(CONTRACT.replace('  positive: "yes"\n', ""))
    words = [word for one in (*settings, PLATT) for word in ("--set", one)]
    ran = command("train", "small.yaml", "--run", "one", *words)
    assert ran.code == 2
    assert "training.calibration: a regression has no class probabilities" in ran.err
    assert "fix: remove training.calibration" in ran.err
    assert not Path("runs").exists()


@pytest.mark.extended
@pytest.mark.torch
def test_a_network_is_calibrated_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from command import NETWORK

    for _ in project_in(tmp_path, NETWORK):
        assert train_one("training.calibration=auto").code in (0, 3)
        about = read_json(tmp_path / "runs/one/evaluation.json")["calibration"]
        assert set(about["tried"]) == {"none", "temperature", "platt"}
        read_bundle(tmp_path / "runs/one/bundle")


def test_a_named_method_that_makes_held_out_rows_worse_is_said(tmp_path: Path) -> None:
    """Forty validation rows that are all easy, and training rows with wrong labels."""
    draws = np.random.default_rng(13)
    part = np.repeat(["train", "validation", "test"], [300, 40, 200])
    x = draws.normal(0, 2, 540)
    label, easy = x > 0, part == "validation"
    x[easy] = np.where(label[easy], 1, -1) * draws.uniform(2, 4, 40)
    label ^= ~easy & (draws.random(540) < 0.06)
    rows = {"x": x, "z": draws.normal(size=540), "part": part, "label": np.where(label, "b", "a")}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    contract = {
        "data": {
            "path": str(tmp_path / "rows.csv"),
            "target": "label",
            "positive": "b",
            "split": {"kind": "column", "column": "part"},
        },
        "model": {"kind": "linear"},
        "metric": {"name": "log_loss", "target": "baseline", "resamples": 100},
    }
    said = {}
    for method in ("temperature", "auto"):
        (tmp_path / "c.yaml").write_text(
            json.dumps({**contract, "training": {"calibration": method}})
        )
        with inside(tmp_path):
            said[method] = command("train", "c.yaml", "--run", method).out
    worse = "calibration by temperature makes held-out validation rows worse: log loss"
    assert worse in said["temperature"]
    assert worse not in said["auto"]
