"""Measured times of a library that fits in one go."""

from __future__ import annotations

import time
from dataclasses import replace

from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.model.families import library_family
from trainwright.planner.plan import Plan
from trainwright.run.learners.library_job import job_of
from trainwright.run.trial.tree_times import StepTimes

_FITTED_ROWS, _SCORED_ROWS = 2000, 500


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
    part = sampled(prepared.validation, _SCORED_ROWS, contract.seed)
    started = time.perf_counter()
    scores = fitted.scorer.score(part.inputs)
    score_row = (time.perf_counter() - started) * times / max(1, len(part))
    return StepTimes(0.0, fit, 0.0, 0.0, score_row, part, scores, len(some))
