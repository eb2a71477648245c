"""Runs from their contracts up to the loop's end, without a verdict: each call is a process of its
own, that goes on where the last one of the same name stopped."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from canary import Killed
from trainwright.core.progress import StopFlag
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.job import Job
from trainwright.engine.loop import fit
from trainwright.engine.update.step import Step
from trainwright.run.compose.compose_job import compose
from trainwright.run.compose.compose_step import kernels
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.events import Ended, StepOutcome
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import read_signals


@dataclass(frozen=True)
class Run:
    """One process of a run from its contract: everything is built anew."""

    ready: Ready
    folder: RunFolder
    job: Job
    ended: Ended

    @property
    def signals(self) -> dict[str, list[float]]:
        return read_signals(self.folder.signals)


class Dying:
    """A step, until the process dies at an attempt."""

    def __init__(self, step: Step, at: float) -> None:
        self._step = step
        self._left = at

    def __call__(self, work: StepBatches) -> StepOutcome:
        self._left -= 1
        if self._left < 0:
            raise Killed
        return self._step(work)


def train(contract: Path, name: str, *settings: str, dies_at: float = math.inf) -> Run:
    runs = contract.parent / "runs"
    ready = make_ready(Request(contract, settings, runs), StageTimes(), StreamScreen(io.StringIO()))
    begun = (runs / name).exists()
    folder = RunFolder(runs / name) if begun else RunFolder.create(runs, name)
    context = RunContext(folder, (), StreamScreen(io.StringIO()), StopFlag())
    job = compose(ready.plan.contract.model, ready.plan, ready.prepared, context).job
    if dies_at < math.inf:
        job = replace(job, step=Dying(job.step, dies_at))
    with kernels(ready.plan.contract):
        return Run(ready, folder, job, fit(job))


def bits(run: Run) -> dict[str, bytes]:
    parts = {name: part.snapshot().tensors for name, part in run.job.state.items()}
    return {
        f"{part} {name}": tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        for part, tensors in parts.items()
        for name, tensor in tensors.items()
    }
