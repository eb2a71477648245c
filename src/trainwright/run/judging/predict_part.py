"""What a fitted model predicts of the rows that judge it."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from trainwright.data.base.table import Floats, Inputs, Integers
from trainwright.predictor.predictor import Predictor, restored_scores


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
