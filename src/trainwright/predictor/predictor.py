"""Fitted model with its fitted features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, assert_never, final, overload

import numpy as np
import polars as pl

from trainwright.core.errors import NotAvailable, Problem
from trainwright.data.base.row_storage import slices_of
from trainwright.data.base.table import Floats, Inputs, Part
from trainwright.data.columns.target import Classes, NextToken, Numbers, Target
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.sources.frames import ArrowTable
from trainwright.data.types import Encoding
from trainwright.predictor.input_rows import (
    Columns,
    Images,
    Rows,
    frame_of,
    given_as,
    images_of,
)
from trainwright.predictor.scorer import Scorer

DataFrame = TypeVar("DataFrame", bound=ArrowTable)


@final
@dataclass(frozen=True, slots=True)
class Predictor:
    """Maps rows in their original form to predictions."""

    features: Encoding
    target: Target
    scorer: Scorer

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C] in the order of the class names, values [N, 1], or of a text
        the negative log-likelihood (nats) of each segment, [N, 1]."""
        return self.scorer.score(inputs)

    def score_part(self, part: Part) -> Floats:
        """`score` for a part; table rows are encoded in slices by these features, which may differ
        from those that the part was encoded with."""
        if isinstance(self.features, TableEncoder):
            frame = part.frame
            scores = (self.scorer.score(self.features.transform(rows)) for rows in slices_of(frame))
            return np.concatenate(list(scores))
        return self.scorer.score(part.inputs)

    @overload
    def predict(self, rows: pl.DataFrame | Columns | Images) -> pl.DataFrame: ...
    @overload
    def predict(self, rows: DataFrame) -> DataFrame: ...
    def predict(self, rows: Any) -> Any:
        """Predict new rows, typed like the training data.

        `rows` is a frame of polars, pandas or Arrow, a mapping of column names to lists, or a list
        of one mapping a row; for a model of images it is an array, uint8 [N, H, W] or [N, C, H, W].
        The result has a row for each: `prediction`, and for classes `probability_<class>`. It is a
        frame of the library that the rows came from, with the index of pandas, and else of polars.

        Raises:
            As `predict_frame`.
        """
        return given_as(rows, self.predict_frame(rows))

    def predict_frame(self, rows: Rows) -> pl.DataFrame:
        """`predict`, always as a polars frame.

        Raises:
            DataMistake: a feature column is missing, a value has the wrong type, or an image the
                wrong size. NotAvailable: the model is one of texts.
        """
        scores = self.scorer.score(self._read(rows))
        match self.target:
            case Classes():
                return pl.DataFrame(self.target.predictions(scores))
            case Numbers():
                return pl.DataFrame([pl.Series("prediction", scores[:, 0])])
            case NextToken():
                raise AssertionError("a model of texts reads no rows")
            case _:
                assert_never(self.target)

    def count_unseen(self, rows: Rows) -> dict[str, int]:
        """Number of rows with an unseen category, for each categorical column that has any.

        Raises:
            DataMistake: as `predict`.
        """
        if not isinstance(self.features, TableEncoder):
            return {}
        typed = self.features.read(frame_of(rows))
        counts = {one.name: one.count_unseen(typed[one.name]) for one in self.features.known}
        return {name: count for name, count in counts.items() if count}

    def _read(self, rows: Rows) -> Inputs:
        match self.features:
            case TableEncoder() as features:
                return features.transform(features.read(frame_of(rows)))
            case Pixels() as pixels:
                return pixels.read(images_of(rows))
            case TextVocabulary():
                raise NotAvailable(
                    Problem(
                        "writing text is not available in this version",
                        fix="evaluate the model on a text instead",
                    )
                )
            case _:
                assert_never(self.features)
