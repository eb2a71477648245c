"""Encoder of an ensemble: new rows are typed, and each of its models encodes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy.typing as npt
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.inputs import Inputs, Integers, Part, TableInputs
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, slices_of
from trainwright.data.encoders.encoding import FrameEncoding, InputColumn, NewRows
from trainwright.data.encoders.table_encoder import TableEncoder


@dataclass(frozen=True, slots=True)
class FrameInputs(Inputs):
    """N typed rows, for models each of which encodes them in its own way."""

    frame: pl.DataFrame

    kind: ClassVar[str] = "rows"

    def __len__(self) -> int:
        return self.frame.height

    def take(self, rows: Integers) -> FrameInputs:
        """The given rows, in the given order."""
        return FrameInputs(self.frame[rows])

    def columns(self) -> TableInputs:
        """Each model has its own."""
        raise AssertionError("typed rows are encoded by each model of an ensemble")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Each model has its own."""
        raise AssertionError("typed rows are encoded by each model of an ensemble")


@final
@dataclass(frozen=True, slots=True)
class RowsEncoder(FrameEncoding):
    """Types rows as `table` does, which was fitted on the training rows, and encodes nothing."""

    table: TableEncoder

    modality: ClassVar[str] = "table"

    @property
    def typed(self) -> TableEncoder:
        """What types the columns."""
        return self.table

    @property
    def plotted_columns(self) -> tuple[str, ...]:
        """The columns of numbers, categories and dates."""
        return self.table.plotted_columns

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """The feature columns."""
        return self.table.hashed_columns

    def read_new(self, rows: NewRows, /) -> FrameInputs:
        """Typed as the training rows were."""
        return self.transform(self.table.read(rows.frame(), rows.source))

    def count_unseen(self, rows: NewRows, /) -> dict[str, int]:
        """As those of `table`."""
        return self.table.count_unseen(rows)

    def allow_unknown(self, columns: Collection[str], /) -> RowsEncoder:
        """As `TableEncoder.allow_unknown`."""
        return RowsEncoder(self.table.allow_unknown(columns))

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """The rows of the part's frame, a slice at a time."""
        return (self.transform(rows) for rows in slices_of(part.frame))

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Distribution of each column."""
        return self.table.profile(part)

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """The feature columns."""
        return self.table.signature(profile)

    def transform(self, frame: pl.DataFrame, _space: RowStorage = IN_MEMORY) -> FrameInputs:
        """Typed rows, not encoded."""
        return FrameInputs(frame)

    def trial_inputs(self) -> list[Inputs]:
        """A row of missing values."""
        return [FrameInputs(self.table.blank_row())]

    def shape_json(self, outputs: int) -> Json:
        """As that of `table`."""
        return self.table.shape_json(outputs)

    def describe(self, rows: int) -> str:
        """Their number, and the kinds of the columns."""
        return self.table.describe(rows)

    def identity(self) -> Json:
        """What decides every typed row."""
        return self.table.identity()

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"kind": "rows", "table": self.table.to_json()}

    @classmethod
    def from_json(cls, json: Json) -> RowsEncoder:
        """Inverse of `to_json`."""
        return cls(TableEncoder.from_json(json["table"]))
