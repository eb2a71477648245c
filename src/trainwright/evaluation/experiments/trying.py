"""The findings of the audit that could change the decision, each tried by experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainwright.contract.metric import Metric
from trainwright.data.audit.audited import Audited
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.experiments.experiment import Experiment, Outcome
from trainwright.evaluation.experiments.suspicions import Suspicion, suspicions_of
from trainwright.evaluation.experiments.trials import JudgedTable, Trial, try_suspicion
from trainwright.evaluation.intervals import Interval

FALSE_ALARMS = 0.01
"""Chance that any finding of an honest table is measured well enough to change the decision."""


def try_findings(judged: JudgedTable, audited: Sequence[Audited]) -> tuple[Experiment, ...]:
    """An experiment for each finding that can be tried, those that change the decision first.

    A warning asks that the interval of the difference at the contract's confidence is wholly on
    the worse side, a change of the decision that it is there at a confidence at which all findings
    together are wrong in one honest table of a hundred (Bonferroni's correction).
    """
    suspicions = suspicions_of(
        audited, judged.section, is_classes=judged.prepared.target.outputs > 1
    )
    leaking = frozenset(
        name
        for one in suspicions
        if one.trial == "features" and not one.reason
        for name in one.columns
    )
    strict = 1 - 2 * FALSE_ALARMS / max(1, len(suspicions))
    confidence = judged.metric.confidence
    found = [
        _experiment(
            one,
            try_suspicion(one, judged, leaking, confidence),
            judged.clauses,
            judged.metric,
            strict,
        )
        for one in suspicions
    ]
    order: list[Outcome] = ["changes_decision", "accepted", "measured", "not_measured"]
    return tuple(sorted(found, key=lambda one: order.index(one.outcome)))


def _experiment(
    suspicion: Suspicion, trial: Trial, clauses: Sequence[Clause], metric: Metric, strict: float
) -> Experiment:
    effect = trial.effects[0] if trial.effects else None
    return Experiment(
        finding=suspicion.finding,
        columns=suspicion.columns,
        message=suspicion.message,
        method=trial.method,
        conditions=trial.conditions,
        metric=metric.name,
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
    suspicion: Suspicion,
    trial: Trial,
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
    # Hardly any judged row is left that does not repeat a training row.
    nothing_left = suspicion.of_rows and not effect.difference(confidence).given
    if lost and (effect.is_measured(strict) or nothing_left):
        return "accepted" if suspicion.reason else "changes_decision"
    if effect.is_measured(confidence):
        return "accepted" if suspicion.reason else "measured"
    return "not_measured"
