"""Whether the parts of a stored predictor fit together: hashes show only that its files are those
that were written."""

from __future__ import annotations

from typing import assert_never

import numpy as np
import polars as pl

from trainwright.data.base.table import ImageInputs, Inputs, TableInputs, TokenInputs
from trainwright.data.base.typed_fields import check_annotated
from trainwright.data.columns.target import Classes, NextToken
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.predictor.predictor import Predictor

_MOST_PIXELS = 2**18
"""Of a blank image; on larger ones a score takes too long for a check."""


def check_predictor(predictor: Predictor) -> None:
    """Check the fields of features and target, and score rows without content and rows of the last
    categories.

    Raises:
        ValueError: a field of another type, scores of another shape, or not finite. Any exception
            of a scorer that does not fit the features.
    """
    check_annotated(predictor.features, "features.json")
    check_annotated(predictor.target, "target.json")
    _check_target(predictor)
    for inputs in _trial(predictor):
        outputs = 1 if isinstance(predictor.target, NextToken) else predictor.target.outputs
        scores = predictor.score(inputs)
        if scores.shape != (len(inputs), outputs):
            raise ValueError(f"the scores of the model have the shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ValueError("the scores of the model are not finite")


def _check_target(predictor: Predictor) -> None:
    target = predictor.target
    if isinstance(target, Classes):
        if len(target.names) < 2 or len(set(target.names)) < len(target.names):
            raise ValueError("target.json names a class twice, or fewer than two")
        if not -1 <= target.positive < len(target.names):
            raise ValueError("target.json names a positive class that there is not")
        target.labels_of(np.arange(len(target.names)))
    texts = isinstance(predictor.features, TextVocabulary)
    if isinstance(target, NextToken) != texts or (
        isinstance(predictor.features, TextVocabulary) and predictor.features.size != target.outputs
    ):
        raise ValueError("features.json and target.json are of different tokens")


def _trial(predictor: Predictor) -> list[Inputs]:
    match predictor.features:
        case TableEncoder() as features:
            return [_table(features)]
        case Pixels() as pixels:
            size = (pixels.channels, pixels.height, pixels.width)
            if min(size) < 1:
                raise ValueError("features.json names images of no size")
            small = np.prod(size, dtype=np.float64) <= _MOST_PIXELS
            return [ImageInputs.of(np.zeros((1, *size), np.uint8))] if small else []
        case TextVocabulary() as vocabulary:
            tokens = np.full(2, vocabulary.size - 1, np.uint16)
            return [TokenInputs(tokens, np.ones(1, np.int64), np.ones(1, np.int64))]
        case _:
            assert_never(predictor.features)


def _table(features: TableEncoder) -> TableInputs:
    """A row of missing values, and the same with the last code of each category."""
    blank = features.transform(pl.concat([features.blank_row()] * 2))
    last = np.array(features.cardinalities, np.int64) - 1
    codes = np.stack([blank.categories[0], last])
    return TableInputs(blank.numeric, codes, terms=blank.terms)
