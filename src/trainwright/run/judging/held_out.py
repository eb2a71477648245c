"""Cross-validation: out-of-fold predictions of the models of all folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.metric import Metric
from trainwright.core.formatting import show_number
from trainwright.data.base.table import Floats, Integers, Part
from trainwright.data.columns.target_kind import Target
from trainwright.data.types import Prepared
from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.fold_scores import FoldScores, score_folds
from trainwright.evaluation.scored_part import Scored
from trainwright.model.baselines.dummy import fit_constant
from trainwright.run.folder.baseline_bundles import score_beside
from trainwright.run.judging.predict_part import predict_inputs
from trainwright.run.repeats.train_folds import TrainedFold


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
