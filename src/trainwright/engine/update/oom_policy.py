"""Out-of-memory policies of a step: raise, or split its micro-batches with the same update."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.data.loading.batch import Batch, as_batch
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.execution.oom import BackwardOutOfMemory, give_back_memory
from trainwright.engine.guards.rollback import StepGenerators
from trainwright.engine.guards.step_guard import Halt, Judgement, StepGuard
from trainwright.engine.loader_feed import tensors_of
from trainwright.engine.save_interval import Due
from trainwright.tracking.events import Event, Noted, StepOutcome

_ELSEWHERE = "memory ran out on another rank"
_ROWS_ARE_MIXED = "; batch norm sees fewer rows per micro-batch, so the update differs"


class OutOfMemoryPolicy(Protocol):
    """What a step does when memory runs out in its passes.

    On several ranks a step is repeated by all or by none, so `repeats` may depend only on its
    arguments and on earlier calls of it.
    """

    @property
    def exhausted(self) -> str:
        """Why a step could not be made; empty unless one could not."""
        ...

    def begin(self) -> None:
        """Before a step: remember the random numbers that it begins with."""
        ...

    def cut(self, work: StepBatches) -> StepBatches:
        """The step in micro-batches that memory is expected to hold."""
        ...

    def failed(self, cut: StepBatches, why: str) -> int:
        """Note why memory ran out on this rank; the rows of its largest micro-batch."""
        ...

    def repeats(self, work: StepBatches, rows: int) -> bool:
        """Get ready to repeat a step for which memory ran out, on whatever rank, with a largest
        micro-batch of `rows`; False if the step makes no update."""
        ...

    def passed(self) -> None:
        """All passes of the step were made."""
        ...


@final
class RaiseOutOfMemory:
    """Raises an error, with the state of the step unchanged."""

    exhausted = ""

    def __init__(self) -> None:
        self._why = _ELSEWHERE

    def begin(self) -> None:
        """Nothing to remember."""

    def cut(self, work: StepBatches) -> StepBatches:
        """The step unchanged."""
        return work

    def failed(self, cut: StepBatches, why: str) -> int:
        """Remember why."""
        self._why = why
        return largest_micro_batch(cut)

    def repeats(self, work: StepBatches, rows: int) -> bool:  # noqa: ARG002
        """Never.

        Raises:
            BackwardOutOfMemory: always.
        """
        why, self._why = self._why, _ELSEWHERE
        raise BackwardOutOfMemory(why)

    def passed(self) -> None:
        """Nothing to forget."""


@final
class SplitOnOutOfMemory:
    """Halves micro-batches for the rest of the run when memory runs out.

    The loss is a sum divided by the targets of the whole step, so more and smaller micro-batches
    give the same update, up to the order of summation. The step is repeated from the RNG state it
    began with, so every repetition is the same.

    Where halving does not help, because the policy is `raise` or a micro-batch has one row, the
    step makes no update and `exhausted` gives the reason: see `MemoryGuard`.

    Args:
        policy: whether to halve.
        tell: receives a notice of each halving.
        mixes_rows: whether rows of a micro-batch interact, see `rows_are_mixed`. Then two rows are
            the minimum, and smaller micro-batches do change the update.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        policy: Literal["split", "raise"] = "split",
        tell: Callable[[Event], object] = lambda _: None,
        mixes_rows: bool = False,
    ) -> None:
        self._splits = policy == "split"
        self._tell = tell
        self._fewest_rows = 2 if mixes_rows else 1
        self._most_rows = math.inf
        self._numbers = StepGenerators()
        self._split_at: set[int] = set()
        self._why = _ELSEWHERE
        self.exhausted = ""

    def begin(self) -> None:
        """Remember the random numbers."""
        self._numbers.keep()

    def cut(self, work: StepBatches) -> StepBatches:
        """Split into micro-batches of nearly equal size within the limit."""
        if self._most_rows == math.inf:
            return work
        micro_batches: list[Any] = []
        for batch in work.micro_batches:
            micro_batches += _split(batch, self._sizes(_rows_of(batch)))
        before = [size for rows in work.before for size in self._sizes(rows)]
        return work._replace(micro_batches=micro_batches, before=before)

    def _sizes(self, rows: int) -> list[int]:
        """Rows of each part of a micro-batch."""
        parts = max(1, min(math.ceil(rows / self._most_rows), rows // self._fewest_rows))
        least, larger = divmod(rows, parts)
        return [least + 1] * larger + [least] * (parts - larger)

    def failed(self, cut: StepBatches, why: str) -> int:
        """Remember why."""
        self._why = why
        return largest_micro_batch(cut)

    def repeats(self, work: StepBatches, rows: int) -> bool:
        """Halve the micro-batch limit; False, with a diagnosis, if that is impossible."""
        why, self._why = self._why, _ELSEWHERE
        self._numbers.put_back()
        give_back_memory()
        can_be_halved = rows >= 2 * self._fewest_rows
        if not (can_be_halved and self._splits):
            self.exhausted = _diagnosis(work, rows, why, can_be_halved)
            return False
        half = -(-rows // 2)
        self._most_rows = float(half)
        self._split_at.add(work.samples)
        note = _ROWS_ARE_MIXED if self._fewest_rows > 1 else ""
        noted = Noted(
            "out_of_memory",
            f"memory ran out with micro-batches of {rows} rows: they have at most {half} from now "
            f"on; the rows of a step do not change{note}",
            {"samples": work.samples, "rows_before": rows, "rows": half},
        )
        self._tell(noted)
        return True

    def passed(self) -> None:
        """After the first step, keep only the random numbers that its passes drew."""
        if not self._numbers.settled:
            self._numbers.settle()

    def was_split_at(self, samples: int) -> bool:
        """Was the step that ended at this feed cursor split?"""
        return samples in self._split_at

    def snapshot(self) -> Snapshot:
        """Micro-batch limit in rows."""
        return Snapshot(values={"most_rows": self._most_rows})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the limit."""
        self._most_rows = float(snapshot.values["most_rows"])


@final
class MemoryGuard:
    """Ends the run at a step for which memory does not suffice, before the wrapped guard judges it.

    The weights are those of the last good step, and are saved to a checkpoint.
    """

    def __init__(self, guard: StepGuard, policy: OutOfMemoryPolicy) -> None:
        self._guard = guard
        self._policy = policy

    def judge(self, outcome: StepOutcome) -> Judgement:
        """`Halt` with the diagnosis, or the wrapped guard's judgement."""
        if self._policy.exhausted:
            return Halt(self._policy.exhausted)
        return self._guard.judge(outcome)


@final
class AlsoAfterSplit:
    """Also due after a split step.

    A run that dies later must not repeat that step in larger micro-batches, which round
    differently.
    """

    def __init__(self, every: Due, policy: SplitOnOutOfMemory) -> None:
        self._every = every
        self._policy = policy

    def due(self, progress: Progress) -> bool:
        """Is it due, or was the step split?"""
        return self._every.due(progress) or self._policy.was_split_at(progress.samples)


def largest_micro_batch(work: StepBatches) -> int:
    """Rows of the largest micro-batch of a step. At least 1: a packet with 0 says that memory has
    not run out."""
    return max([1, *map(_rows_of, work.micro_batches)])


def _split(batch: object, sizes: list[int]) -> Sequence[Batch | Tensor]:
    """Consecutive micro-batches of so many rows each."""
    if isinstance(batch, Tensor):
        return torch.split(batch, sizes)
    return as_batch(batch).split(sizes)


def _rows_of(batch: object) -> int:
    """Length of the first tensor of a micro-batch; 1 of one without."""
    return next((len(one) for one in tensors_of(batch) if one.ndim), 1)


def rows_are_mixed(model: nn.Module) -> bool:
    """Do rows of a micro-batch interact, as in batch norm, so that its size matters?"""
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())


def _diagnosis(work: StepBatches, rows: int, why: str, can_be_halved: bool) -> str:
    where = f"samples {work.samples - work.rows} to {work.samples - 1} (epoch {work.epoch})"
    mend = "use a smaller model or smaller rows"
    if can_be_halved:
        mend = "lower training.batch_size, or set training.guard.out_of_memory: split"
    size = f"{rows} row{'' if rows == 1 else 's'}"
    return f"memory ran out in micro-batches of {size} at the step of {where}: {why}; {mend}"


def no_update(work: StepBatches) -> StepOutcome:
    """Outcome of a skipped step."""
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
