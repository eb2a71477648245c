"""How long a prediction takes, and how large a model is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from trainwright.data.base.inputs import Floats, Part
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.row_predictor import RowPredictor

BATCH_ROWS = 1000
_WARMUP_CALLS, _FEWEST_CALLS = 3, 5
_MEGABYTE = 1e6


@final
@dataclass(frozen=True, slots=True)
class PredictionTimes:
    """Milliseconds of each call with one row [calls], and of one call with `batch_rows` rows."""

    row_ms: Floats
    batch_ms: float
    batch_rows: int


def time_predictions(
    predictor: Predictor, part: Part, calls: int, seconds: float = math.inf
) -> PredictionTimes:
    """Time so many predictions of one row, one after another, and one of a batch, on rows of a
    part, after a few that are not counted; fewer, but at least five, once they have taken so many
    seconds. A row of a table is predicted from its values, as a request has them, encoding
    included; other rows from their encoded inputs."""
    assert len(part), "there are rows to predict"
    call = _call_of(predictor, part)
    for at in range(_WARMUP_CALLS):
        call(at % len(part), 1)
    found: list[float] = []
    for at in range(calls):
        if sum(found) > seconds and len(found) >= _FEWEST_CALLS:
            break
        found.append(_seconds(call, at % len(part), 1))
    took = np.array(found)
    rows = min(len(part), BATCH_ROWS)
    return PredictionTimes(1000 * took, 1000 * _seconds(call, 0, rows), rows)


def measure_megabytes(folder: Path) -> float:
    """Size of the files of a bundle, in 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / _MEGABYTE


def _call_of(predictor: Predictor, part: Part) -> Callable[[int, int], object]:
    if predictor.features.reads_frames:
        single = RowPredictor(predictor)
        return lambda at, rows: (
            single.predict(part.frame.row(at, named=True))
            if rows == 1
            else predictor.predict_frame(part.frame.slice(at, rows))
        )
    return lambda at, rows: predictor.score(part.inputs.take(np.arange(at, at + rows)))


def _seconds(call: Callable[[int, int], object], at: int, rows: int) -> float:
    started = time.perf_counter()
    call(at, rows)
    return time.perf_counter() - started
