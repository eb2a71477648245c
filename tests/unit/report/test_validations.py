"""Validations in the report."""

from __future__ import annotations

from trainwright.core.files import Json
from trainwright.report.figures.training_figures import view_training
from trainwright.report.load_run import Contents

SIGNALS = {
    name: [float(step) for step in range(1, 9)]
    for name in ("step", "loss", "learning_rate", "gradient_norm")
}


def validated(step: int, **values: float) -> dict[str, Json]:
    return {"event": "validated", "step": step, "values": values}


def test_training_and_validation_loss_share_a_figure() -> None:
    events = [validated(4, val_loss=0.5, val_f1=0.8), validated(8, val_loss=0.25, val_f1=0.9)]
    figures = view_training(Contents("one", signals=SIGNALS, events=events)).figures
    titles = [figure.title for figure in figures]
    assert titles == [
        "Training and validation loss",
        "Validation: val_f1",
        "Learning rate",
        "Gradient norm",
    ]
    assert "2 validations, the last at 0.2500" in figures[0].caption
    assert [key.name for key in figures[0].keys] == ["training rows", "validation rows"]


def test_without_validations_the_figure_is_of_the_training_alone() -> None:
    (first, *_) = view_training(Contents("one", signals=SIGNALS)).figures
    assert (first.title, first.keys) == ("Training loss", ())


def test_the_slices_of_a_metric_share_a_figure() -> None:
    values = {"val_f1": 0.7, "val_f1/city=Oslo": 0.6, "val_f1/city=Rome": 0.8}
    figures = view_training(Contents("one", events=[validated(4, **values)])).figures
    assert [figure.title for figure in figures] == [
        "Validation: val_f1",
        "Validation: val_f1 by slice",
    ]
    assert [key.name for key in figures[1].keys] == ["city=Oslo", "city=Rome"]
