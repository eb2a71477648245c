"""Contributions of input columns to single predictions, by the library's own SHAP values."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.core.errors import NotAvailable, Problem
from trainwright.data.base.inputs import Floats
from trainwright.data.encoders.column_origins import columns_of_origins, origins_of
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.model.family import AttributingScorer
from trainwright.predictor.predictor import Predictor

CONTRIBUTION = "contribution_"
"""Name prefix of a column of contributions, before the input column."""

_SLICE_ROWS = 1000


def has_contributions(predictor: Predictor) -> bool:
    """Does the library of the model give contributions?"""
    return isinstance(predictor.scorer, AttributingScorer)


def contributions_of(predictor: Predictor, frame: pl.DataFrame) -> Floats:
    """Contributions [N, K, C + 1] of the C input columns of typed rows to the K raw outputs, the
    expected output last; everything derived from a column is added up.

    Raises:
        NotAvailable: the library of the model gives none.
    """
    scorer = predictor.scorer
    if not isinstance(scorer, AttributingScorer):
        raise NotAvailable(
            Problem(
                "contributions to single predictions are those of trees whose library gives them",
                path="model.kind",
                found=scorer.kind,
                expected="boosting or xgboost",
                fix="trainwright explain RUN without rows: permutation importance and partial "
                "dependence of any model",
            )
        )
    features = TableEncoder.of_kind(predictor.features)
    columns = list(columns_of_origins(features))
    place = {column: at for at, column in enumerate(columns)}
    into = np.array([place[origin] for origin in origins_of(features)] + [len(columns)], np.int64)
    return np.concatenate(
        [
            _added_up(scorer.contributions(features.transform(rows)), into, len(columns) + 1)
            for rows in (frame.iter_slices(_SLICE_ROWS) if frame.height else [frame])
        ]
    )


def _added_up(values: Floats, into: np.ndarray, width: int) -> Floats:
    """Columns [..., M] added up at their places `into` [M], [..., width]."""
    summed = np.zeros((*values.shape[:2], width))
    for at, place in enumerate(into.tolist()):
        summed[..., place] += values[..., at]
    return summed


def contribution_frame(predictor: Predictor, frame: pl.DataFrame) -> pl.DataFrame:
    """For each typed row its prediction, the expected raw output `base`, and what each input column
    adds to it: towards the positive of two classes, the predicted one of several, or the value.

    Raises:
        NotAvailable: as `contributions_of`.
    """
    if predictor.target.target_names:
        raise NotAvailable(
            Problem(
                "contributions to single predictions are those to one target",
                path="data.target",
                found=f"{len(predictor.target.target_names)} targets",
                expected="a run with one target",
                fix="trainwright explain RUN without rows: permutation importance and partial "
                "dependence of all targets",
            )
        )
    values = contributions_of(predictor, frame)
    features, target = TableEncoder.of_kind(predictor.features), predictor.target
    scores = predictor.score(features.transform(frame))
    chosen = np.zeros(frame.height, np.int64)
    if values.shape[1] > 1:
        chosen = np.argmax(scores, axis=1) if len(scores) else chosen
    of_chosen = values[np.arange(frame.height), chosen]
    if target.outputs == 2 and target.positive_code == 0:
        of_chosen = -of_chosen
    names = ["base", *(f"{CONTRIBUTION}{name}" for name in columns_of_origins(features))]
    ordered = np.concatenate([of_chosen[:, -1:], of_chosen[:, :-1]], axis=1)
    return pl.DataFrame(
        [
            predictor.predictions(scores)[0],
            *(pl.Series(name, ordered[:, at]) for at, name in enumerate(names)),
        ]
    )
