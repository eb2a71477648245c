"""Probes around one step per window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol, final

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.signals.telemetry import Windows

_UNMEASURED = nullcontext()


class Probe(Protocol):
    """Measures a step from outside.

    It must not change weights, gradients, modes or random numbers, must not synchronise with the
    device, and must remove everything it installs when its context exits, on an exception too.
    """

    def measuring(self, work: StepBatches) -> AbstractContextManager[object]:
        """Context around one step on these batches."""
        ...


@final
class StepProbes:
    """Measures the last step of each window; the others cost one comparison.

    Args:
        windows: which steps are measured.
        probes: measure the last step of each window.
        inspections: measure that of every `every`-th window only.
    """

    def __init__(
        self,
        windows: Windows,
        probes: Sequence[Probe],
        inspections: Sequence[Probe] = (),
        every: int = 1,
    ) -> None:
        self._windows = windows
        self._probes = tuple(probes)
        self._inspections = tuple(inspections)
        self._every = every

    def around(self, work: StepBatches) -> AbstractContextManager[object]:
        """Context of the step on these batches: the probes, if it is due."""
        return self._measuring(work) if self._windows.closes_next else _UNMEASURED

    @contextmanager
    def _measuring(self, work: StepBatches) -> Iterator[None]:
        with ExitStack() as measuring:
            for probe in self._probes:
                measuring.enter_context(probe.measuring(work))
            if self._windows.number % self._every == 0:
                for probe in self._inspections:
                    measuring.enter_context(probe.measuring(work))
            yield
