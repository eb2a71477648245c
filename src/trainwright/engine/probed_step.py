"""What is measured of one step of each window: before it, while it is made, and after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, final

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.step import Step
from trainwright.engine.telemetry import Windows
from trainwright.tracking.events import StepOutcome


class Probe(Protocol):
    """Measures a step from the outside.

    It must leave weights, gradients, modes and random numbers as they are, must not wait for the
    device, and whatever it puts in place is gone when its context is left, by an exception too.
    """

    def measuring(self, work: StepBatches) -> AbstractContextManager[object]:
        """A context around one step on these batches."""
        ...


@final
class MeasuredStep:
    """A step of which the last one of each window is measured; the others cost one comparison.

    Args:
        step: what is measured.
        windows: says when.
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
        """The step, measured if it is its turn."""
        if not self._windows.closes_next:
            return self._step(work)
        with ExitStack() as measuring:
            for probe in self._probes:
                measuring.enter_context(probe.measuring(work))
            if self._windows.number % self._every == 0:
                for probe in self._inspections:
                    measuring.enter_context(probe.measuring(work))
            return self._step(work)
