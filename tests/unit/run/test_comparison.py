"""`runs list` and `runs compare`: what they show of runs, and their paired differences."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json
from trainwright.report.comparison_page import write_comparison
from trainwright.run.after.compare_runs import compare_runs
from trainwright.run.folder.run_table import RunFilter, list_run_rows
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

SECTIONS = {
    "data": {"path": "rows.csv", "target": "bought"},
    "model": {"kind": "linear"},
    "metric": {"name": "log_loss", "target": 0.6, "resamples": 100},
    "budget": {"price_per_hour": 36.0},
}


TREES = ["model={kind: boosting, max_trees: 30}", 'data.columns."noise.2".kind=numeric']


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: linear, boosted, and linear on another split."""
    folder = tmp_path_factory.mktemp("compared")
    draw = random.Random(3)
    ages = [draw.randint(18, 80) for _ in range(400)]
    noise = [draw.gauss(0, 12) for _ in ages]
    bought = [int(30 < age + more < 60) for age, more in zip(ages, noise, strict=True)]
    frame = pl.DataFrame({"age": ages, "noise.2": noise, "bought": bought})
    frame.write_csv(folder / "rows.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tw.train(SECTIONS, name="linear")
        tw.train(SECTIONS, overrides=TREES, name="trees")
        tw.train(SECTIONS, overrides=["split_seed=5"], name="other")
    return folder / "runs"


@pytest.mark.extended
def test_settings_of_texts_are_compared_where_there_are_some(runs: Path) -> None:
    folders = [RunFolder(runs / name) for name in ("linear", "trees")]
    manifest = folders[1].data / "manifest.json"
    kept = manifest.read_bytes()
    try:
        manifest.write_bytes(kept.replace(b'"numeric"', b'"text"', 1))
        assert compare_runs(folders).settings["data.features.text.terms"] == (20_000, 2000)
    finally:
        manifest.write_bytes(kept)


@pytest.mark.extended
def test_the_test_predictions_of_a_run_are_kept(runs: Path) -> None:
    folder = RunFolder(runs / "trees")
    kept = read_predictions(folder)
    evaluation = read_json(folder.evaluation)["evaluation"]
    assert len(kept.rows) == evaluation["rows"]
    truth = np.asarray(kept.answers.truth)
    loss = -np.log(kept.answers.scores[np.arange(len(truth)), truth]).mean()
    assert loss == pytest.approx(evaluation["metrics"]["log_loss"]["value"])
    frame = pl.read_parquet(folder.predictions)
    assert frame["prediction"].dtype == pl.Int64
    written = pl.read_csv(runs.parent / "rows.csv")["bought"].gather(frame["row"])
    assert frame["target"].to_list() == written.to_list()


def test_the_table_shows_model_score_time_and_price(runs: Path) -> None:
    rows = list_run_rows(runs, RunFilter())
    assert [row.summary.name for row in rows] == ["linear", "trees", "other"]
    assert [row.model for row in rows] == ["linear", "boosting", "linear"]
    assert all(row.metric == "log_loss" and row.score.given for row in rows)
    assert all(row.price == pytest.approx(row.seconds / 100) for row in rows)


def test_the_table_is_sorted_and_filtered(runs: Path) -> None:
    best, *_ = list_run_rows(runs, RunFilter(), "score")
    assert best.score.value == min(row.score.value for row in list_run_rows(runs, RunFilter()))
    assert [one.summary.name for one in list_run_rows(runs, RunFilter(model="boosting"))] == [
        "trees"
    ]
    assert list_run_rows(runs, RunFilter(state="failed")) == []
    assert len(list_run_rows(runs, RunFilter(name="e"))) == 3


def test_differences_are_paired(runs: Path) -> None:
    compared = compare_runs([RunFolder(runs / "linear"), RunFolder(runs / "trees")])
    gain = compared.gains["trees"]["log_loss"]
    one, other = compared.metrics["log_loss"]
    assert gain.value == pytest.approx(other.value - one.value)
    assert gain.low < gain.value < gain.high
    assert compared.settings["model.kind"] == ("linear", "boosting")
    # No column is text, so that the terms of texts, which are decided by the model, are none.
    assert not [path for path in compared.settings if path.startswith("data.features.text")]
    before, after = compared.settings['data.columns."noise.2"']
    assert (before, after["kind"]) == ("absent", "numeric")


def test_other_test_rows_have_no_differences(runs: Path) -> None:
    compared = compare_runs([RunFolder(runs / "linear"), RunFolder(runs / "other")])
    assert compared.gains == {}
    assert compared.unpaired == {"other": "its test rows differ"}


def test_runs_of_which_one_ranks_within_folds_have_no_differences(runs: Path) -> None:
    """Their `roc_auc` counts other pairs of rows."""
    folder = RunFolder(runs / "other")
    folded = RunFolder(runs.parent / "more" / "other")
    shutil.copytree(folder.path, folded.path)
    frame = pl.read_parquet(folded.predictions)
    frame.with_columns(fold=pl.int_range(pl.len()) % 3).write_parquet(folded.predictions)
    (folded.path / "checksums.json").unlink()
    twin = RunFolder(folded.path.rename(folded.path.with_name("twin")))
    compared = compare_runs([folder, twin])
    assert compared.gains == {}
    assert "the fold of each row" in compared.unpaired["twin"]


def test_a_comparison_needs_two_runs(runs: Path) -> None:
    with pytest.raises(Mistake, match="two or more"):
        compare_runs([RunFolder(runs / "linear"), RunFolder(runs / "linear")])


@pytest.mark.usefixtures("whole_pages")
def test_the_page_shows_metrics_and_settings(runs: Path, tmp_path: Path) -> None:
    folders = [RunFolder(runs / name) for name in ("linear", "trees", "other")]
    page = write_comparison(compare_runs(folders), folders, tmp_path / "page.html").read_text()
    assert "log_loss" in page
    assert "model.kind" in page
    assert "Boosting: validation rows" in page
    assert "its test rows differ" in page
    assert "<script" not in page
