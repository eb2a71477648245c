"""What the page shows of single classes, of the chosen model, and of very large numbers."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from trainwright.core.files import write_json
from trainwright.core.formatting import show_number
from trainwright.evaluation.curves.plot_data import ClassificationCurves
from trainwright.report.figures.confusion_and_histograms import view_confusion
from trainwright.report.figures.evaluation_figures import draw_forecast
from trainwright.report.figures.training_figures import kept_step, view_training
from trainwright.report.load_run import Contents, Forecast, Trees, read_contents
from trainwright.report.sections.verdict_section import _meaning
from trainwright.tracking.run_folder import RunFolder

KEPT = {"ending": {"state": "finished", "kept_step": 20}}
EVENTS = [
    {"event": "validated", "step": step, "values": {"val_loss": value}, "improved": improved}
    for step, value, improved in ((10, 0.5, True), (20, 0.3, True), (30, 0.4, False))
]
SIGNALS = {
    "step": [float(step) for step in range(1, 31)],
    "loss": [1.0 / step for step in range(1, 31)],
    "learning_rate": [0.1] * 30,
    "gradient_norm": [1.0] * 30,
}


def test_every_class_has_its_precision_and_recall() -> None:
    curves = ClassificationCurves(("a", "b", "c"), ((3, 1, 0), (0, 4, 0), (0, 0, 0)), (), ())
    (confusion,) = view_confusion(curves)
    shown = [(row.label, row.rows, row.precision, row.recall) for row in confusion.classes]
    assert shown == [("a", 4, "1.0000", "0.7500"), ("b", 4, "0.8000", "1.0000"), ("c", 0, "–", "–")]


def test_many_classes_are_all_listed() -> None:
    labels = tuple(f"class {number}" for number in range(40))
    counts = tuple(tuple(int(i == j) for j in range(40)) for i in range(40))
    (confusion,) = view_confusion(ClassificationCurves(labels, counts, (), ()))
    assert [row.label for row in confusion.classes] == list(labels)


@pytest.mark.extended
@pytest.mark.parametrize(("record", "step"), [(KEPT, 20.0), ({}, None)])
def test_the_step_whose_weights_were_kept_is_marked(
    record: dict[str, object], step: object
) -> None:
    contents = Contents("run", record=record, signals=SIGNALS, events=EVENTS)
    kept = kept_step(contents)
    assert kept == step if step else kept != kept
    caption = view_training(contents).figures[0].caption
    assert ("step 20, whose weights were kept" in caption) == bool(step)


def test_the_trees_that_were_kept_are_marked() -> None:
    trees = Trees("auc", [(1, 0.7, 0.6), (10, 0.8, 0.7)], (7,))
    (figure,) = view_training(Contents("run", trees=(trees,))).figures
    assert "the 7 trees kept" in figure.caption


def test_the_trees_of_several_quantiles_are_marked(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.bundle.mkdir()
    content = {"metric": "quantile", "kept": [60, 58], "curve": [[1, 0.3, 0.4], [11, 0.2, 0.3]]}
    write_json(folder.bundle / "boosting.json", content)
    contents = read_contents(folder)
    assert contents.damaged == ()
    (figure,) = view_training(contents).figures
    assert "the 60 and 58 trees kept of each quantile" in figure.caption


def test_very_large_numbers_do_not_widen_the_page() -> None:
    assert show_number(1_381_773_793_871.0) == "1.38e+12"
    assert show_number(26_600.0) == "26,600"


@pytest.mark.parametrize("rows", [50, 2000])
def test_a_time_split_shows_truth_and_prediction_over_time(rows: int) -> None:
    time = np.datetime64("2024-01-01", "us") + np.arange(rows) * np.timedelta64(1, "h")
    target = np.sin(np.arange(rows) / 20.0)
    (figure,) = draw_forecast(Forecast(time, target, target + 0.1))
    assert [key.name for key in figure.keys] == ["true", "predicted"]
    assert f"{rows:,} test rows" in figure.caption
    assert ("means of 300 groups" in figure.caption) == (rows > 300)


@pytest.mark.extended
def test_the_times_of_the_test_rows_are_kept(tmp_path: Path) -> None:
    hours = pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 13), "1h", eager=True)
    load = [float(number % 24) for number in range(len(hours))]
    frame = pl.DataFrame({"at": hours, "hour": [int(one) for one in load], "load": load})
    sections = {
        "data": {
            "path": "frame://load",
            "target": "load",
            "split": {"kind": "time", "column": "at"},
            "columns": {"load": {"kind": "numeric"}},
        },
        "model": {"kind": "linear"},
        "metric": {"name": "mae", "target": 5.0, "resamples": 100},
    }
    run = tw.train(sections, frames={"load": frame}, runs=tmp_path)
    (forecast,) = read_contents(run.result.folder).forecasts
    assert forecast.time[0] == hours[len(hours) - len(forecast.time)]
    assert "Forecast over time" in run.report.read_text(encoding="utf-8")


def test_a_percentage_of_next_to_nothing_is_said_to_mean_nothing() -> None:
    assert _meaning("mape", 1e12).startswith("not meaningful")
    assert _meaning("mape", 0.4) == _meaning("rmse", 1e12) == "lower is better"
