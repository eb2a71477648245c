"""When memory runs out: the micro-batches of a step become smaller and its update stays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal, final

import torch
from torch import nn

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.data.loading.dataset import Batch
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.oom import BackwardOutOfMemory, give_back_memory
from trainwright.engine.rng_rewind import StepGenerators
from trainwright.engine.save_interval import Due
from trainwright.engine.step import Step
from trainwright.engine.step_guard import Halt, Judgement, StepGuard
from trainwright.tracking.events import Event, Noted, StepOutcome

_ROWS_ARE_MIXED = "; batch norm sees fewer rows at once, so the update is another one"


@final
class SplittingStep:
    """A step whose micro-batches are halved when memory runs out, for the rest of the run.

    As the loss is a sum divided by the targets of the whole step, more and smaller micro-batches
    give the same update, up to the order in which numbers are added. The step is made again from
    the random numbers that it began with, so that it is the same whenever it is made again.

    Where halving does not help, because the policy is `raise` or a micro-batch has one row, the
    step makes no update and `exhausted` says why: see `MemoryGuard`.

    Args:
        step: raises `BackwardOutOfMemory` with nothing changed.
        policy: whether to halve.
        tell: is told of each halving.
        mixes_rows: whether the model looks at other rows of a micro-batch, see `rows_are_mixed`.
            Then two rows are the fewest, and smaller micro-batches do change the update.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        step: Step,
        policy: Literal["split", "raise"] = "split",
        tell: Callable[[Event], object] = lambda _: None,
        mixes_rows: bool = False,
    ) -> None:
        self._step = step
        self._splits = policy == "split"
        self._tell = tell
        self._fewest_rows = 2 if mixes_rows else 1
        self._most_rows = math.inf
        self._numbers = StepGenerators()
        self._split_at: set[int] = set()
        self.exhausted = ""

    def __call__(self, work: StepBatches) -> StepOutcome:
        """The step, in as many micro-batches as memory asks for."""
        self._numbers.keep()
        while True:
            cut = work if self._most_rows == math.inf else self._cut(work)
            try:
                outcome = self._step(cut)
            except BackwardOutOfMemory as error:
                why = str(error)
            else:
                if not self._numbers.settled:
                    self._numbers.settle()
                return outcome
            # Here the error is gone, and with it the frames that held on to the failed pass.
            self._numbers.put_back()
            give_back_memory()
            if not self._halve(cut, why):
                return _no_update(work)

    def was_split_at(self, samples: int) -> bool:
        """Whether the step that left the feed's cursor there was split."""
        return samples in self._split_at

    def snapshot(self) -> Snapshot:
        """The most rows of a micro-batch."""
        return Snapshot(values={"most_rows": self._most_rows})

    def restore(self, snapshot: Snapshot) -> None:
        """Go on with as many."""
        self._most_rows = float(snapshot.values["most_rows"])

    def _cut(self, work: StepBatches) -> StepBatches:
        """The same rows in parts of nearly equal size with at most so many rows."""
        micro_batches: list[Batch] = []
        for batch in work.micro_batches:
            rows = batch[0].shape[0]
            parts = min(math.ceil(rows / self._most_rows), max(1, rows // self._fewest_rows))
            micro_batches += zip(*(torch.tensor_split(one, parts) for one in batch), strict=True)
        return work._replace(micro_batches=micro_batches)

    def _halve(self, cut: StepBatches, why: str) -> bool:
        """Halve the micro-batches from here on; False, and a diagnosis, if that is no way out."""
        rows = max(batch[0].shape[0] for batch in cut.micro_batches)
        can_be_halved = rows >= 2 * self._fewest_rows
        if not (can_be_halved and self._splits):
            self.exhausted = _diagnosis(cut, rows, why, can_be_halved)
            return False
        half = -(-rows // 2)
        self._most_rows = float(half)
        self._split_at.add(cut.samples)
        note = _ROWS_ARE_MIXED if self._fewest_rows > 1 else ""
        noted = Noted(
            "out_of_memory",
            f"memory ran out with micro-batches of {rows} rows: they have at most {half} from here "
            f"on, and a step has the same rows as before{note}",
            {"samples": cut.samples, "rows_before": rows, "rows": half},
        )
        self._tell(noted)
        return True


@final
class MemoryGuard:
    """Ends the run at a step for which memory does not suffice, before the guard inside judges it.

    The weights are those of the last good step, and a checkpoint of them is written.
    """

    def __init__(self, guard: StepGuard, step: SplittingStep) -> None:
        self._guard = guard
        self._step = step

    def judge(self, outcome: StepOutcome) -> Judgement:
        """`Halt` with the diagnosis, or what the guard inside says."""
        if self._step.exhausted:
            return Halt(self._step.exhausted)
        return self._guard.judge(outcome)


@final
class AlsoAfterSplit:
    """A checkpoint is due behind a step that was split, too.

    A run that dies later must not make that step anew in larger micro-batches, which round
    otherwise.
    """

    def __init__(self, every: Due, step: SplittingStep) -> None:
        self._every = every
        self._step = step

    def due(self, progress: Progress) -> bool:
        """Whether it is due, or the step was split."""
        return self._every.due(progress) or self._step.was_split_at(progress.samples)


def rows_are_mixed(model: nn.Module) -> bool:
    """Whether the model looks at the other rows of a micro-batch, so that its size matters: batch
    norm does."""
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())


def _diagnosis(cut: StepBatches, rows: int, why: str, can_be_halved: bool) -> str:
    where = f"samples {cut.samples - cut.rows} to {cut.samples - 1} (epoch {cut.epoch})"
    mend = "make the model or its rows smaller"
    if can_be_halved:
        mend = "lower training.batch_size, or set training.guard.out_of_memory: split"
    size = f"{rows} row{'' if rows == 1 else 's'}"
    return f"memory ran out in micro-batches of {size} at the step of {where}: {why}; {mend}"


def _no_update(work: StepBatches) -> StepOutcome:
    """The outcome of a step that was not made."""
    return StepOutcome(
        loss=math.nan,
        learning_rate=0.0,
        gradient_norm=math.nan,
        found_nonfinite=1.0,
        step_seconds=0.0,
        data_seconds=work.wait_seconds,
        rows=work.rows,
        samples=work.samples,
        epoch=work.epoch,
    )
