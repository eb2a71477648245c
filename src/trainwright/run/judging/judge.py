"""Judging by the contract: predictions of the rows that judge a model, limits on it in use,
findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, final

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.metric import Metric
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.base.inputs import Floats, Inputs, Integers, Part
from trainwright.data.columns.target import Target
from trainwright.data.types import Prepared
from trainwright.evaluation.clause import DUMMY, Clause
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.experiments.experiment import warnings_of
from trainwright.evaluation.experiments.suspects import suspicions_of
from trainwright.evaluation.fold_scores import FoldScores, score_folds
from trainwright.evaluation.verdict import Verdict, judge
from trainwright.model.baselines.dummy import fit_constant
from trainwright.predictor.bundle import read_bundle
from trainwright.predictor.calibration import Calibration
from trainwright.predictor.predictor import Predictor, restored_scores
from trainwright.run.folder.model_files import score_beside
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.repeats.train_folds import TrainedFold
from trainwright.run.screen import Screen, StageTimes, labelled
from trainwright.tracking.run_folder import RunFolder


@final
class PartPredictions(NamedTuple):
    """Scores [N, C], [N, 1] or quantiles [N, K] of the rows of a part, those before a calibration,
    the classes [N] that a threshold chose, and warnings."""

    scores: Floats
    uncalibrated: Floats
    decided: Integers | None
    notes: tuple[str, ...]


def predict_inputs(predictor: Predictor, inputs: Inputs) -> PartPredictions:
    """Score the rows once; of quantiles say how often they crossed before they were sorted."""
    raw = predictor.scorer.score(inputs)
    scores = predictor.calibrated(raw, inputs.levels)
    notes = crossing_notes(raw) if predictor.target.quantiles else ()
    uncalibrated = restored_scores(raw, predictor.target, inputs.levels)
    return PartPredictions(scores, uncalibrated, predictor.decide(scores), notes)


def crossing_notes(raw: Floats) -> tuple[str, ...]:
    """Share of rows [N, K] of which a higher quantile is below a lower one."""
    crossed = int((np.diff(raw, axis=1) < 0).any(axis=1).sum())
    if not crossed:
        return ()
    share = crossed / len(raw)
    return (f"the quantiles of {crossed:,} of {len(raw):,} rows ({share:.1%}) crossed: sorted",)


class FoldPredictions(NamedTuple):
    """Predictions of a fold's model and baselines on the rows of the fold, and its training rows.

    `rows` are positions in the data file, `scores` [n, C] or [n, 1], `uncalibrated` those before a
    calibration.
    """

    rows: Integers
    scores: Floats
    uncalibrated: Floats
    decided: Integers | None
    baselines: Mapping[str, Floats]
    train_rows: int
    notes: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class HeldOut:
    """Out-of-fold predictions of all folds."""

    folds: tuple[FoldPredictions, ...]

    def scored(
        self, prepared: Prepared, shares: Mapping[str, float], notes: Sequence[str]
    ) -> Scored:
        """Rows of all folds as one part: `prepared` is that of the run's own model, whose test part
        they are."""
        part = prepared.test
        at = np.concatenate([np.searchsorted(part.rows, fold.rows) for fold in self.folds])
        names = self.folds[0].baselines
        said = dict.fromkeys([*notes, *(note for fold in self.folds for note in fold.notes)])
        return Scored(
            part=part,
            target=prepared.target,
            scores=_placed([fold.scores for fold in self.folds], at),
            baselines={
                name: _placed([fold.baselines[name] for fold in self.folds], at) for name in names
            }
            | _one_dummy(part, prepared.target),
            shares=shares,
            notes=tuple(said),
            folds=self.fold_of_rows(part),
            uncalibrated=_placed([fold.uncalibrated for fold in self.folds], at),
            decided=self._decided(at),
        )

    def _decided(self, at: Integers) -> Integers | None:
        """Classes chosen by the thresholds of the folds, of a fold without one the likeliest."""
        if all(fold.decided is None for fold in self.folds):
            return None
        each = [
            fold.scores.argmax(axis=1) if fold.decided is None else fold.decided
            for fold in self.folds
        ]
        together = np.concatenate(each)
        placed = np.empty_like(together)
        placed[at] = together
        return placed

    def by_fold(self, scored: Scored, metric: Metric) -> FoldScores:
        """Score of each fold; `scored` is the result of the method above."""
        number = self.fold_of_rows(scored.part)
        return score_folds(scored, number, [fold.train_rows for fold in self.folds], metric)

    def fold_of_rows(self, part: Part) -> Integers:
        """Fold of each judged row, int64 [N]; 0 without folds."""
        number = np.zeros(len(part), dtype=np.int64)
        for at, fold in enumerate(self.folds):
            number[np.searchsorted(part.rows, fold.rows)] = at
        return number


def describe_folds(scores: FoldScores, metric: str) -> str:
    """`rmse 3.1 · 2.9 · 3.3, mean 3.1 (2.6 to 3.6)`."""
    values = " · ".join(show_number(one.metrics[metric]) for one in scores.folds)
    mean = scores.means[metric]
    reach = f" ({show_number(mean.low)} to {show_number(mean.high)})" if mean.given else ""
    return f"{metric} {values}, mean {show_number(mean.value)}{reach}"


def predict_folds(folds: Sequence[TrainedFold], data: Data) -> HeldOut:
    """Open the test rows of every fold and score them by the model that did not train on them."""
    return HeldOut(tuple(_predict_fold(fold, data) for fold in folds))


def _predict_fold(fold: TrainedFold, data: Data) -> FoldPredictions:
    test = fold.prepared.test
    inputs = fold.predictor.inputs_of(test, fold.prepared.features)
    predicted = predict_inputs(fold.predictor, inputs)
    return FoldPredictions(
        rows=test.rows,
        scores=predicted.scores,
        decided=predicted.decided,
        uncalibrated=predicted.uncalibrated,
        baselines=score_beside(fold.baselines, fold.prepared, data, fold.predictor),
        train_rows=fold.train_rows,
        notes=(*fold.notes, *predicted.notes),
    )


def _one_dummy(part: Part, target: Target) -> dict[str, Floats]:
    """Dummy classifier, the same on all folds: the class shares of the judged rows, or the shares
    of labels.

    The more frequent a class is in a fold, the rarer it is in the fold's training rows: ranked
    across folds, their class shares have an average precision far below the share of the class,
    which noise would beat.
    """
    if target.task not in ("classification", "multilabel"):
        return {}
    return {DUMMY: fit_constant(part.target, target.outputs).score(part.inputs)}


def _placed(scores: Sequence[Floats], at: Integers) -> Floats:
    """Scores of all folds in the order of the part's rows."""
    together = np.concatenate(scores)
    placed = np.empty_like(together)
    placed[at] = together
    return placed


def try_audited(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    """Verdict with the results of the experiments."""
    is_classes = ready.prepared.target.task in ("classification", "multilabel")
    if not suspicions_of(audited, ready.plan.contract.data, is_classes=is_classes):
        return verdict.with_experiments(())
    trial = EXPERIMENTS.get(ready.plan.contract.data.kind, _try_copies)
    return trial(ready, scored, verdict, held_out, audited)


def _try_table(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    # Imported here: most data has nothing to try.
    from trainwright.evaluation.experiments.judged_table import JudgedTable
    from trainwright.evaluation.experiments.run_experiments import try_findings

    contract = ready.plan.contract
    table = JudgedTable(
        prepared=ready.prepared,
        section=contract.data,
        scored=scored,
        clauses=verdict.clauses,
        metric=contract.metric,
        slices=contract.slices,
        folds=held_out.fold_of_rows(scored.part),
        probe="linear" if contract.model.traits.is_linear else "boosting",
        seed=contract.seed,
    )
    return verdict.with_experiments(try_findings(table, audited))


def _try_copies(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    from trainwright.evaluation.experiments.copy_trials import JudgedCopies
    from trainwright.evaluation.experiments.run_experiments import try_found_copies

    contract = ready.plan.contract
    judged = JudgedCopies(
        prepared=ready.prepared,
        section=contract.data,
        scored=scored,
        clauses=verdict.clauses,
        metric=contract.metric,
        slices=contract.slices,
        folds=held_out.fold_of_rows(scored.part),
        seed=contract.seed,
    )
    return verdict.with_experiments(try_found_copies(judged, audited))


EXPERIMENTS = MappingProxyType({"table": _try_table, "series": _try_table})
"""Of the kinds of data whose experiments do more than leave copies out."""


def with_warnings(evaluation: Evaluation, verdict: Verdict) -> Evaluation:
    """Evaluation with a warning for each measured finding that is not binding."""
    return replace(evaluation, warnings=(*warnings_of(verdict.experiments), *evaluation.warnings))


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


def judge_serving(folder: RunFolder, part: Part, contract: Contract) -> Sequence[Clause]:
    """Clauses of `serving`: the bundle is read as in use, and predicts rows of the part one at a
    time."""
    # Imported here: few contracts limit the model in use.
    from trainwright.evaluation.serving_clauses import calls_for, serving_clauses
    from trainwright.predictor.latency import measure_megabytes, time_predictions

    serving, confidence = contract.serving, contract.metric.confidence
    times = np.zeros(0)
    if serving.latency_ms != "unlimited":
        predictor = read_bundle(folder.bundle)
        times = time_predictions(predictor, part, calls_for(serving, confidence)).row_ms
    return serving_clauses(serving, times, measure_megabytes(folder.bundle), confidence)
