"""A fitted model with the fitted features that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never, final

import numpy as np
import polars as pl

from trainwright.data.features import Features
from trainwright.data.table import Floats, Inputs
from trainwright.data.target import Classes, Numbers, Target
from trainwright.predictor.rows import Rows, frame_of
from trainwright.predictor.scorer import Scorer


@final
@dataclass(frozen=True, slots=True)
class Predictor:
    """From rows as they are in a file to predictions."""

    features: Features
    target: Target
    scorer: Scorer

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C] in the order of the class names, or values [N, 1]."""
        return self.scorer.score(inputs)

    def score_frame(self, frame: pl.DataFrame) -> Floats:
        """`score` for typed rows, such as a part's frame, encoded by these features."""
        return self.scorer.score(self.features.transform(frame))

    def predict(self, rows: Rows) -> pl.DataFrame:
        """Predict new rows, typed as the training file was.

        `rows` is a polars frame, a mapping of column names to lists, or a list of one mapping a
        row. The result has a row for each: `prediction`, and for classes `probability_<class>`.

        Raises:
            DataMistake: a feature column is missing, or a value is not of its kind.
        """
        typed = self.features.read(frame_of(rows))
        scores = self.score_frame(typed)
        match self.target:
            case Classes(names=names):
                chosen = np.argmax(scores, axis=1) if len(scores) else np.zeros(0, np.int64)
                prediction = [names[code] for code in chosen]
                columns = [pl.Series("prediction", prediction, dtype=pl.String)]
                columns += [
                    pl.Series(f"probability_{name}", scores[:, code])
                    for code, name in enumerate(names)
                ]
                return pl.DataFrame(columns)
            case Numbers():
                return pl.DataFrame([pl.Series("prediction", scores[:, 0])])
            case _:
                assert_never(self.target)
