"""Fitting a run into a budget, from measured seconds, and its allotment before training."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from typing import Literal, NamedTuple, Self, final

from trainwright.core.files import Json
from trainwright.core.threads import MachineLoad

Rows = Literal["all"] | int

MARGIN = 0.9
"""Share of the budget that is planned for; the rest is for a machine that gets slower."""

MOST_FOR_JUDGING, MOST_FOR_VALIDATION = 0.25, 0.15
"""Shares of the time left that judging and validations may take where they can take less."""

LEAST_VALIDATED, LEAST_JUDGED = 50, 100
"""Rows of a sample that is validated or judged, at least."""

_FEW_VALIDATIONS = 10
"""Of fewer rows, where those of all rows at the usual steps take too long."""

ENDING_SECONDS, _ENDING_SHARE = 1.5, 0.02
"""For writing bundle, predictions and report on an idle machine, beside what is measured."""

_MOST_DELAY, _READ_SECONDS = 0.3, 0.2
"""Share of a budget that its end may take more than was planned, as a machine became busy."""


@final
@dataclass(frozen=True, slots=True)
class Allotment:
    """Allotment that keeps the whole run within its budget.

    `training_seconds` is the time limit of a training, its last validation and save included;
    infinite without a budget. `settings` are the contract values decided by the budget;
    `baseline_rows` and `test_rows` the sample sizes of the linear baseline and of the judgement.
    `measured` are the seconds it is based on, `planned` the resulting plan, and `lines` its
    summary. `ending_seconds` are those planned for what follows the trainings.
    """

    limit_seconds: float = math.inf
    training_seconds: float = math.inf
    settings: Mapping[str, Json] = field(default_factory=dict)
    baseline_rows: Rows = "all"
    test_rows: Rows = "all"
    planned: Mapping[str, Json] = field(default_factory=dict)
    measured: Mapping[str, Json] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    ending_seconds: float = 0.0

    @property
    def is_made(self) -> bool:
        """Was a budget allotted?"""
        return math.isfinite(self.limit_seconds)

    @property
    def samples(self) -> dict[str, int]:
        """Everything fitted or judged on a sample of the rows."""
        rows = {"baseline_rows": self.baseline_rows, "test_rows": self.test_rows}
        return {name: count for name, count in rows.items() if isinstance(count, int)}

    def reserve(self) -> dict[str, float]:
        """Planned seconds of a validation and of a save."""
        names = {"validation": "validation_seconds", "save": "save_seconds"}
        return {part: float(self.planned.get(name, 0.0)) for part, name in names.items()}

    def to_json(self) -> Json:
        """The fields by name; empty without a budget."""
        if not self.is_made:
            return {}
        return {
            "limit_seconds": self.limit_seconds,
            "training_seconds": self.training_seconds,
            "settings": dict(self.settings),
            "baseline_rows": self.baseline_rows,
            "test_rows": self.test_rows,
            "planned": dict(self.planned),
            "measured": dict(self.measured),
            "lines": list(self.lines),
            "ending_seconds": self.ending_seconds,
        }

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """The inverse of `to_json`."""
        if not content:
            return cls()
        return replace(cls(), **{**content, "lines": tuple(content["lines"])})


@final
class EndingDelay:
    """What the end of a run will take beyond the plan if the machine stays as busy as it has been
    since: seconds by which a training has to end sooner. `reserve` are seconds that the training
    itself keeps, for an idle machine."""

    def __init__(self, allotment: Allotment, reserve: float = 0.0) -> None:
        self._allotment = allotment
        self._reserve = reserve
        self._load = MachineLoad()
        self._seconds, self._read_at = 0.0, -math.inf

    @property
    def seconds(self) -> float:
        """0 on a machine that is not busier than it was, and without a budget."""
        planned, now = self._allotment.ending_seconds, time.monotonic()
        # Steps of a small model take less time than reading the load.
        if planned and now - self._read_at >= _READ_SECONDS:
            load = self._load.factor
            slower = max(0.0, load / float(self._allotment.measured.get("load", 1.0)) - 1)
            later = slower * planned + (load - 1) * self._reserve
            self._seconds = min(_MOST_DELAY * self._allotment.limit_seconds, later)
            self._read_at = now
        return self._seconds


@final
@dataclass(frozen=True, slots=True)
class Speeds:
    """Measured seconds: `spent` so far, `start` of a training before its steps, of a `step` (of
    boosting a tree), a `save`, and per row validated and judged; `judging` is what follows the
    training regardless of the rows. `load` is the `MachineLoad` meanwhile, `exchange` the part of a
    step in which processes exchange tensors."""

    spent: float
    step: float
    start: float = 0.0
    save: float = 0.0
    validation_row: float = 0.0
    judged_row: float = 0.0
    judging: float = 0.0
    load: float = 1.0
    exchange: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class RequestedRun:
    """Run requested by the contract. `steps` and `validations` are those of one training, of which
    there are `trainings`. Explicit settings are kept: the length, the spacing of validations, their
    rows; `samples_test`: whether fewer test rows can be judged."""

    budget: float
    steps: int
    validations: int
    validation_rows: int
    test_rows: int
    trainings: int = 1
    keeps_length: bool = False
    keeps_spacing: bool = False
    keeps_rows: bool = False
    samples_test: bool = False


@final
@dataclass(frozen=True, slots=True)
class BudgetShare:
    """The part of it that fits: `steps`, `validations` of `validation_rows` each and a judgement of
    `test_rows`. `training_seconds`: time limit of a training. `planned_seconds`: expected end of
    the run, `ending_seconds` of that after the trainings. `fits`: nothing had to be reduced."""

    steps: int
    validations: int
    validation_rows: int
    test_rows: int
    training_seconds: float
    planned_seconds: float
    ending_seconds: float
    fits: bool


@final
class TooSmallError(Exception):
    """No step fits; `seconds` is the minimum budget."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:g} seconds are needed")
        self.seconds = seconds


def share_out(asked: RequestedRun, speeds: Speeds) -> BudgetShare:
    """The largest part of a run that ends within its budget, with a margin if possible.

    Raises:
        TooSmallError: not even one step, one validation and the judging fit.
    """
    try:
        return _share_out(asked, speeds, MARGIN)
    except TooSmallError:
        return _share_out(asked, speeds, 1.0)


def _share_out(asked: RequestedRun, speeds: Speeds, margin: float) -> BudgetShare:
    ending = ENDING_SECONDS * speeds.load + _ENDING_SHARE * asked.budget + speeds.judging
    left = margin * asked.budget - speeds.spent - ending
    test_rows = _judged_rows(asked, speeds, left)
    judging = test_rows * speeds.judged_row
    training = (left - judging) / asked.trainings - speeds.start
    if training < _least(asked, speeds):
        fixed = ENDING_SECONDS * speeds.load + speeds.judging + speeds.spent + judging
        needed = fixed + asked.trainings * (speeds.start + _least(asked, speeds))
        raise TooSmallError(needed / (margin - _ENDING_SHARE))
    made = _Made(asked.steps, asked.validations, asked.validation_rows)
    if not (fits := _whole(asked, speeds) <= training):
        made = _fewer(asked, speeds, training)
    validating = made.validations * _validation(asked, speeds, made.rows)
    used = speeds.start + made.steps * speeds.step + validating
    others = speeds.spent + ending + judging
    return BudgetShare(
        steps=made.steps,
        validations=made.validations,
        validation_rows=made.rows,
        test_rows=test_rows,
        training_seconds=(asked.budget - others) / asked.trainings,
        planned_seconds=others + asked.trainings * used,
        ending_seconds=ending + judging,
        fits=fits and test_rows == asked.test_rows,
    )


def _judged_rows(asked: RequestedRun, speeds: Speeds, left: float) -> int:
    """Test rows that can be judged in the seconds left: as many as a full training leaves time for,
    or as a share of the time suffices for."""
    if not asked.samples_test or not speeds.judged_row:
        return asked.test_rows
    whole = asked.trainings * (speeds.start + _whole(asked, speeds))
    least = asked.trainings * (speeds.start + _least(asked, speeds))
    seconds = max(left - whole, min(MOST_FOR_JUDGING * left, left - least))
    fit = int(seconds / speeds.judged_row)
    return min(asked.test_rows, max(LEAST_JUDGED, fit))


def _whole(asked: RequestedRun, speeds: Speeds) -> float:
    """Seconds of a training after its start, with all its steps and validations."""
    one = _validation(asked, speeds, asked.validation_rows)
    return asked.steps * speeds.step + asked.validations * one


def _least(asked: RequestedRun, speeds: Speeds) -> float:
    """Seconds of one step and one validation."""
    return speeds.step + _validation(asked, speeds, _least_rows(asked))


class _Made(NamedTuple):
    """Steps of a training, its validations, and the rows of each."""

    steps: int
    validations: int
    rows: int


def _fewer(asked: RequestedRun, speeds: Speeds, training: float) -> _Made:
    """What to do if not everything fits."""
    seconds = MOST_FOR_VALIDATION * training
    cheapest = _validation(asked, speeds, _least_rows(asked))
    count = asked.validations
    whole = _validation(asked, speeds, asked.validation_rows)
    reached = min(1.0, (training - seconds) / (asked.steps * speeds.step)) if speeds.step else 1.0
    usual = max(1, math.ceil(count * reached))
    if asked.keeps_spacing:
        count = usual
    elif count:
        few = min(_FEW_VALIDATIONS, int(seconds / cheapest) if cheapest else _FEW_VALIDATIONS)
        of_all_rows = min(usual, int(seconds / whole) if whole else usual)
        count = max(1, min(asked.steps, max(few, of_all_rows)))
    rows = asked.validation_rows
    if count and speeds.validation_row and not asked.keeps_rows:
        fit = int((seconds / count - speeds.save) / speeds.validation_row)
        rows = min(rows, max(_least_rows(asked), fit))
    one = _validation(asked, speeds, rows)
    if asked.keeps_spacing:
        # The more steps, the more validations.
        with_them = speeds.step + one * asked.validations / asked.steps
        steps = min(asked.steps, max(1, int((training - one) / with_them)))
        return _Made(steps, max(1, round(asked.validations * steps / asked.steps)), rows)
    steps = int((training - count * one) / speeds.step) if speeds.step else asked.steps
    return _Made(max(1, min(asked.steps, steps)), count, rows)


def _validation(asked: RequestedRun, speeds: Speeds, rows: int) -> float:
    """Seconds of a validation of this many rows and of its checkpoint; 0 without validation."""
    return rows * speeds.validation_row + speeds.save if asked.validations else 0.0


def _least_rows(asked: RequestedRun) -> int:
    return (
        asked.validation_rows if asked.keeps_rows else min(LEAST_VALIDATED, asked.validation_rows)
    )


def fitting_batch(rows: int, row_seconds: float, training: float, *, steps: int, least: int) -> int:
    """Batch size, `rows` or that halved, with which a training makes `steps` steps in its seconds;
    at least `least`."""
    while rows // 2 >= least and training / (row_seconds * rows) < steps:
        rows //= 2
    return rows


def round_up(value: float, digits: int) -> float:
    """Value rounded up to this many significant digits, for a fix that a person copies."""
    rounding = Context(prec=digits, rounding=ROUND_CEILING)
    return float(rounding.create_decimal(str(value)))
