"""What a training takes on this machine, measured before it: of trees here."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import final

from trainwright.core.faultpoints import disarmed
from trainwright.core.stop_flag import StopFlag
from trainwright.data.base.table import Floats, Part
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.planner.plan import Plan
from trainwright.run.learner import build_learner
from trainwright.run.run_context import RunContext
from trainwright.tracking.console import ConsoleProgress, CountProgress
from trainwright.tracking.run_folder import RunFolder

_FEWEST_TREES, _MOST_TREES, _SCORED_ROWS, _VERY_LONG = 6, 20, 10_000, 4.0


@final
@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step (of boosting a tree), of what comes before the first, of a save, and of a
    row that is validated or scored, of boosting by one tree. `scores` are those of `part`,
    validation rows."""

    step: float
    start: float
    save: float
    validation_row: float
    score_row: float
    part: Part
    scores: Floats


def time_trees(plan: Plan, prepared: Prepared, seconds: float) -> StepTimes:
    """The first trees of a training, grown for about so many seconds in a folder that is
    removed."""
    flag = StopFlag()
    trees = _Trees(flag, seconds)
    with TemporaryDirectory(prefix="trainwright-") as where, disarmed():
        folder = RunFolder.create(Path(where), "rehearsal")
        fitted = build_learner(plan).fit(prepared, RunContext(folder, (), _Silent(trees), flag))
    some = sampled(prepared.validation, _SCORED_ROWS, plan.contract.seed)
    started = time.perf_counter()
    scores = fitted.predictor.score(some.inputs)
    took = time.perf_counter() - started
    grown = max(1, len(trees.moments))
    return StepTimes(
        trees.tree, trees.start, 0.0, 0.0, took / max(1, len(some)) / grown, some, scores
    )


@final
class _Trees:
    """Where trees are shown: takes down when each was made, and raises the flag after enough."""

    def __init__(self, flag: StopFlag, seconds: float) -> None:
        self._flag = flag
        self._seconds = seconds
        self._began = time.perf_counter()
        self.moments: list[float] = []

    def draw(self, step: int, line: str) -> None:  # noqa: ARG002
        """A tree was made."""
        self.moments.append(time.perf_counter())
        passed = self.moments[-1] - self.moments[0]
        is_late = passed > self._seconds * (1 if step >= _FEWEST_TREES else _VERY_LONG)
        if step >= _MOST_TREES or is_late:
            self._flag.raise_flag("enough is measured")

    def say(self, line: str) -> None:
        """Nothing is said of a rehearsal."""

    def close(self) -> None:
        """Nothing to restore."""

    @property
    def tree(self) -> float:
        """The seconds of a tree after the first one: the median, as the training rows are measured
        after some of the first trees, and seldom later."""
        if len(self.moments) < 2:
            return self._first
        return median(after - before for before, after in pairwise(self.moments))

    @property
    def start(self) -> float:
        """The seconds before the first tree."""
        return max(0.0, self._first - self.tree)

    @property
    def _first(self) -> float:
        return (self.moments or [time.perf_counter()])[0] - self._began


@final
class _Silent:
    """A screen that shows nothing, and hands trees on."""

    def __init__(self, trees: _Trees) -> None:
        self._trees = trees

    def say(self, line: str) -> None:
        """Nothing is said of a rehearsal."""

    def progress(self, total_steps: int) -> ConsoleProgress:
        """Trees have no steps."""
        return ConsoleProgress(self._trees, total_steps, math.inf)

    def count(self, total: int) -> CountProgress:
        """Each tree is drawn."""
        return CountProgress(self._trees, total, 0.0)
