"""Judging scored test rows by the contract: of trained and of user models."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.contract.document import Contract
from trainwright.core.files import Json
from trainwright.data.audit.audit_result import AuditResult
from trainwright.evaluation.evaluate import evaluate
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.scored_part import Scored
from trainwright.evaluation.verdict import Verdict, judge
from trainwright.predictor.calibration import Calibration
from trainwright.run.judging.held_out import HeldOut
from trainwright.run.judging.try_findings import try_audited, with_warnings
from trainwright.run.prepare.ready_run import Ready
from trainwright.run.screen import Screen, StageTimes
from trainwright.run.summary import labelled


def judge_scored(
    ready: Ready,
    scored: Scored,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
    stages: StageTimes,
) -> tuple[Evaluation, Verdict]:
    """Every metric with its interval, and the verdict once the audit's findings were tried."""
    contract = ready.plan.contract
    with stages("judge"):
        evaluation = evaluate(scored, contract.metric, contract.slices, contract.seed)
        is_linear = contract.model.may_be_linear
        verdict = judge(contract.metric, contract.slices, evaluation, is_linear=is_linear)
    with stages("try findings"):
        verdict = try_audited(ready, scored, verdict, held_out, audited)
        evaluation = with_warnings(evaluation, verdict)
    return evaluation, verdict


def judge_calibration(
    calibration: Calibration, scored: Scored, contract: Contract, screen: Screen
) -> dict[str, Json]:
    """How the run's model is calibrated, and what that changes on the judged rows."""
    # Imported here: few models are calibrated.
    from trainwright.evaluation.calibration_effect import describe_changes, measure_calibration

    before = scored.scores if scored.uncalibrated is None else scored.uncalibrated
    changes = measure_calibration(scored, before, contract.metric, contract.seed)
    said = f"{calibration.describe()} · {describe_changes(changes)}"
    if scored.target.costs:
        said = f"{said} · before the costs the likeliest class counts"
    if scored.folds is not None:
        said += " · each fold by its own"
    screen.say(labelled("calibrate", said))
    return {
        "method": calibration.method,
        "temperature": calibration.temperature,
        "threshold": calibration.threshold,
        **_of_labels(calibration, scored),
        "rows": calibration.rows,
        "tried": dict(calibration.tried),
        **({"shifts": list(calibration.shifts)} if calibration.shifts else {}),
        **({"costs": list(map(list, scored.target.costs))} if scored.target.costs else {}),
        "changes": {name: one.to_json() for name, one in changes.items()},
    }


def _of_labels(calibration: Calibration, scored: Scored) -> dict[str, Json]:
    """The threshold of each label, if there are any."""
    if not calibration.thresholds:
        return {}
    pairs = zip(scored.target.target_names, calibration.thresholds, strict=True)
    return {"thresholds": dict(pairs)}
