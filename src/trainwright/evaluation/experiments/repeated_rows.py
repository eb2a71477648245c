"""Re-evaluation without held-out rows that duplicate training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import Metric
from trainwright.contract.sections.slices import Slice
from trainwright.data.base.table import Integers
from trainwright.data.split.row_keys import random_keys
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.evaluation_result import ALL_ROWS
from trainwright.evaluation.experiments.effect_size import Effect, Pair, effect_of
from trainwright.evaluation.experiments.transfer import judged_again
from trainwright.evaluation.intervals.bootstrap import Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    ResampledMetric,
    gain_of,
    measure_lines,
)
from trainwright.evaluation.metrics.resampling_units import count_units
from trainwright.evaluation.scored_part import MODEL, Scored
from trainwright.evaluation.slice_rows import find_slices

Mask = npt.NDArray[np.bool_]


class Rejudged(NamedTuple):
    """Effect of excluding rows on the contract's metric, and the clauses without them."""

    effect: Effect
    clauses: tuple[Clause, ...]


def excess(repeated: Mask, copied: float, seed: int) -> Mask:
    """A random subset of the repeated rows of the size of the estimated copies; the others repeat
    by chance, as new rows do."""
    rows = np.flatnonzero(repeated)
    count = min(len(rows), round(copied))
    order = np.argsort(random_keys(len(rows), seed, "experiment repeats"), kind="stable")
    found = np.zeros(len(repeated), dtype=np.bool_)
    found[rows[order[:count]]] = True
    return found


def judge_without(
    excluded: Mask,
    scored: Scored,
    clauses: Sequence[Clause],
    section: Metric,
    slices: Sequence[Slice],
    seed: int,
) -> Rejudged:
    """Re-evaluate the run's predictions without the excluded rows, on the same resamples."""
    kept = np.flatnonzero(~excluded)
    every = np.arange(len(excluded))
    lines = {
        "before": _line(scored, section.name, every),
        "after": _line(scored, section.name, kept),
    }
    for who in scored.baselines:
        lines[who] = _line(scored, section.name, kept, who)
    rows_of = {one.name: one.rows for one in find_slices(slices, scored.part.frame)}
    for at, clause in enumerate(clauses):
        if clause.slice != ALL_ROWS:
            rows = np.setdiff1d(rows_of[clause.slice], np.flatnonzero(excluded))
            lines[f"clause {at}"] = _line(scored, clause.metric, rows)
    draws = Resampling(scored.part.units, section.resamples, seed)
    found = dict(zip(lines, measure_lines(list(lines.values()), section, draws), strict=True))
    units = count_units(scored.part.units[kept])
    effect = effect_of(section.name, Pair([found["before"]], [found["after"]]), units)
    return Rejudged(
        effect,
        tuple(_again(at, clause, found, section) for at, clause in enumerate(clauses)),
    )


def _again(at: int, clause: Clause, found: dict[str, ResampledMetric], section: Metric) -> Clause:
    """Re-judge a met clause without the excluded rows; others are unchanged."""
    if clause.status != "met":
        return clause
    if clause.slice != ALL_ROWS:
        return judged_again(clause, found[f"clause {at}"].interval)
    if clause.against:
        baseline = found[clause.against]
        return judged_again(clause, gain_of(found["after"], baseline, section.confidence))
    return judged_again(clause, found["after"].interval)


def _line(scored: Scored, metric: str, rows: Integers, who: str = "") -> MeasuredMetric:
    return MeasuredMetric(metric, scored.answers(who or MODEL).take(rows), rows)
