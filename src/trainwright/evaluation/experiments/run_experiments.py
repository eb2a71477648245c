"""Run an experiment for each audit finding that could change the decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from trainwright.contract.sections.metric import Metric
from trainwright.data.audit.audit_result import AuditResult
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.experiments.copy_trials import (
    ExclusionTrial,
    JudgedCopies,
    JudgedRows,
    try_copies,
)
from trainwright.evaluation.experiments.experiment import Experiment, Outcome
from trainwright.evaluation.experiments.fold_trials import try_suspicion
from trainwright.evaluation.experiments.judged_table import JudgedTable
from trainwright.evaluation.experiments.suspects import Suspect, suspicions_of
from trainwright.evaluation.intervals.bootstrap import Interval

FALSE_ALARMS = 0.01
"""Family-wise error rate of changing the decision on a clean table."""

_MOST = 0.5


def try_findings(judged: JudgedTable, audited: Sequence[AuditResult]) -> tuple[Experiment, ...]:
    """Experiments on the findings of a table, those that change the decision first."""
    is_classes = judged.prepared.target.task in ("classification", "multilabel")
    suspicions = suspicions_of(audited, judged.section, is_classes=is_classes)
    leaking = frozenset(
        name
        for one in suspicions
        if one.trial == "features" and not one.reason
        for name in one.columns
    )
    confidence = judged.metric.confidence
    tried = partial(try_suspicion, judged=judged, leaking=leaking, confidence=confidence)
    return _experiments(suspicions, tried, judged)


def try_found_copies(
    judged: JudgedCopies, audited: Sequence[AuditResult]
) -> tuple[Experiment, ...]:
    """Experiments on the copies among images and texts."""
    suspicions = suspicions_of(audited, judged.section, is_classes=True)
    return _experiments(suspicions, partial(try_copies, judged=judged), judged)


def _experiments(
    suspicions: Sequence[Suspect], tried: Callable[[Suspect], ExclusionTrial], judged: JudgedRows
) -> tuple[Experiment, ...]:
    """A warning needs the difference's interval at the contract's confidence to be entirely worse;
    a changed decision needs it at a Bonferroni-corrected confidence, with one false alarm in a
    hundred clean tables."""
    strict = 1 - 2 * FALSE_ALARMS / max(1, len(suspicions))
    found = [
        _experiment(one, tried(one), judged.clauses, judged.metric, strict) for one in suspicions
    ]
    order: list[Outcome] = ["changes_decision", "accepted", "measured", "not_measured"]
    return tuple(sorted(found, key=lambda one: order.index(one.outcome)))


def _experiment(
    suspicion: Suspect,
    trial: ExclusionTrial,
    clauses: Sequence[Clause],
    metric: Metric,
    strict: float,
) -> Experiment:
    effect = trial.effects[0] if trial.effects else None
    return Experiment(
        finding=suspicion.finding,
        columns=suspicion.columns,
        message=suspicion.message,
        method=trial.method,
        conditions=trial.conditions,
        metric=effect.metric if effect else metric.name,
        before=effect.before if effect else math.nan,
        after=effect.after if effect else math.nan,
        difference=effect.difference(metric.confidence)
        if effect
        else Interval(math.nan, -math.inf, math.inf),
        corrected=trial.clauses or tuple(clauses),
        outcome=_outcome(suspicion, trial, clauses, metric.confidence, strict),
        write=suspicion.write,
        reason=suspicion.reason,
    )


def _outcome(
    suspicion: Suspect,
    trial: ExclusionTrial,
    clauses: Sequence[Clause],
    confidence: float,
    strict: float,
) -> Outcome:
    if not trial.effects:
        return "not_measured"
    effect = trial.effects[0]
    lost = any(
        one.status == "met" and again.status != "met"
        for one, again in zip(clauses, trial.clauses, strict=True)
    )
    # The delivered model relies on a column that gives the target away: its score is not that of
    # the model that is to be used, whatever the score of that would be.
    relies = suspicion.finding == "leak" and any(one.status == "met" for one in clauses)
    # Most evaluated rows duplicate a training row, and too few others remain.
    most = suspicion.of_rows and trial.excluded > _MOST
    nothing_left = most and not effect.difference(confidence).given
    if (lost or relies) and (effect.is_measured(strict) or nothing_left):
        return "accepted" if suspicion.reason else "changes_decision"
    if effect.is_measured(confidence):
        return "accepted" if suspicion.reason else "measured"
    return "not_measured"
