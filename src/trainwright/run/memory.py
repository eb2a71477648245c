"""The wiring of what a network's run does about memory. Needs torch."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from trainwright.contract.guard import Guard
from trainwright.engine.out_of_memory import SplittingStep, rows_are_mixed
from trainwright.engine.step import Step
from trainwright.tracking.events import Event


def build_splitting(
    step: Step, section: Guard, model: nn.Module, tell: Callable[[Event], object]
) -> SplittingStep:
    """The step that goes on with smaller micro-batches when memory runs out, or says why not."""
    return SplittingStep(step, section.out_of_memory, tell, rows_are_mixed(model))
