"""Invariant 9: nothing in a step waits for the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.engine.guards.step_guard import HaltOnNonFinite  # noqa: E402
from trainwright.engine.job import Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import StepLimit  # noqa: E402
from trainwright.tracking.events import StepOutcome  # noqa: E402
from trainwright.tracking.signals import SignalRecorder  # noqa: E402

pytestmark = pytest.mark.torch


# 9. Nothing in a step waits for the device.


class FakeScalar:
    """A number on a device: counts how often somebody waits for it."""

    waits: ClassVar[list[int]] = []

    def __init__(self, value: float) -> None:
        self._value = value

    def item(self) -> float:
        self.waits.append(1)
        return self._value


class DeviceStep:
    def __init__(self) -> None:
        self.waits_before: list[int] = []

    def __call__(self, work: StepBatches) -> StepOutcome:
        self.waits_before.append(len(FakeScalar.waits))
        scalars = [FakeScalar(value) for value in (0.5, 1.0, 0.0)]
        return StepOutcome(
            loss=scalars[0],
            learning_rate=0.1,
            gradient_norm=scalars[1],
            found_nonfinite=scalars[2],
            step_seconds=0.0,
            data_seconds=0.0,
            rows=work.rows,
            samples=work.samples,
            epoch=work.epoch,
        )


@pytest.mark.parametrize("window", [1, 10, 50])
def test_the_device_is_waited_for_once_a_window(window: int, tmp_path: Path) -> None:
    FakeScalar.waits.clear()
    groups: list[int] = []

    def read_together(numbers: Sequence[object]) -> list[float]:
        groups.append(len(numbers))
        return [getattr(number, "_value", 0.0) for number in numbers]

    step = DeviceStep()
    recorder = SignalRecorder(tmp_path / "signals.jsonl", window, read_together)
    job = Job(
        model=nn.Linear(1, 1),
        feed=Feed([torch.zeros(400, 1)], 1),
        step=step,
        stop_rules=(StepLimit(200),),
        guard=HaltOnNonFinite(window),
        observers=(recorder,),
    )
    assert fit(job).kind == "finished"
    assert groups == [4 * window] * (200 // window)
    steps_with_a_wait = [
        number
        for number, (before, after) in enumerate(
            zip(step.waits_before, [*step.waits_before[1:], len(FakeScalar.waits)], strict=True),
            start=1,
        )
        if after > before
    ]
    assert steps_with_a_wait == list(range(window, 201, window))
    assert len(FakeScalar.waits) == 2 * 200


@pytest.mark.parametrize("window", [1, 7, 50])
def test_a_number_that_is_read_late_still_ends_the_run(window: int) -> None:
    guard = HaltOnNonFinite(window)
    bad = 13
    for number in range(1, 101):
        loss = math.nan if number == bad else 0.5
        outcome = StepOutcome(FakeScalar(loss), 0.1, FakeScalar(1.0), 0.0, 0.0, 0.0, 1, number, 0)
        judgement = guard.judge(outcome)
        if type(judgement).__name__ == "Halt":
            break
    assert number == -(-bad // window) * window
    assert f"samples {bad - 1} to {bad - 1}" in judgement.why
