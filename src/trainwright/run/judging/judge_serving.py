"""The limits of the contract on the model in use, measured on the bundle of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainwright.contract.document import Contract
from trainwright.data.base.table import Part
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.serving_clauses import calls_for, serving_clauses
from trainwright.predictor.bundle import read_bundle
from trainwright.predictor.latency import measure_megabytes, time_predictions
from trainwright.tracking.run_folder import RunFolder


def judge_serving(folder: RunFolder, part: Part, contract: Contract) -> Sequence[Clause]:
    """Clauses of `serving`: the bundle is read as in use, and predicts rows of the part one at a
    time."""
    serving, confidence = contract.serving, contract.metric.confidence
    times = np.zeros(0)
    if serving.latency_ms != "unlimited":
        predictor = read_bundle(folder.bundle)
        times = time_predictions(predictor, part, calls_for(serving, confidence)).row_ms
    return serving_clauses(serving, times, measure_megabytes(folder.bundle), confidence)
