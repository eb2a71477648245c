"""Stop rules: asked between steps, all of them each time, so that every rank takes the same
branch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal, NamedTuple, Protocol, final

from trainwright.checkpoint.state import Snapshot
from trainwright.contract.metric import Direction
from trainwright.core.progress import Progress
from trainwright.core.stop_flag import StopFlag


class StopReason(NamedTuple):
    """Why a run ended. `finished`: its length; `early`: no gain; `budget`: time or money;
    `interrupted`: from outside, to be resumed; `halted`: by the guard."""

    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    text: str


class StopRule(Protocol):
    """Decides between two steps whether the run ends."""

    def reason(self, progress: Progress) -> StopReason | None:
        """Why the run ends here, or None to go on."""
        ...


@final
class StepLimit:
    """Ends after a number of applied steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def reason(self, progress: Progress) -> StopReason | None:
        """`finished` once all steps are made."""
        if progress.step >= self.steps:
            return StopReason("finished", f"all {self.steps:,} steps")
        return None


@final
class SampleLimit:
    """Ends once so many training rows were read, those of dropped steps counted in."""

    def __init__(self, samples: int, what: str) -> None:
        self._samples = samples
        self._what = what

    def reason(self, progress: Progress) -> StopReason | None:
        """`finished` once the cursor is there."""
        return StopReason("finished", self._what) if progress.samples >= self._samples else None


@final
class Reserve:
    """The time that an ending takes: one validation and one save, the longest of each so far;
    before there was one, what is `planned`."""

    def __init__(self, planned: Mapping[str, float] | None = None) -> None:
        self._planned = dict(planned or {})
        self._longest: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """0 before anything was planned or measured."""
        return sum({**self._planned, **self._longest}.values())

    @contextmanager
    def measuring(self, part: str) -> Iterator[None]:
        """Measure the block as one `part` of an ending."""
        started = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - started
            self._longest[part] = max(seconds, self._longest.get(part, 0.0))


@final
class TimeLimit:
    """Ends when the training has used its seconds, earlier runs of a resumed one counted in.

    With a `reserve` it ends as much earlier as the last validation and save will take. `used` are
    the seconds that are known to be used before it begins; a checkpoint may know of more, and knows
    nothing of what came after it. With `planned_steps` it says how many of them were made.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        seconds: float,
        what: str,
        reserve: Reserve | None = None,
        used: float = 0.0,
        planned_steps: int = 0,
    ) -> None:
        self._limit = seconds
        self._planned_steps = planned_steps
        self._what = what
        self._reserve = reserve or Reserve()
        self._used = used
        self._since = time.monotonic()

    def reason(self, progress: Progress) -> StopReason | None:
        """`budget` once the time is used, but for what the ending takes."""
        if self._used_seconds() + self._reserve.seconds < self._limit:
            return None
        steps = f"step {progress.step:,} of {self._planned_steps:,}"
        return StopReason("budget", f"{self._what}, {steps}" if self._planned_steps else self._what)

    def snapshot(self) -> Snapshot:
        """The seconds used so far."""
        return Snapshot(values={"used_seconds": self._used_seconds()})

    def restore(self, snapshot: Snapshot) -> None:
        """Count on from the seconds used."""
        self._used = max(self._used_seconds(), float(snapshot.values["used_seconds"]))
        self._since = time.monotonic()

    def _used_seconds(self) -> float:
        return self._used + time.monotonic() - self._since


@final
class StopRequested:
    """Ends after the current step when a flag was raised."""

    def __init__(self, flag: StopFlag) -> None:
        self._flag = flag

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`interrupted` once the flag is up."""
        return StopReason("interrupted", self._flag.why) if self._flag.is_up else None


@final
class Patience:
    """Ends when a watched value has not improved for a number of validations.

    It is told each validation's values, and remembers which step was best. `patience` may be
    `math.inf`: then it never ends a run, and only remembers.
    """

    def __init__(
        self, watch: str, direction: Direction, patience: float, min_delta: float = 0.0
    ) -> None:
        self.watch = watch
        self.direction: Direction = direction
        self._patience = patience
        self._min_delta = min_delta
        self.best = math.nan
        self.best_step = 0
        self._without_gain = 0
        self._told_step = -1

    def tell(self, value: float, step: int) -> bool:
        """Take in the value of one validation; whether it is the best so far.

        A value that is not finite never is. The value of a step that was told already, as after a
        resume at the very end, counts once.
        """
        if step == self._told_step:
            return step == self.best_step
        self._told_step = step
        gain = value - self.best if self.direction == "max" else self.best - value
        improved = math.isfinite(value) and (math.isnan(self.best) or gain > self._min_delta)
        if improved:
            self.best, self.best_step, self._without_gain = value, step, 0
        else:
            self._without_gain += 1
        return improved

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`early` once patience has run out."""
        if self._without_gain < self._patience:
            return None
        if math.isnan(self.best):
            text = (
                f"{self.watch} was not a finite number in any of {self._without_gain} validations"
            )
            return StopReason("early", text)
        return StopReason(
            "early",
            f"{self.watch} has not improved for {self._without_gain} validations; "
            f"best {self.best:.5g} at step {self.best_step:,}",
        )

    def has_reached(self, value: float) -> bool:
        """Whether the best value is as good as `value`; no value yet is not."""
        return self.best >= value if self.direction == "max" else self.best <= value

    def snapshot(self) -> Snapshot:
        """The best value, its step, and the validations since."""
        best = "nan" if math.isnan(self.best) else self.best
        return Snapshot(
            values={
                "best": best,
                "best_step": self.best_step,
                "without_gain": self._without_gain,
                "told_step": self._told_step,
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on counting where the snapshot stopped."""
        self.best = float(snapshot.values["best"])
        self.best_step = int(snapshot.values["best_step"])
        self._without_gain = int(snapshot.values["without_gain"])
        self._told_step = int(snapshot.values["told_step"])


@final
class TargetReached:
    """Ends when the watched value is good enough."""

    def __init__(self, patience: Patience, target: float) -> None:
        self._patience = patience
        self._target = target

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`early` once a validation has reached it."""
        if not self._patience.has_reached(self._target):
            return None
        return StopReason(
            "early",
            f"{self._patience.watch} {self._patience.best:.5g} at step "
            f"{self._patience.best_step:,} reached its target {self._target:g}",
        )
