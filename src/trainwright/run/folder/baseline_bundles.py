"""Baselines of a run, stored as bundles next to its own."""

from __future__ import annotations

import math
from typing import Literal

from trainwright.contract.sections.data.data import Data
from trainwright.data.base.table import Floats
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import Baselines, fit_baselines
from trainwright.evaluation.baselines.naive_forecasts import forecast_naively
from trainwright.evaluation.clause import BM25, COLOURS, DUMMY, LINEAR
from trainwright.predictor.bundle import read_bundle, write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import check_own
from trainwright.tracking.run_folder import RunFolder

_FOLDER = "baselines"
_OF_SOME = (COLOURS, BM25)
"""Those that only some kinds of data have."""


def fit_beside(prepared: Prepared, data: Data, rows: Literal["all"] | int = "all") -> Baselines:
    """Baselines of a prepared contract, fitted on its training rows, or on a subset of them."""
    return fit_baselines(prepared, data, math.inf if rows == "all" else rows)


def score_beside(
    baselines: Baselines, prepared: Prepared, data: Data, *judged: Predictor
) -> dict[str, Floats]:
    """Scores of every baseline on the test rows, [N, C] or [N, 1]: the fitted ones, for a time
    split the forecasts that need no model, and what is `judged` without what it should use."""
    scores = {**baselines.scores(prepared.test), **forecast_naively(prepared, data)}
    for predictor in judged:
        scores |= predictor.score_counterfactuals(prepared.test.inputs)
    return scores


def write_baselines(baselines: Baselines, folder: RunFolder) -> None:
    """Store the fitted baselines, so that the run can be compared with them on any rows later."""
    root = folder.path / _FOLDER
    root.mkdir(exist_ok=True)
    for name, predictor in baselines.by_name.items():
        write_bundle(predictor, root / name, {"run": folder.name, "baseline": name})


def read_baselines(folder: RunFolder) -> dict[str, Predictor]:
    """Baselines of a run with a verdict."""
    check_own(folder, _FOLDER)
    places = {name: folder.path / _FOLDER / name for name in (DUMMY, LINEAR, *_OF_SOME)}
    return {
        name: read_bundle(place)
        for name, place in places.items()
        if name not in _OF_SOME or place.is_dir()
    }
