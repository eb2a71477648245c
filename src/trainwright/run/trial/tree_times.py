"""Training times of libraries on this machine, measured beforehand."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import final

from trainwright.contract.sections.run_settings import Distributed
from trainwright.core.faultpoints import disarmed
from trainwright.core.progress import StopFlag
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.model.families import library_family
from trainwright.planner.plan import Plan
from trainwright.run.learners.learner import build_learner
from trainwright.run.library_fit import job_of
from trainwright.run.run_context import RunContext
from trainwright.tracking.console import ConsoleProgress, CountProgress
from trainwright.tracking.run_folder import RunFolder

_FEWEST_TREES, _MOST_TREES, _SCORED_ROWS, _VERY_LONG = 6, 20, 10_000, 4.0
_FITTED_ROWS, _LIBRARY_ROWS = 2000, 500


@final
@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step (of boosting a tree), of the start-up, of a save, and of validating or
    scoring a row (of boosting per tree). `scores` are those of `part`, validation rows;
    `fitted_rows` are the training rows of a library's measurement."""

    step: float
    start: float
    save: float
    validation_row: float
    score_row: float
    part: Part
    scores: Floats
    fitted_rows: int = 0


def time_trees(plan: Plan, prepared: Prepared, seconds: float) -> StepTimes:
    """Grow the first trees of a training for about this many seconds in a temporary folder, by this
    process alone."""
    alone = plan.contract.model_copy(update={"distributed": Distributed()})
    plan = replace(plan, contract=alone)
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
    """Progress display that records when each tree was made, and sets the stop flag after
    enough."""

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
        """Rehearsals are silent."""

    def close(self) -> None:
        """Nothing to restore."""

    @property
    def tree(self) -> float:
        """Seconds per tree after the first one: the median, because the training rows are evaluated
        after some of the first trees, and rarely later."""
        if len(self.moments) < 2:
            return self._first
        return median(after - before for before, after in pairwise(self.moments))

    @property
    def start(self) -> float:
        """Seconds before the first tree."""
        return max(0.0, self._first - self.tree)

    @property
    def _first(self) -> float:
        return (self.moments or [time.perf_counter()])[0] - self._began


@final
class _Silent:
    """Silent screen that forwards trees."""

    def __init__(self, trees: _Trees) -> None:
        self._trees = trees

    def say(self, line: str) -> None:
        """Rehearsals are silent."""

    def progress(self, total_steps: int) -> ConsoleProgress:
        """Trees have no steps."""
        return ConsoleProgress(self._trees, total_steps, math.inf)

    def count(self, total: int) -> CountProgress:
        """Forward each tree."""
        return CountProgress(self._trees, total, 0.0)


def time_library(plan: Plan, prepared: Prepared) -> StepTimes:
    """Fit on some of the training rows, and score some validation rows. The time of the whole fit
    is taken to be in proportion to its rows."""
    contract = plan.contract
    some = sampled(prepared.train, _FITTED_ROWS, contract.seed)
    job = replace(job_of(contract, prepared), train=some)
    family = library_family(contract.model)
    section, times = family.rehearsal(contract.model)
    started = time.perf_counter()
    fitted = family.fit(section, job)
    fit = (time.perf_counter() - started) * times * len(prepared.train) / max(1, len(some))
    part = sampled(prepared.validation, _LIBRARY_ROWS, contract.seed)
    started = time.perf_counter()
    scores = fitted.scorer.score(part.inputs)
    score_row = (time.perf_counter() - started) * times / max(1, len(part))
    return StepTimes(0.0, fit, 0.0, 0.0, score_row, part, scores, len(some))
