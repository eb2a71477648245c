"""Fault injection into a training step; active only if a fault point is switched on."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from torch import Tensor, nn

from trainwright.core.faultpoints import is_armed, reached
from trainwright.core.progress import Progress
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.job import BatchSource, Job
from trainwright.engine.update.step import Step
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.tracking.events import StepOutcome


def with_fault_points(job: Job, optimizer: Optimizer) -> Job:
    """The job, wrapped to reach its fault points if a fault is switched on; otherwise unchanged."""
    if not is_armed():
        return job
    _hook(job.model, optimizer)
    return replace(
        job,
        feed=_FaultySource(job.feed),
        step=_FaultyStep(job.step),
        knobs=(*job.knobs, _faulty_knob),
    )


def _hook(model: nn.Module, optimizer: Optimizer) -> None:
    update = optimizer.step

    def before_update() -> object:
        reached("step.opt")
        return update()

    optimizer.step = before_update  # type: ignore[method-assign]
    model.register_forward_pre_hook(_before_forward)
    trained = next(parameter for parameter in model.parameters() if parameter.requires_grad)
    trained.register_post_accumulate_grad_hook(_in_backward)  # type: ignore[no-untyped-call]


def _before_forward(module: nn.Module, _inputs: object) -> None:
    if module.training:
        reached("step.fwd")


def _in_backward(_parameter: Tensor) -> None:
    reached("step.bwd")


def _faulty_knob(progress: Progress) -> None:  # noqa: ARG001
    reached("step.sched")


@final
class _FaultySource:
    def __init__(self, source: BatchSource) -> None:
        self._source = source

    def next_step(self) -> StepBatches:
        reached("data.next")
        return self._source.next_step()

    def seek(self, samples: int) -> None:
        self._source.seek(samples)


@final
class _FaultyStep:
    def __init__(self, step: Step) -> None:
        self._step = step

    def __call__(self, work: StepBatches) -> StepOutcome:
        outcome = self._step(work)
        reached("step.done")
        return outcome
