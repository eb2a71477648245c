"""`tw.tune` gives trials, the best, the winner and its judged run; `runs list` shows the search,
and the score of every run that is fitted and not judged."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path

import pytest

import trainwright as tw
from command import command
from tuned import SEARCHED, people

pytest.importorskip("optuna")

FRAMES = {"people": people()}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tw.TunedStudy:
    return tw.tune(SEARCHED, frames=FRAMES, runs=tmp_path_factory.mktemp("runs"))


def listed(runs: Path, *words: str) -> list[dict[str, object]]:
    ran = command("runs", "list", "--runs", str(runs), "--json", *words)
    assert ran.code == 0, ran.err
    rows: list[dict[str, object]] = json.loads(ran.out)
    return rows


def test_the_trials_are_a_frame_with_a_column_for_each_path(study: tw.TunedStudy) -> None:
    trials = study.trials
    assert trials["trial"].to_list() == [0, 1, 2]
    assert set(SEARCHED["tune"]["over"]) <= set(trials.columns)
    assert trials["model.num_leaves"].drop_nulls().is_in([2, 4, 8]).all()
    assert trials["model.learning_rate"].drop_nulls().is_between(0.01, 0.3).all()
    best = trials.filter(trial=study.best.number)["value"].item()
    assert best == trials["value"].max()


def test_the_winner_alone_is_judged(study: tw.TunedStudy) -> None:
    judged = [path.parent.name for path in study.folder.rglob("evaluation.json")]
    assert judged == [study.run.name] == [f"{study.winner.number:04d}"]
    assert study.run.predictor.predict({"age": [60.0], "city": ["a"]}).height == 1
    assert study.report.is_file()
    assert study.run.report.is_file()
    assert f"kept {study.winner.label}" in repr(study)


def test_the_public_function_is_not_hidden_by_the_stage_of_its_name() -> None:
    importlib.import_module("trainwright.tune.space")
    assert tw.tune.__module__ == "trainwright.tuned_study"


def test_a_study_is_listed_by_its_winner(study: tw.TunedStudy) -> None:
    (row,) = listed(study.folder.parent)
    assert row["name"] == study.name
    assert row["state"] == "finished"
    assert row["verdict"] == study.run.verdict.status
    assert row["trials"] == len(list((study.folder / "trials").glob("[0-9]*.asked.json")))
    assert row["part"] == "test"
    assert row["score"] == study.run.evaluation.metrics["roc_auc"].to_json()
    shown = command("runs", "list", "--runs", str(study.folder.parent)).out
    assert "trials" in shown.splitlines()[0]


def test_trials_are_listed_with_their_scores_on_the_validation_rows(study: tw.TunedStudy) -> None:
    values = dict(study.trials.select("trial", "value").iter_rows())
    rows = listed(study.folder / "trials", "--state", "fitted")
    assert len(rows) >= 2
    for row in rows:
        assert row["part"] == "validation"
        assert row["metric"] == "roc_auc"
        assert isinstance(row["score"], dict)
        if int(str(row["name"])) in values:
            assert row["score"]["value"] == values[int(str(row["name"]))]
        assert row["score"]["low"] is None
    ordered = [row["score"]["value"] for row in listed_by_score(study)]
    assert ordered == sorted(ordered, reverse=True)
    shown = command("runs", "list", "--runs", str(study.folder / "trials")).out
    assert "validation rows" in shown


def listed_by_score(study: tw.TunedStudy) -> list[dict[str, dict[str, float]]]:
    rows = listed(study.folder / "trials", "--state", "fitted", "--sort", "score")
    return [{"score": row["score"]} for row in rows]  # type: ignore[dict-item]


def test_a_fit_by_hand_is_listed_with_its_score(tmp_path: Path) -> None:
    sections = {key: value for key, value in SEARCHED.items() if key != "tune"}
    data = tw.prepare(sections, frames=FRAMES)
    fitted = tw.fit(data, runs=tmp_path, progress=False)
    (row,) = listed(tmp_path)
    assert isinstance(row["score"], dict)
    assert row["score"]["value"] == fitted.score
    assert math.isclose(fitted.score, fitted.validation.metrics["roc_auc"].value)
    tw.judge(fitted, progress=False)
    (row,) = listed(tmp_path)
    assert (row["part"], row["trials"]) == ("test", 0)
