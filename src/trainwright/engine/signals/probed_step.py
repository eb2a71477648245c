"""Probes around one step per window."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, final

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.signals.telemetry import Windows
from trainwright.engine.update.step import Step
from trainwright.tracking.events import StepOutcome


class Probe(Protocol):
    """Measures a step from outside.

    It must not change weights, gradients, modes or random numbers, must not synchronise with the
    device, and must remove everything it installs when its context exits, on an exception too.
    """

    def measuring(self, work: StepBatches) -> AbstractContextManager[object]:
        """Context around one step on these batches."""
        ...


@final
class MeasuredStep:
    """Step that is measured once per window, at the window's last step; the others cost one
    comparison.

    Args:
        step: the step to measure.
        windows: which steps are measured.
        probes: measure the last step of each window.
        inspections: measure that of every `every`-th window only.
    """

    def __init__(
        self,
        step: Step,
        windows: Windows,
        probes: Sequence[Probe],
        inspections: Sequence[Probe] = (),
        every: int = 1,
    ) -> None:
        self._step = step
        self._windows = windows
        self._probes = tuple(probes)
        self._inspections = tuple(inspections)
        self._every = every

    def __call__(self, work: StepBatches) -> StepOutcome:
        """Make the step, with probes if it is due."""
        if not self._windows.closes_next:
            return self._step(work)
        with ExitStack() as measuring:
            for probe in self._probes:
                measuring.enter_context(probe.measuring(work))
            if self._windows.number % self._every == 0:
                for probe in self._inspections:
                    measuring.enter_context(probe.measuring(work))
            return self._step(work)
