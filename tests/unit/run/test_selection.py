"""`model: {kind: auto}`: candidates are trained, compared on held-out rows, and one or an ensemble
is kept; a run that is killed ends with the same bits."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trainwright as tw
from command import CONTRACT, Ran, command, inside, project_in, write_project
from faults.zygote import Zygote
from trainwright.core.files import read_json
from trainwright.doctor.verify_run import verify_run
from trainwright.predictor.ensemble_scorer import EnsembleScorer
from trainwright.tracking.run_folder import RunFolder

FEW = "candidates: [dummy, linear, boosting, forest]"
AUTO = CONTRACT.replace("kind: boosting", "kind: auto").replace("max_trees: 5", FEW)
QUICK = ("--set", "metric.resamples=100")
JUDGED = (0, 3)
NEW = {"age": [20, 79], "city": ["Oslo", "Rome"], "visits": [3.0, None]}


def trains(name: str, *settings: str) -> Ran:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "small.yaml", "--run", name, *QUICK, *words)
    assert ran.code in JUDGED, ran.err
    return ran


def ladder(name: str) -> Any:
    return read_json(Path("runs", name, "ladder.json"))


def rungs(name: str) -> dict[str, Any]:
    return {rung["name"]: rung for rung in ladder(name)["rungs"]}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, AUTO)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the runs `simplest` and `mixed`, an ensemble of bagged candidates."""
    folder = tmp_path_factory.mktemp("selection")
    write_project(folder, AUTO)
    with inside(folder):
        trains("simplest", "model.ensemble=false", "model.choice=simplest")
        trains("mixed", "model.ensemble=always", "model.bagging=3")
        yield folder


@pytest.mark.extended
def test_the_ladder_names_every_candidate_from_the_simplest_on(trained: Path) -> None:
    found = ladder("simplest")
    assert [rung["name"] for rung in found["rungs"]] == ["dummy", "linear", "boosting", "forest"]
    assert found["rows"] == 45
    assert found["folds"] == 0
    for rung in found["rungs"]:
        assert rung["latency_ms"] > 0
        assert rung["batch_ms"] > 0
        assert rung["megabytes"] > 0
        assert rung["gain"]["value"] <= 0
    dummy = rungs("simplest")["dummy"]
    assert dummy["score"]["value"] == 0.5
    assert dummy["gain"]["high"] < 0
    assert found["chosen"] == "linear"


def test_the_kept_model_is_the_candidate_that_was_compared(trained: Path) -> None:
    own = tw.load(trained / "runs" / "simplest")
    alone = tw.load(trained / "runs" / "simplest" / "candidates" / "linear" / "01" / "bundle")
    assert own.scorer.kind == "linear"
    assert own.predict(NEW).equals(alone.predict(NEW))


def test_a_candidate_is_the_model_that_its_own_contract_trains(trained: Path) -> None:
    alone = CONTRACT.replace("max_trees: 5", "max_trees: 2000")
    (trained / "alone.yaml").write_text(alone)
    assert command("train", "alone.yaml", "--run", "alone", *QUICK).code in JUDGED
    candidate = trained / "runs" / "simplest" / "candidates" / "boosting" / "01" / "bundle"
    for name in ("model.txt", "features.json"):
        assert (candidate / name).read_bytes() == Path("runs/alone/bundle", name).read_bytes()


@pytest.mark.extended
def test_the_choice_never_sees_a_test_row(trained: Path) -> None:
    """The same rows with other answers among the test rows choose the same, to the bit."""
    before = read_json(Path("runs/simplest/data/split.json"))
    frame = pl.read_csv(trained / "rows.csv", schema_overrides={"visits": pl.String})
    tested = pl.read_parquet("runs/simplest/predictions.parquet")["row"]
    assert len(tested) == before["rows"]["test"]
    mask = pl.Series(range(frame.height)).is_in(tested.implode())
    part = pl.when(mask).then(pl.lit("test")).otherwise(pl.lit("train"))
    flipped = pl.when(mask).then(
        pl.when(pl.col("bought") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes"))
    )
    for name, answers in (("as_is", pl.col("bought")), ("flipped", flipped.otherwise("bought"))):
        folder = trained / name
        folder.mkdir()
        rows = frame.with_columns(bought=answers, part=part)
        rows.filter(pl.col("part") == "train").drop("part").write_csv(folder / "rows.csv")
        rows.filter(pl.col("part") == "test").drop("part").write_csv(folder / "test.csv")
        text = AUTO.replace("path: rows.csv", "train_path: rows.csv\n  test_path: test.csv")
        (folder / "small.yaml").write_text(text)
        with inside(folder):
            trains("one")
    scores = [
        [
            (rung["name"], rung["score"], rung["gain"])
            for rung in read_json(trained / name / "runs/one/ladder.json")["rungs"]
        ]
        for name in ("as_is", "flipped")
    ]
    assert scores[0] == scores[1]


def test_an_ensemble_is_one_bundle_of_bagged_models(trained: Path) -> None:
    own = tw.load(trained / "runs" / "mixed")
    assert isinstance(own.scorer, EnsembleScorer)
    found = ladder("mixed")
    assert found["folds"] == 3
    assert found["rows"] == 255
    assert found["chosen"] == "ensemble"
    (facts,) = found["ensemble"]
    assert dict(own.scorer.weights) == pytest.approx(facts["weights"])
    assert len(own.scorer.members) == 3 * len(facts["weights"])
    predicted = own.predict(NEW)
    assert predicted["probability_yes"].is_between(0, 1).all()
    (trained / "new.csv").write_text("age,city,visits\n20,Oslo,3.0\n79,Rome,\n")
    ran = command("predict", "mixed", "new.csv", "-o", "out.csv")
    assert ran.code == 0, ran.err
    assert pl.read_csv("out.csv")["prediction"].to_list() == predicted["prediction"].to_list()
    ran = command("evaluate", "mixed", "rows.csv", "--json")
    assert ran.code in JUDGED, ran.err
    checked = verify_run(RunFolder.open(Path("runs/mixed")))
    assert not [one for one in checked if one.status == "broken"]


def test_the_report_shows_the_ladder(trained: Path) -> None:
    page = Path("runs/mixed/report.html").read_text(encoding="utf-8")
    assert "<h2>Candidates</h2>" in page
    assert "(kept)" in page
    assert "which is too good" in page
    assert "<h2>Candidates</h2>" in Path("runs/simplest/report.html").read_text(encoding="utf-8")


@pytest.mark.extended
def test_a_kept_linear_model_is_the_linear_baseline(project: Path) -> None:
    kept = ("model.candidates=[dummy, linear]", "model.choice=simplest")
    ran = trains("one", *kept, "metric.target=every_baseline")
    assert ladder("one")["chosen"] == "linear"
    assert ladder("one")["folds"] == 5
    assert "minus linear baseline" not in ran.out
    found = read_json(project / "runs/one/evaluation.json")["evaluation"]
    assert found["gains"]["linear"]["roc_auc"]["value"] == 0.0


def test_an_ensemble_that_is_not_better_is_not_kept(project: Path) -> None:
    kept = ("model.ensemble=true", "model.candidates=[linear, boosting]")
    trains("one", *kept, "model.choice=simplest")
    found = ladder("one")
    assert found["ensemble"][0]["gain"]["low"] <= 0
    assert found["chosen"] != "ensemble"
    assert "ensemble" in rungs("one")


def test_the_best_of_candidates_and_ensembles_is_kept(project: Path) -> None:
    trains("one", "model.candidates=[dummy, linear, boosting]")
    values = {rung["name"]: rung["score"]["value"] for rung in ladder("one")["rungs"]}
    assert "ensemble" in values
    assert ladder("one")["chosen"] == max(values, key=lambda name: values[name])


@pytest.mark.extended
def test_a_stack_is_a_second_level_over_held_out_scores(trained: Path) -> None:
    trains("stacked", "model.ensemble=stacked", "model.choice=best", "model.bagging=3", "seed=1")
    found = ladder("stacked")
    facts = {one["name"]: one for one in found["ensemble"]}
    assert set(facts) == {"ensemble", "stack"}
    values = {rung["name"]: rung["score"]["value"] for rung in found["rungs"]}
    assert found["chosen"] == max(values, key=lambda name: values[name])
    (level,) = facts["stack"]["second_level"]
    assert min(level["weights"].values()) > 0
    assert "Stack: " in Path("runs/stacked/report.html").read_text(encoding="utf-8")


@pytest.mark.extended
def test_limits_of_serving_are_clauses_and_exclude_candidates(project: Path) -> None:
    few = "model={kind: auto, candidates: [boosting, forest, linear], ensemble: false}"
    trains("one", few, "model.choice=best", "serving.megabytes=0.004")
    assert "at most 0.004" in rungs("one")["boosting"]["over_limit"]
    verdict = read_json(Path("runs/one/evaluation.json"))["verdict"]
    assert [one["name"] for one in verdict["clauses"]][-1] == "megabytes <= 0.004"


@pytest.mark.extended
def test_limits_hold_for_every_kind_of_model(project: Path) -> None:
    ran = trains("one", "model={kind: linear}", "serving.latency_ms=1e-6", "serving.megabytes=1000")
    assert ran.code == 3
    verdict = read_json(Path("runs/one/evaluation.json"))["verdict"]
    *_, slow, small = verdict["clauses"]
    assert (slow["name"], slow["status"]) == ("latency_ms p95 <= 1e-06", "missed")
    assert small["status"] == "met"
    assert verdict["status"] == "missed"
    shown = json.loads(command("evaluate", "one", "--json").out)
    assert shown["clauses"][-2]["status"] == "missed"


def test_what_is_not_installed_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainwright.core import lazy_imports

    there = lazy_imports.find_spec
    monkeypatch.setattr(
        lazy_imports, "find_spec", lambda name: None if name == "xgboost" else there(name)
    )
    ran = trains("one", "model.candidates=[linear, xgboost]")
    assert "trainwright[xgboost]" in rungs("one")["xgboost"]["skipped"]
    assert "not trained" in ran.err


@pytest.mark.extended
def test_a_budget_is_divided_and_what_does_not_fit_is_named(project: Path) -> None:
    pytest.importorskip("torch")
    trains("one", "model.candidates=[linear, boosting, mlp]", "budget.hours=0.01")
    found = rungs("one")
    assert all(not one["skipped"] for one in found.values())
    assert sum(one["seconds"] for one in found.values()) < 36


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.candidates=[]", "no candidates"),
        ("model.candidates=[linear, linear]", "twice"),
        ("model.candidates=[lgbm]", "lgbm"),
        ("model.bagging=1", "at least 2"),
        ("data.sampling={kind: balanced}", "all rows at once"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(project: Path, setting: str, said: str) -> None:
    ran = command("train", "small.yaml", "--set", setting)
    assert ran.code == 2
    assert said in ran.err
    assert not Path("runs").exists()


def test_folds_of_time_are_refused(project: Path) -> None:
    split = "data.split={kind: time, column: visits}"
    ran = command("train", "small.yaml", "--set", split, "--set", "model.bagging=4")
    assert ran.code == 2
    assert "later rows" in ran.err


@pytest.mark.extended
def test_each_fold_of_the_data_selects_for_itself(project: Path) -> None:
    trains("one", "data.split={kind: stratified, folds: 2}", "model.candidates=[linear, boosting]")
    for fold in ("01", "02"):
        assert Path("runs/one/folds", fold, "ladder.json").is_file()


@pytest.mark.extended
def test_calibration_rests_on_held_out_scores(project: Path) -> None:
    trains("one", "model.ensemble=always", "model.bagging=2", "training.calibration=platt")
    calibration = read_json(Path("runs/one/bundle/calibration.json"))
    assert calibration["rows"] == 255


KILLS = (
    "export:2:kill",  # before the bundle of the second candidate is whole
    "tree:4:kill",  # inside the trees of a candidate
    "file.replace:40:kill",
)
BAGGED = ("--set", "model.ensemble=always", "--set", "model.bagging=2")
OFTEN = ("--set", "training.checkpointing.save_every_minutes=1e-6")


def bits(run: Path) -> dict[str, bytes]:
    """Everything of the bundle that a time or an identity does not decide."""
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted((run / "bundle").rglob("*"))
        if path.is_file() and path.name not in ("bundle.json", "profile.json")
    }


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unbroken")
    for _ in project_in(folder, AUTO):
        ran = command("train", "small.yaml", "--run", "one", *QUICK, *BAGGED, *OFTEN)
        assert ran.code in JUDGED, ran.err
        return bits(Path("runs/one"))
    raise AssertionError


@pytest.mark.extended
@pytest.mark.parametrize("fault", KILLS)
def test_a_killed_selection_goes_on_to_the_same_bits(
    project: Path, zygote: Zygote, fault: str, unbroken: dict[str, bytes]
) -> None:
    words = ("train", "small.yaml", "--run", "one", "--resume", *QUICK, *BAGGED, *OFTEN)
    assert zygote.run(words, Path.cwd(), fault=fault).code == -signal.SIGKILL
    finished = sorted(Path("runs/one/candidates").glob("*/candidate.json"))
    moments = {path: path.stat().st_mtime_ns for path in finished}
    assert command("resume", "runs/one").code in JUDGED
    assert bits(Path("runs/one")) == unbroken
    assert {path: path.stat().st_mtime_ns for path in finished} == moments
