"""The time of a selection is divided evenly, and what is left over goes on."""

from __future__ import annotations

import math

import pytest

from trainwright.run.selection.time_left import TimeLeft


def test_what_one_leaves_over_goes_to_the_others() -> None:
    used = 0.0
    left = TimeLeft(100.0, ["linear", "boosting", "mlp"], lambda: used)
    assert left.seconds == pytest.approx(94)
    assert left.share("linear") == pytest.approx(94 / 3)
    used = 4.0
    assert left.share("boosting") == pytest.approx(45)
    used = 80.0
    assert left.share("mlp") == left.seconds == pytest.approx(14)
    used = 200.0
    assert left.share("mlp") == 0.0


def test_the_dummy_and_a_selection_without_budget_are_not_limited() -> None:
    left = TimeLeft(50.0, ["linear"], lambda: 0.0)
    assert left.share("dummy") == left.seconds
    assert math.isinf(TimeLeft(math.inf, ["linear"], lambda: 1e6).share("linear"))
