"""Predictions of one row at a time in tenths of a millisecond: cells met before are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, final

import numpy as np

from trainwright.data.base.inputs import TableInputs
from trainwright.data.base.parse_cells import LAST_WHOLE
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.encoders.encoding import number_columns, number_matrix
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.predictor.input_rows import GivenRows
from trainwright.predictor.predictor import Predictor

Row = Mapping[str, object]
_MOST_CELLS = 10_000
"""Categories of a column that are kept from the start; later as many again."""


@final
class RowPredictor:
    """A predictor of single rows, with the bits of `Predictor.predict`.

    `why_slow` says why it encodes every row as a frame, in milliseconds; empty where it does so
    only with a row that has a cell that is no number and that no row had before.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.why_slow = _why_slow(predictor)
        features = predictor.features
        if not self.why_slow and isinstance(features, TableEncoder):
            self._encoder = RowEncoder(features)

    def predict(self, row: Row) -> dict[str, object]:
        """The columns of `Predictor.predict` with their value.

        Raises:
            DataMistake: as `Predictor.predict`.
        """
        if self.why_slow:
            return self._predictor.predict_frame([row]).row(0, named=True)
        scores = self._predictor.score(self._encoder.encode(row))
        return {column.name: column[0] for column in self._predictor.predictions(scores)}


def _why_slow(predictor: Predictor) -> str:
    features = predictor.features
    if not isinstance(features, TableEncoder):
        return f"rows of {features.modality} data are encoded together"
    if predictor.ranks_rows:
        return "a row is ranked among those of its query"
    if features.history.names:
        return "the past of a row stands in other rows"
    if features.texts:
        return "words of texts are weighed as frames"
    return "limits are applied to frames" if features.limits else ""


class _Cell(NamedTuple):
    """What the encoder makes of a cell: the numbers of its column before they are scaled, and its
    code."""

    numbers: tuple[float, ...]
    code: tuple[int, ...]


@dataclass
class _Column:
    """A column of the rows: whether plain numbers are taken as they are, where its numbers and its
    code stand, and the known cells by type and value."""

    name: str
    is_plain: bool
    numbers: list[int]
    code: list[int]
    cells: dict[tuple[type, object], _Cell]


@final
class RowEncoder:
    """Encodes single rows with the bits of a fitted encoder of tables."""

    def __init__(self, encoder: TableEncoder) -> None:
        self._encoder = encoder
        self._take = number_columns(encoder.columns, encoder.dates, encoder.history)
        self._width = len(self._take) + sum(len(one.names) for one in encoder.means)
        self._columns = [self._describe(column) for column in encoder.columns]
        self._missing = frozenset(encoder.cleaning.missing_numbers)
        self._learn_categories()

    def encode(self, row: Row) -> TableInputs:
        """The inputs of a row.

        Raises:
            DataMistake: a column is missing, or a value is not of its kind.
        """
        numbers = np.empty((1, self._width))
        codes = np.empty((1, len(self._encoder.vocabularies)), np.int64)
        for column in self._columns:
            cell = row.get(column.name, _Column)
            if column.is_plain and (number := self._plain(cell)) is not None:
                numbers[0, column.numbers[0]] = number
                continue
            known = column.cells.get((type(cell), cell)) if _is_scalar(cell) else None
            if known is None:
                return self._learn([row])
            numbers[0, column.numbers] = known.numbers
            codes[0, column.code] = known.code
        return TableInputs(self._encoder.numbers.transform(numbers), codes)

    def _plain(self, cell: object) -> float | None:
        """A number as the encoder reads it; None where a frame has to say."""
        if cell is None:
            return np.nan
        if type(cell) not in (int, float) or not abs(cell) <= LAST_WHOLE:  # type: ignore[arg-type]
            return None
        number = float(cell)  # type: ignore[arg-type]
        return np.nan if number in self._missing else number

    def _describe(self, column: ColumnType) -> _Column:
        name, encoder = column.name, self._encoder
        plain = column.kind == "numeric" and not column.origin
        plain = plain and name not in encoder.cleaning.values and name not in encoder.cleaning.zones
        of_dates = [one.column for one in encoder.dates]
        numeric = [one.name for one in encoder.columns if one.kind == "numeric"]
        of_means = [one.vocabulary.name for one in encoder.means for _ in one.names]
        sources = [*numeric, *of_dates, *of_means]
        numbers = [at for at, one in enumerate(sources) if one == name]
        code = [at for at, one in enumerate(encoder.categorical_names) if one == name]
        return _Column(name, plain, numbers, code, {})

    def _learn_categories(self) -> None:
        """Keep the cells of the categories of training, and of a missing one."""
        labels = {one.name: [*one.kept, *one.rare][:_MOST_CELLS] for one in self._encoder.known}
        names = [column.name for column in self._columns]
        rows = zip_longest(*(labels.get(name, ()) for name in names))
        self._learn([*(dict(zip(names, row, strict=True)) for row in rows), dict.fromkeys(names)])

    def _learn(self, rows: Sequence[Row]) -> TableInputs:
        """Encode rows as a frame, and keep their cells."""
        encoder = self._encoder
        typed = encoder.read(GivenRows(rows).frame())
        means = [one.values(typed[one.vocabulary.name]) for one in encoder.means]
        numbers = np.concatenate([number_matrix(typed, self._take), *means], axis=1)
        inputs = encoder.encode(typed, means)
        for column in self._columns:
            if len(column.cells) + len(rows) > 2 * _MOST_CELLS:
                column.cells.clear()
            for at, row in enumerate(rows):
                if _is_scalar(cell := row[column.name]):
                    column.cells[type(cell), cell] = _Cell(
                        tuple(numbers[at, column.numbers].tolist()),
                        tuple(inputs.categories[at, column.code].tolist()),
                    )
        return inputs


def _is_scalar(cell: object) -> bool:
    return cell is None or isinstance(cell, str | int | float)
