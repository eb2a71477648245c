"""Stop rules. All of them are evaluated between steps, every time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, final

from trainwright.checkpoint.state import Snapshot
from trainwright.contract.sections.metric import Direction
from trainwright.core.progress import Progress, StopFlag
from trainwright.tracking.events import Event, Saved, StepKept, Validated


class StopReason(NamedTuple):
    """Why a run ended. `finished`: its length; `early`: no improvement, or a target reached;
    `budget`: time or money; `interrupted`: externally, to be resumed; `halted`: by the guard."""

    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    text: str


class StopRule(Protocol):
    """Decides between two steps whether the run ends.

    It depends on the progress and on numbers of all ranks; see `RankRequests` for a rule that looks
    at a clock or at a signal.
    """

    def reason(self, progress: Progress) -> StopReason | None:
        """Reason to end the run here, or None to continue."""
        ...


@final
class StepLimit:
    """Stops after a number of applied steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def reason(self, progress: Progress) -> StopReason | None:
        """`finished` once all steps are made."""
        if progress.step >= self.steps:
            return StopReason("finished", f"all {self.steps:,} steps")
        return None


@final
class SampleLimit:
    """Stops after a number of training rows, those of dropped steps included."""

    def __init__(self, samples: int, what: str) -> None:
        self._samples = samples
        self._what = what

    def reason(self, progress: Progress) -> StopReason | None:
        """`finished` once the cursor has reached the limit."""
        return StopReason("finished", self._what) if progress.samples >= self._samples else None


@final
class Reserve:
    """Time reserved for the end of a run: one validation and one save, the longest of each so far;
    before the first, `planned`; and a `delay` of what comes after it. An observer of both."""

    def __init__(
        self,
        planned: Mapping[str, float] | None = None,
        delay: Callable[[], float] | None = None,
    ) -> None:
        self._planned = dict(planned or {})
        self._delay = delay
        self._longest: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """0 until planned or measured."""
        longest = sum({**self._planned, **self._longest}.values())
        return longest if self._delay is None else longest + self._delay()

    def observe(self, event: Event) -> None:
        """Note how long a validation or a save took."""
        if type(event) is StepKept:
            return
        if isinstance(event, Validated):
            self._note("validation", event.seconds)
        elif isinstance(event, Saved):
            self._note("save", event.seconds)

    def _note(self, part: str, seconds: float) -> None:
        self._longest[part] = max(seconds, self._longest.get(part, 0.0))


_MARKED_SHARE, _SAFE_SHARE = 0.15, 0.95
"""Share of the time after which the speed of steps is measured again, and of the steps that fit
those that are planned: the rest is for a machine that gets slower still."""


class _Shortened(NamedTuple):
    """From the step `since`, with the learning rate of the planned step `at`, to `steps`."""

    since: int
    at: int
    steps: int


@final
class TimeLimit:
    """Stops when the training has used its time budget, earlier sessions of a resumed run included.

    With a `reserve` it stops early enough for the last validation and save. `used` are the seconds
    known to be used before it starts; a checkpoint may know of more, but not of what came after it.
    With `planned_steps` the reason says how many of them were made.

    With `shortens`, the steps take as long as they take: where fewer fit than are planned, the run
    is shortened to those, over which the learning rate still falls to its end. Step t from `since`
    on has the rate of the planned step `at` + (t - since) (planned - 1 - at) / (steps - 1 - since);
    these numbers are part of a checkpoint.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        seconds: float,
        what: str,
        reserve: Reserve | None = None,
        used: float = 0.0,
        planned_steps: int = 0,
        *,
        shortens: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock or time.monotonic
        self._limit = seconds
        self._planned_steps = planned_steps
        self._what = what
        self._reserve = reserve or Reserve()
        self._used = used
        self._since = self._clock()
        self.shortens = shortens and math.isfinite(seconds)
        self._short = _Shortened(0, 0, planned_steps)
        self._marks: list[tuple[int, float]] = []

    def map_to_plan(self, step: int) -> int:
        """The step of the plan whose learning rate a step has: itself, until it is shortened."""
        since, at, steps = self._short
        if steps == self._planned_steps:
            return step
        share = (step - since) / max(1, steps - 1 - since)
        return max(0, round(at + share * (self._planned_steps - 1 - at)))

    def reason(self, progress: Progress) -> StopReason | None:
        """`budget` once the time is used, less the reserve, or the shortened steps are made."""
        if self._limit == math.inf:
            return None
        used = self.used_seconds()
        if steps := self.count_fitting(progress.step, used):
            self.shorten(progress.step, steps)
        is_over = self.is_used_up(used) or self.is_made(progress.step)
        return self.reason_at(progress.step) if is_over else None

    def is_used_up(self, used: float) -> bool:
        """Is the time used, less the reserve?"""
        return used + self._reserve.seconds >= self._limit

    def is_made(self, step: int) -> bool:
        """Are the steps made that the run was shortened to?"""
        return self._short.steps < self._planned_steps and step >= self._short.steps

    def reason_at(self, step: int) -> StopReason:
        """The reason to end after a step."""
        steps = f"step {step:,} of {self._planned_steps:,}"
        return StopReason("budget", f"{self._what}, {steps}" if self._planned_steps else self._what)

    def shorten(self, step: int, steps: int) -> None:
        """From `step` on, end after so many steps in all."""
        self._short = _Shortened(step, self.map_to_plan(step), steps)

    def count_fitting(self, step: int, used: float) -> int:
        """Steps in all that fit, where the newest ones took too long for those that are planned;
        else 0. Measured over a part of the time."""
        if not self.shortens:
            return 0
        end = self._limit - self._reserve.seconds
        if not self._marks or used - self._marks[-1][1] >= _MARKED_SHARE * self._limit:
            self._marks = [*self._marks[-1:], (step, used)]
        before, then = self._marks[0]
        left = self._short.steps - step
        if len(self._marks) < 2 or step <= before or left <= 1:
            return 0
        fit = int((end - used) * (step - before) / (used - then))
        return step + max(1, int(_SAFE_SHARE * fit)) if fit < left else 0

    def snapshot(self) -> Snapshot:
        """Seconds used so far, and how it is shortened."""
        values: dict[str, Any] = {"used_seconds": self.used_seconds()}
        if self._short.steps < self._planned_steps:
            values["shortened"] = [*self._short, self._planned_steps]
        return Snapshot(values=values)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the seconds used, and how a run of as many steps was shortened."""
        self._used = max(self.used_seconds(), float(snapshot.values["used_seconds"]))
        self._since = self._clock()
        *short, planned = map(int, snapshot.values.get("shortened", (0, 0, 0, 0)))
        if planned == self._planned_steps and planned:
            self._short = _Shortened(*short)

    def used_seconds(self) -> float:
        """Seconds used so far, by all attempts."""
        return self._used + self._clock() - self._since


@final
class StopRequested:
    """Stops after the current step when the stop flag is set."""

    def __init__(self, flag: StopFlag) -> None:
        self._flag = flag

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`interrupted` once the flag is set."""
        return StopReason("interrupted", self._flag.why) if self._flag.is_up else None


@final
class Patience:
    """Early stopping: ends when a watched value has not improved for a number of validations.

    It is updated after each validation, and remembers the best step. `patience` may be `math.inf`:
    then it only tracks the best value.
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
        """Update with the value of one validation; whether it is the best so far.

        A non-finite value never is. The value of a step seen before, as after a resume at the very
        end, counts once.
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
        """Is the best value as good as `value`? False before the first one."""
        return self.best >= value if self.direction == "max" else self.best <= value

    def snapshot(self) -> Snapshot:
        """Best value, its step, and the validations since."""
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
        """Restore the state."""
        self.best = float(snapshot.values["best"])
        self.best_step = int(snapshot.values["best_step"])
        self._without_gain = int(snapshot.values["without_gain"])
        self._told_step = int(snapshot.values["told_step"])


@final
class TargetReached:
    """Stops when the watched value reaches a target."""

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
            f"{self._patience.best_step:,} reached the target {self._target:g}",
        )
