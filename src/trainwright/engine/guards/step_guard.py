"""Guard: judges each step after it was made, and may drop it, roll back or end the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol, SupportsInt, assert_never, final

from trainwright.checkpoint.state import Snapshot
from trainwright.contract.sections.training.training import Guard as GuardSection
from trainwright.engine.guards.rollback import BadRegion, RollbackBackoff
from trainwright.engine.guards.spike_detection import Spike, SpikeWatch
from trainwright.tracking.events import StepOutcome, read_number
from trainwright.tracking.signals import ReadScalars, read_each

_SHOWN_ROWS = 12
_OVERFLOWS_IN_A_ROW = 20
_NO_UPDATE_IN_A_ROW = 100
_SOON = 20

RowsBetween = Callable[[int, int], Iterable[SupportsInt]]
"""Row numbers between two positions of the feed's cursor."""


@final
class Advice(NamedTuple):
    """Suggested remedies: for the training itself, and the policies for non-finite values and for
    spikes."""

    mend: str
    skip: str
    roll_back: str


OF_CONTRACTS = Advice(
    "Inspect these rows, lower training.optimizer.learning_rate, or clip with "
    "training.gradient_clipping",
    "drop such steps: training.guard.non_finite: skip",
    "roll back automatically: training.guard.spike: rollback",
)
OF_SCRIPTS = Advice(
    "Inspect these rows, lower the optimizer's lr, or clip with "
    "tw.OptimizerStep(..., max_norm=1.0)",
    'drop such steps: Job(guard=tw.PolicyGuard(tw.Guard(non_finite="skip"), ...))',
    'roll back automatically: tw.Guard(spike="rollback")',
)


class Keep(NamedTuple):
    """Accept the step."""


class DroppedStep(NamedTuple):
    """Step whose update was not applied, and its training rows."""

    why: str
    rows: tuple[int, ...]
    loss: float
    gradient_norm: float


class Drop(NamedTuple):
    """The updates of these steps, the most recent ones, were not applied."""

    steps: tuple[DroppedStep, ...]


class RollBack(NamedTuple):
    """The last `steps` steps, this one included, are not to be trusted: restore a state from before
    them; one from `further` steps earlier, if there is one."""

    why: str
    steps: int
    further: int = 0


class Halt(NamedTuple):
    """End the run, with a reason for the user."""

    why: str


Judgement = Keep | Drop | RollBack | Halt


class StepGuard(Protocol):
    """Judges outcomes. It sees every step once, in order, and must give the same judgement on every
    rank."""

    def judge(self, outcome: StepOutcome) -> Judgement:
        """Judgement of this step."""
        ...


_KEEP = Keep()


@final
class HaltOnNonFinite:
    """Ends the run at a non-finite loss or gradient.

    The step has already dropped its update, so the weights are those of the last good step. On a
    GPU outcomes are read `window` at a time, to avoid a synchronisation at every step.
    """

    def __init__(self, window: int = 1) -> None:
        self._window = window
        self._unread: list[StepOutcome] = []

    def judge(self, outcome: StepOutcome) -> Judgement:
        """`Halt` if any outcome of the window has a non-finite number."""
        self._unread.append(outcome)
        if len(self._unread) < self._window:
            return _KEEP
        unread, self._unread = self._unread, []
        for seen in unread:
            loss, norm = read_number(seen.loss), read_number(seen.gradient_norm)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                where = _where(seen, loss, norm)
                return Halt(f"{where}. {OF_SCRIPTS.mend}, or {OF_SCRIPTS.skip}")
        return _KEEP


@final
class PolicyGuard:
    """Applies the contract's policy for each event.

    Its state is the number of consecutive dropped steps, the rollbacks made, the good steps since
    the last one, the current bad region, and outcomes not read yet. A rollback does not rewind it:
    the budget stays spent. A second rollback within twenty good steps goes back further: the state
    that the last one restored leads to failure whatever rows come.

    `watch` is rewound: put it into a job's state as `watch`. Without it a rollback at a spike has
    no usual loss to compare with and skips the next 32 steps. `limit` belongs into the step, which
    drops the updates of a bad region; see `BadRegion`.

    Args:
        section: policy of each event.
        caution: lowers the learning rate after a rollback.
        rows_between: row numbers of a step; see `Feed.rows_between`.
        rows_named: what the numbers of `rows_between` are.
        advice: remedies named in messages: contract keys or arguments of a script.
        window: steps whose numbers are read together. 1 where reading is free; on a device the
            guard judges that many steps late.
        read: reads the numbers of a window at once.
        scaled: whether the loss scale is dynamic: then a non-finite gradient is part of its search,
            and only 20 of them in a row are an event.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        section: GuardSection,
        caution: RollbackBackoff,
        rows_between: RowsBetween,
        *,
        window: int = 1,
        read: ReadScalars = read_each,
        scaled: bool = False,
        rows_named: str = "training rows",
        advice: Advice = OF_SCRIPTS,
    ) -> None:
        self._section = section
        self._advice = advice
        self._rows_named = rows_named
        self._caution = caution
        self._rows_between = rows_between
        self._window = window
        self._read = read
        self._scaled = scaled
        self.watch = SpikeWatch(section.spike_z)
        self._region = BadRegion(self.watch)
        self._watches = section.spike != "ignore"
        self._unread: list[StepOutcome] = []
        self._in_a_row = 0
        self._overflows = 0
        self._rollbacks = 0
        self._good = _SOON

    def judge(self, outcome: StepOutcome) -> Judgement:
        """Judgement of the step by the policies; on a device that of the whole window, at its last
        step."""
        if self._window == 1:
            loss, norm = outcome.loss, outcome.gradient_norm
            if not isinstance(loss, float):
                loss = read_number(loss)
            if not isinstance(norm, float):
                norm = read_number(norm)
            judged = self._judge_one(outcome, loss, norm, 1)
            if self._region.is_open:
                self._region.settle()
            return judged
        self._unread.append(outcome)
        if len(self._unread) < self._window:
            return _KEEP
        unread, self._unread = self._unread, []
        judged = self._judge_window(unread)
        if self._region.is_open:
            self._region.settle()
        return judged

    def limit(self) -> float:
        """Loss above which an update is dropped; infinite unless a spike was rolled back."""
        return self._region.limit()

    def snapshot(self) -> Snapshot:
        """All state that judgements depend on; waits for numbers on the device."""
        return Snapshot(
            values={
                "watch": self.watch.snapshot().values,
                "region": self._region.snapshot().values,
                "in_a_row": self._in_a_row,
                "overflows": self._overflows,
                "rollbacks": self._rollbacks,
                "good": self._good,
                "unread": [_to_judge(outcome) for outcome in self._unread],
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self.watch.restore(Snapshot(values=values["watch"]))
        self._region.restore(Snapshot(values=values["region"]))
        self._in_a_row = int(values["in_a_row"])
        self._overflows = int(values["overflows"])
        self._rollbacks = int(values["rollbacks"])
        self._good = int(values["good"])
        self._unread = [StepOutcome(**outcome) for outcome in values["unread"]]

    def _judge_window(self, unread: Sequence[StepOutcome]) -> Judgement:
        count = len(unread)
        numbers = self._read(
            [*(seen.loss for seen in unread), *(seen.gradient_norm for seen in unread)]
        )
        dropped: list[DroppedStep] = []
        for index, seen in enumerate(unread):
            judged = self._judge_one(seen, numbers[index], numbers[count + index], count - index)
            if isinstance(judged, Drop):
                dropped.extend(judged.steps)
            elif isinstance(judged, RollBack) and judged.further:
                # On a restore, the dropped steps of this window count as made.
                return judged._replace(further=judged.further + len(dropped))
            elif not isinstance(judged, Keep):
                return judged
        return Drop(tuple(dropped)) if dropped else _KEEP

    def _judge_one(
        self, outcome: StepOutcome, loss: float, norm: float, steps_ago: int
    ) -> Judgement:
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return self._judge_nonfinite(outcome, loss, norm, steps_ago)
        if self._region.is_open:
            dropped = read_number(outcome.found_nonfinite) > 0
            self._region.take(dropped=dropped)
            if dropped:
                return self._passed_over(outcome, loss, norm)
        if self._in_a_row or self._overflows:
            self._in_a_row = self._overflows = 0
        if self._good < _SOON:
            self._good += 1
        if self._watches:
            spike = self.watch.look(loss, norm, outcome.learning_rate)
            if spike is not None:
                return self._judge_spike(outcome, spike, steps_ago)
        return _KEEP

    def _passed_over(self, outcome: StepOutcome, loss: float, norm: float) -> Drop:
        """A step of the bad region."""
        limit = self._region.limit()
        rows = self._rows_of(outcome)
        known = f"is above {limit:.4g}" if limit > -math.inf else "has no reference yet"
        why = f"after the rollback: loss {loss:.4g} {known}: {self._show(rows)}"
        return Drop((DroppedStep(why, rows, loss, norm),))

    def _show(self, rows: Sequence[int]) -> str:
        return f"{self._rows_named} {_show_rows(rows)}"

    def _rows_of(self, outcome: StepOutcome) -> tuple[int, ...]:
        start = outcome.samples - outcome.rows
        return tuple(int(row) for row in self._rows_between(start, outcome.samples))

    def _judge_nonfinite(
        self, outcome: StepOutcome, loss: float, norm: float, steps_ago: int
    ) -> Judgement:
        rows = self._rows_of(outcome)
        why = f"{_where(outcome, loss, norm)}: {self._show(rows)}"
        drop = Drop((DroppedStep(why, rows, loss, norm),))
        if self._scaled and math.isfinite(loss):
            self._overflows += 1
            if self._overflows < _OVERFLOWS_IN_A_ROW:
                return drop
            why = f"{why}; {self._overflows} in a row did not fit the number format"
        self._in_a_row += 1
        match self._section.non_finite:
            case "raise":
                self._in_a_row = 0
                return Halt(f"{why}. {self._advice.mend}, or {self._advice.skip}")
            case "rollback":
                return self._roll_back(why, steps_ago)
            case "skip":
                if self._in_a_row < self._section.non_finite_in_a_row:
                    return drop
                return self._roll_back(f"{why}; {self._in_a_row} steps in a row", steps_ago)
            case "ignore":
                if self._in_a_row < _NO_UPDATE_IN_A_ROW:
                    return drop
                return Halt(
                    f"{why}; {self._in_a_row} steps in a row made no update. {self._advice.mend}"
                )
            case other:
                assert_never(other)

    def _judge_spike(self, outcome: StepOutcome, spike: Spike, steps_ago: int) -> Judgement:
        why = (
            f"loss spike: {spike.loss:.4g}, usually {spike.usual:.4g} (robust z "
            f"{spike.z:.1f}); gradient norm {spike.gradient_norm:.4g}, usually "
            f"{spike.usual_norm:.4g}, up to sample {outcome.samples - 1} (epoch {outcome.epoch})"
        )
        if self._section.spike == "raise":
            return Halt(f"{why}. {self._advice.mend}, or {self._advice.roll_back}")
        judged = self._roll_back(why, spike.steps + steps_ago - 1)
        if isinstance(judged, RollBack):
            self._region.begin()
        return judged

    def _roll_back(self, why: str, steps: int) -> RollBack | Halt:
        """Roll back within the budget; beyond it end the run with the reason."""
        if self._rollbacks >= self._section.rollbacks:
            spent = f"The rollbacks ({self._rollbacks}) are spent"
            return Halt(f"{why}. {spent}. {self._advice.mend}")
        further = self._good + 1 if self._good < _SOON else 0
        self._rollbacks += 1
        self._in_a_row = self._overflows = self._good = 0
        # Its statistics do not belong to the restored weights, which bring their own.
        self.watch.rearm()
        self._caution.begin()
        return RollBack(why, steps, further)


def _where(seen: StepOutcome, loss: float, norm: float) -> str:
    return (
        f"loss {loss:g}, gradient norm {norm:g} at the step of samples "
        f"{seen.samples - seen.rows} to {seen.samples - 1} (epoch {seen.epoch})"
    )


def _show_rows(rows: Sequence[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:_SHOWN_ROWS])
    return shown if len(rows) <= _SHOWN_ROWS else f"{shown} and {len(rows) - _SHOWN_ROWS} more"


def _to_judge(outcome: StepOutcome) -> dict[str, float]:
    """The part of an outcome that judgements depend on: without times and user-defined signals."""
    read = outcome._replace(
        loss=read_number(outcome.loss),
        gradient_norm=read_number(outcome.gradient_norm),
        found_nonfinite=read_number(outcome.found_nonfinite),
        step_seconds=0.0,
        data_seconds=0.0,
    )._asdict()
    del read["own"]
    return read
