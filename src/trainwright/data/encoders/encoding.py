"""How rows become inputs: the interface of every fitted encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol, Self, final

import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.cells.cleaned_cells import Cleaning
from trainwright.data.base.storage.row_storage import IN_MEMORY, RowStorage
from trainwright.data.base.table import Bytes, Inputs, Part
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.encoders.lag_features import LagFeatures


class NewRows(Protocol):
    """Rows that a caller gives to a predictor, in the form that an encoding reads."""

    @property
    def source(self) -> str:
        """What errors call them."""
        ...

    def frame(self) -> pl.DataFrame:
        """As columns.

        Raises:
            DataMistake: they are none.
        """

    def images(self) -> Bytes:
        """As images, uint8 [N, H, W] or [N, C, H, W].

        Raises:
            DataMistake: they are none.
        """


@final
@dataclass(frozen=True, slots=True)
class InputColumn:
    """Column that a model reads: its type, a typical value, and whether training rows lacked it."""

    name: str
    type: str
    example: Json = ""
    nullable: bool = False

    def to_json(self) -> Json:
        """The fields by name."""
        return asdict(self)


class Encoding(ABC):
    """Fitted on the training rows alone, stored as JSON. Both encode every row to the same bits."""

    __slots__ = ()

    modality: ClassVar[str]
    """The kind of data, as in the contract; `kind` in JSON."""

    side_files: ClassVar[tuple[str, ...]] = ()
    """Files that stand beside its JSON in a bundle; `from_json` gets their texts by name."""

    reads_columns: ClassVar[bool] = False
    """Are its rows typed columns, a value each?"""

    reads_frames: ClassVar[bool] = False
    """Are they rows of a frame, whatever becomes of its columns?"""

    knows_images: ClassVar[bool] = False
    """Is a row known again by its image alone?"""

    profiled_rows: ClassVar[int] = 20_000
    """The most rows that `profile` is given."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of codes of each categorical column."""
        return ()

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """The columns of `TableInputs.numeric`, then those of its terms, by name."""
        return ()

    @property
    def plotted_columns(self) -> tuple[str, ...]:
        """The columns of a part's frame whose distributions are drawn, besides the target."""
        return ()

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """The columns of a part's frame by which a row is known again; empty if by none."""
        return ()

    @abstractmethod
    def read_new(self, rows: NewRows, /) -> Inputs:
        """New rows, encoded.

        Raises:
            DataMistake: they are not like those of the training. NotAvailable: no rows can be read.
        """

    def columns_before(self, _rows: NewRows, /) -> Sequence[pl.Series]:
        """Columns that stand before the predictions for new rows, and say what each is for; none
        where each row has its own."""
        return ()

    def count_unseen(self, _rows: NewRows, /) -> dict[str, int]:
        """Rows with an unseen category, for each column that has any."""
        return {}

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """A part as this encoding sees it, in slices; it may have been encoded by another."""
        yield part.inputs

    def profile(self, _part: Part, /) -> dict[str, Json]:
        """How training rows are distributed, for drift. Nothing in it identifies a row."""
        return {}

    def signature(self, _profile: Mapping[str, Json], /) -> Sequence[InputColumn]:
        """The columns that `read_new` reads, with examples from the profile."""
        return ()

    @property
    def tokens(self) -> int:
        """Different tokens of a text; 0 for other inputs."""
        return 0

    def trial_inputs(self) -> list[Inputs]:
        """Rows without content, by which a stored model is tried; empty where that would take long.

        Raises:
            ValueError: there can be no such rows.
        """
        return []

    @abstractmethod
    def shape_json(self, outputs: int) -> Json:
        """The shape of the inputs, as `model.input_shape.shape_from_json` reads it."""

    @abstractmethod
    def describe(self, rows: int) -> str:
        """So many rows and what they consist of, for the screen."""

    def describe_cuts(self, _parts: Sequence[Part], /) -> str:
        """What rows lost when they were encoded, for the screen; empty if nothing."""
        return ""

    @abstractmethod
    def to_json(self) -> Json:
        """What `from_json` reads, with the modality as its `kind`."""

    def beside(self) -> Mapping[str, str]:
        """The texts of its `side_files`."""
        return {}

    @classmethod
    @abstractmethod
    def from_json(cls, json: Json) -> Encoding:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer of texts, as the tokenizers library writes it; empty without one."""
        return ""

    @classmethod
    def of_kind(cls, encoding: Encoding) -> Self:
        """The same where its kind is settled; another one is a programmer's mistake."""
        assert isinstance(encoding, cls), f"no encoding of {cls.modality}"
        return encoding


class TypedColumns(Protocol):
    """Feature columns of a table, and how the cells of new rows are read."""

    @property
    def columns(self) -> tuple[ColumnType, ...]:
        """The feature columns."""
        ...

    @property
    def cleaning(self) -> Cleaning:
        """What stands for a missing cell."""
        ...

    @property
    def history(self) -> LagFeatures:
        """What earlier rows say."""
        ...

    def read(self, frame: pl.DataFrame, source: str = "the rows") -> pl.DataFrame:
        """New rows, typed as the training rows were.

        Raises:
            DataMistake: a column is missing, or values are not of its kind.
        """
        ...


class FrameEncoding(Encoding):
    """Encoding of the typed columns of a table."""

    __slots__ = ()

    reads_frames: ClassVar[bool] = True

    @property
    @abstractmethod
    def typed(self) -> TypedColumns:
        """What types the columns of new rows."""

    @abstractmethod
    def transform(self, frame: pl.DataFrame, space: RowStorage = IN_MEMORY, /) -> Inputs:
        """Inputs of typed rows."""

    @abstractmethod
    def identity(self) -> Json:
        """What decides every encoded row, for the version of the data."""
