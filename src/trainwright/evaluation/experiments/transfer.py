"""Transfer of the probe's loss to the clauses of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from trainwright.contract.sections.metric import METRICS
from trainwright.evaluation.clause import Clause, gain_status, status_of
from trainwright.evaluation.experiments.experiment import Effect, Effects
from trainwright.evaluation.fold_scores import within
from trainwright.evaluation.intervals.bootstrap import Interval


def skill_ratio(run: float, of_run: float, probe: float, of_probe: float) -> float:
    """Skill of the run over that of the probe, clipped to [0, 1]. Skill is the gain over a constant
    prediction on the same rows. A run with half the probe's skill can have memorised at most half
    as much; a stronger one is charged no more than was measured."""
    skill, reference = run - of_run, probe - of_probe
    if not all(map(math.isfinite, (skill, reference))) or not reference:
        return 1.0
    return min(1.0, max(0.0, skill / reference))


def corrected(
    clauses: Sequence[Clause], own: Effect, beside: Effects, ratio: float, confidence: float
) -> tuple[Clause, ...]:
    """Met clauses after `ratio` times the loss of their metric. A baseline in `beside` loses too,
    which shifts its gain less.

    The half-widths of the run's interval and of the loss's interval are independent and add in
    quadrature.
    """
    found = []
    for clause in clauses:
        if clause.metric == own.metric and clause.status == "met":
            effect = beside.get(clause.against, own) if clause.against else own
            shift = ratio * (effect.after - effect.before)
            clause = _moved(clause, shift, ratio * effect.reach(confidence))
        found.append(clause)
    return tuple(found)


def judged_again(clause: Clause, interval: Interval) -> Clause:
    """The clause re-judged with another interval."""
    direction = METRICS[clause.metric].direction
    if clause.against:
        return replace(clause, interval=interval, status=gain_status(interval, direction))
    status = status_of(interval, clause.target, direction)
    return replace(clause, interval=interval, status=status)


def _moved(clause: Clause, shift: float, reach: float) -> Clause:
    one = clause.interval
    value = one.value + shift
    low = value - math.hypot(one.value - one.low, reach)
    high = value + math.hypot(one.high - one.value, reach)
    moved = Interval(value, low, high)
    if clause.against:
        return judged_again(clause, moved)
    return judged_again(clause, _bounded(within(moved, METRICS[clause.metric].bounds), clause))


def _bounded(interval: Interval, clause: Clause) -> Interval:
    least, most = METRICS[clause.metric].bounds
    return replace(interval, value=min(most, max(least, interval.value)))
