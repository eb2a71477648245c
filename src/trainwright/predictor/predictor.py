"""Fitted model with its fitted features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.inputs import Floats, Inputs, Integers, Part
from trainwright.data.base.levels import NO_LEVELS, Levels
from trainwright.data.columns.target import Target, least_expected
from trainwright.data.encoders.encoding import Encoding, FrameEncoding
from trainwright.data.sources.frames import ArrowTable
from trainwright.model.family import Scorer
from trainwright.predictor.calibration import NOT_CALIBRATED, Calibration

if TYPE_CHECKING:
    from trainwright.predictor.input_rows import Columns, GivenRows, Images, Rows

DataFrame = TypeVar("DataFrame", bound=ArrowTable)


def restored_scores(raw: Floats, target: Target, levels: Levels) -> Floats:
    """Scores in the unit of the target, of quantiles ascending in each row: a ratio to a level
    below 0, which no training row has, turns them round."""
    return target.arrange(levels.restored(raw))


@final
@dataclass(frozen=True, slots=True)
class Predictor:
    """Maps rows in their original form to predictions."""

    features: Encoding
    target: Target
    scorer: Scorer
    calibration: Calibration = NOT_CALIBRATED

    @property
    def ranks_rows(self) -> bool:
        """Whether a row is ranked among those of its query."""
        return self.target.task == "ranking"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C] in the order of the class names, values [N, 1], ascending
        quantiles [N, K], or of a text the negative log-likelihood (nats) of each segment, [N, 1].
        """
        return self.calibrated(self.scorer.score(inputs), inputs.levels)

    def calibrated(self, raw: Floats, levels: Levels = NO_LEVELS) -> Floats:
        """Scores of what the scorer gave for rows with these levels."""
        found = self.calibration.apply(self.target.arrange(raw), levels.steps)
        return restored_scores(found, self.target, levels)

    def uncalibrated(self, inputs: Inputs) -> Floats:
        """`score` before the calibration."""
        return restored_scores(self.scorer.score(inputs), self.target, inputs.levels)

    def inputs_of(self, part: Part, encoded_by: Encoding) -> Inputs:
        """The rows of a part that was encoded by an encoding, as this model reads them."""
        if self.features is encoded_by or self.features.to_json() == encoded_by.to_json():
            return part.inputs
        return FrameEncoding.of_kind(self.features).transform(part.frame)

    def decide(self, scores: Floats) -> Integers | None:
        """Classes [N] (of labels [N, L] whether each is given) chosen by a threshold, or of least
        expected cost where no threshold was fitted to the costs; None where the highest probability
        counts."""
        decided = self.calibration.decide(scores, self.target.positive_code)
        if decided is not None or not self.target.costs:
            return decided
        return least_expected(scores, self.target.costs)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """Columns of predictions for scores; the first is called `prediction`."""
        columns = self.target.predictions(scores)
        if (decided := self.decide(scores)) is not None:
            chosen = self.target.decisions(decided)
            columns[: len(chosen)] = chosen
        return columns

    def score_counterfactuals(self, inputs: Inputs) -> dict[str, Floats]:
        """`score` for rows from which something was taken that the model should use, by the name of
        the baseline that it then is; most kinds of rows have none."""
        return {name: self.score(one) for name, one in inputs.counterfactuals().items()}

    def score_part(self, part: Part) -> Floats:
        """`score` for a part; table rows are encoded in slices by these features, which may differ
        from those that the part was encoded with."""
        scores = [self.score(inputs) for inputs in self.features.inputs_of(part)]
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def allow_unknown(self, *columns: str) -> Predictor:
        """The same, for new rows in most of which these columns may be empty, or categories that no
        training row has; without it such rows are refused."""
        return replace(self, features=self.features.allow_unknown(columns))

    @overload
    def predict(self, rows: pl.DataFrame | Columns | Images) -> pl.DataFrame: ...
    @overload
    def predict(self, rows: DataFrame) -> DataFrame: ...
    def predict(self, rows: Any) -> Any:
        """Predict new rows, typed like the training data.

        `rows` is a frame of polars, pandas or Arrow, a mapping of column names to lists, or a list
        of one mapping a row; for a model of images it is an array, uint8 [N, H, W] or [N, C, H, W].
        The result has a row for each: `prediction`, for classes `probability_<class>`, and of a
        ranking, where the rows name their query, the `rank` of each among those of its query; of
        series, a row for each forecast. It is a frame of the library that the rows came from, with
        the index of pandas where the rows are the same, and else of polars.

        Raises:
            As `predict_frame`.
        """
        # Imported here, and below: a training reads its rows from files.
        from trainwright.predictor.input_rows import given_as

        return given_as(rows, self.predict_frame(rows))

    def predict_frame(self, rows: Rows, source: str = "the rows") -> pl.DataFrame:
        """`predict`, always as a polars frame. Errors name the rows by their `source`.

        Raises:
            DataMistake: a feature column is missing, a value has the wrong type, or an image the
                wrong size. NotAvailable: the model is one of texts.
        """
        given = _given_rows(rows, source)
        scores = self.score(self.features.read_new(given))
        columns = [*self.features.columns_before(given), *self.predictions(scores)]
        if self.ranks_rows:
            columns += self.target.query_columns(given.frame(), scores)
        return pl.DataFrame(columns)

    def encode(self, rows: Rows) -> dict[str, npt.NDArray[Any]]:
        """New rows as a network reads them: arrays by name, the first axis the rows.

        Raises:
            DataMistake: as `predict`. NotAvailable: the model is one of texts.
        """
        inputs = self.features.read_new(_given_rows(rows))
        return dict(inputs.arrays(0, len(inputs)))

    def count_unseen(self, rows: Rows) -> dict[str, int]:
        """Rows with an unseen category, or no value where every training row has one, by column.

        Raises:
            DataMistake: as `predict`.
        """
        return self.features.count_unseen(_given_rows(rows))


def _given_rows(rows: Rows, source: str = "the rows") -> GivenRows:
    from trainwright.predictor.input_rows import GivenRows

    return GivenRows(rows, source)
