"""`fit` with everything that `compose` builds from a contract."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from loops.gate import Gate
from loops.workloads import Setting, make
from trainwright.core.progress import Progress, StopFlag
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.job import BatchSource, Every, Job, NoCheckpoints
from trainwright.engine.loop import fit
from trainwright.engine.save_interval import Due
from trainwright.run.compose.compose_job import compose
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StreamScreen
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Observers
from trainwright.tracking.run_folder import RunFolder

NEVER = Every(10**12)
NOWHERE = Path(os.devnull).open("w")  # noqa: SIM115  as a stream of the process, never closed


def ours(work: str, setting: Setting, gate: Gate) -> None:
    """Without clipping; the gradient norm is computed all the same, because it is a signal."""
    fit(our_job(work, setting, gate, clips=False))


def ours_clipping(work: str, setting: Setting, gate: Gate) -> None:
    """With clipping by norm, which is our default."""
    fit(our_job(work, setting, gate, clips=True))


@final
@dataclass(frozen=True)
class NotNow:
    """Asks what a run asks after each step, and then does nothing."""

    asked: Due

    def due(self, progress: Progress) -> bool:
        """False."""
        self.asked.due(progress)
        return False


@final
@dataclass(frozen=True)
class GatedFeed:
    """A feed that passes the gate before each step."""

    feed: BatchSource
    gate: Gate
    accumulate: int

    def next_step(self) -> StepBatches:
        """The next step, once the gate is open."""
        self.gate.passed(self.accumulate)
        return self.feed.next_step()

    def seek(self, samples: int) -> None:
        """As the feed does."""
        self.feed.seek(samples)


def our_job(
    work: str, setting: Setting, gate: Gate, *, clips: bool, extra: tuple[str, ...] = ()
) -> Job:
    """The job of a run, but for its checkpoints and validations: they fall on no measured step."""
    ready = make(work, setting, clips, extra).ready
    screen = StreamScreen(NOWHERE)
    folder = RunFolder(gate.folder)
    # The one observer that is not made by `compose`: it comes with the folder of a run.
    events = Observers([EventLog(folder.events)], screen.say)
    run = RunContext(folder, (events,), screen, StopFlag())
    job = compose(ready.plan.contract.model, ready.plan, ready.prepared, run).job
    gate.watch(job.model, lambda: gate.micro_batches // setting.accumulate)
    return replace(
        job,
        feed=GatedFeed(job.feed, gate, setting.accumulate),
        checkpoints=NoCheckpoints(),
        checkpoint_every=NotNow(job.checkpoint_every),
        validate_every=NEVER,
    )
