"""What the page shows of single classes, of the chosen model, and of very large numbers."""

from __future__ import annotations

import pytest

from trainwright.core.units import show_number
from trainwright.evaluation.curves import ClassificationCurves
from trainwright.report.confusion import view_confusion
from trainwright.report.contents import Contents, Trees
from trainwright.report.training_figures import kept_step, view_training

STOPS = {"contract": {"training": {"early_stopping": {"patience": 3}}}}
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


@pytest.mark.parametrize(("plan", "step"), [(STOPS, 20.0), ({}, None)])
def test_the_step_whose_weights_were_kept_is_marked(plan: dict[str, object], step: object) -> None:
    contents = Contents("run", plan=plan, signals=SIGNALS, events=EVENTS)
    kept = kept_step(contents)
    assert kept == step if step else kept != kept
    caption = view_training(contents).figures[0].caption
    assert ("step 20, whose weights were kept" in caption) == bool(step)


def test_the_trees_that_were_kept_are_marked() -> None:
    trees = Trees("auc", [(1, 0.7, 0.6), (10, 0.8, 0.7)], 7)
    (figure,) = view_training(Contents("run", trees=(trees,))).figures
    assert "the 7 trees that were kept" in figure.caption


def test_very_large_numbers_do_not_widen_the_page() -> None:
    assert show_number(1_381_773_793_871.0) == "1.38e+12"
    assert show_number(26_600.0) == "26,600"
