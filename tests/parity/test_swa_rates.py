"""The rates at which weights are averaged, and the steps at which they are taken."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.contract.sections.training.scheduler import ConstantRate, CyclicRate, Swa  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.optim.swa import SWALearningRate  # noqa: E402
from trainwright.optim.swa_schedule import SWASchedule, taking_of  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_cyclic_rate_is_that_of_the_paper() -> None:
    """Equation in section 3.1: alpha(i) = (1 - t) a1 + t a2, t = (mod(i - 1, c) + 1) / c."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    taking = taking_of(Swa(kind="swa", every_n_steps=5, start_ratio=0.5), (10, 20, 30, 40), 40)
    assert taking == SWASchedule(20, (25, 30, 35, 40))
    section = CyclicRate(kind="cyclic", high_ratio=0.5, low_ratio=0.05)
    knob = SWALearningRate(optimizer, section, taking)
    for step in range(45):
        optimizer.param_groups[0]["lr"] = 0.123
        knob(Progress(step=step))
        i, c = step - 20 + 1, 5
        t = ((i - 1) % c + 1) / c if step < 40 else 1.0
        expected = 0.4 * ((1 - t) * 0.5 + t * 0.05) if step >= 20 else 0.123
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)


def test_a_constant_rate_is_reached_from_the_schedules() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    knob = SWALearningRate(
        optimizer, ConstantRate(ratio=0.25), SWASchedule(10, (20,)), anneal_steps=3
    )
    rates = []
    for step in range(8, 16):
        optimizer.param_groups[0]["lr"] = 0.2
        knob(Progress(step=step))
        rates.append(optimizer.param_groups[0]["lr"])
    left = [0.5 * (1 + math.cos(math.pi * share / 4)) for share in range(1, 5)]
    way = [0.1 + 0.1 * one for one in left]
    assert rates == pytest.approx([0.2, 0.2, *way, 0.1, 0.1])


@pytest.mark.parametrize(
    ("section", "taking"),
    [
        ({}, SWASchedule(30, (40,))),
        ({"start_ratio": 0.0}, SWASchedule(0, (10, 20, 30, 40))),
        ({"start_epoch": 2}, SWASchedule(20, (30, 40))),
        ({"start_epoch": 9}, SWASchedule(40, ())),
        ({"start_ratio": 0.55, "every_n_steps": 7}, SWASchedule(22, (29, 36))),
        ({"start_ratio": 0.7, "every_n_steps": 4}, SWASchedule(28, (32, 36, 40))),
    ],
)
def test_weights_are_taken_behind_the_start(
    section: Mapping[str, float], taking: SWASchedule
) -> None:
    assert taking_of(Swa(kind="swa", **section), (10, 20, 30, 40), 40) == taking
