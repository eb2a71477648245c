"""How rows become inputs: the interface of every fitted encoding, and its columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import ClassVar, Protocol, Self, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.categories import rounded, safe_quantiles, safe_shares
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import Bytes, Floats, Inputs, Integers, Part
from trainwright.data.base.parse_cells import to_numbers
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.columns.typed_rows import Limit, limited
from trainwright.data.encoders.scaling import NumberRows
from trainwright.data.encoders.time_features import DatePart, LagFeatures

NumberColumn = Callable[[pl.DataFrame], pl.Series]
"""What takes one numeric column from rows."""


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
        """Rows with an unseen category, or no value where every training row has one, by column."""
        return {}

    def allow_unknown(self, _columns: Collection[str], /) -> Encoding:
        """The same, for new rows in most of which these columns may be empty or unknown."""
        return self

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

    @property
    def sources(self) -> Mapping[str, str]:
        """The columns of features that have another name than theirs."""
        return {}

    @abstractmethod
    def transform(self, frame: pl.DataFrame, space: RowStorage = IN_MEMORY, /) -> Inputs:
        """Inputs of typed rows."""

    @abstractmethod
    def identity(self) -> Json:
        """What decides every encoded row, for the version of the data."""


def names_of_kind(columns: tuple[ColumnType, ...], kind: str) -> list[str]:
    """The columns of a kind."""
    return [column.name for column in columns if column.kind == kind]


def number_columns(
    columns: tuple[ColumnType, ...], dates: tuple[DatePart, ...], history: LagFeatures
) -> list[NumberColumn]:
    """Numeric columns, date parts and the past."""
    numeric = [column for column in columns if column.kind == "numeric"]
    own = [one.distances if one.origin else itemgetter(one.name) for one in numeric]
    past = [itemgetter(name) for name in history.names]
    return [*own, *(date.values for date in dates), *past]


def number_matrix(frame: pl.DataFrame, columns: Sequence[NumberColumn]) -> Floats:
    """Float64 [N, F], NaN for missing."""
    if not columns:
        return np.empty((frame.height, 0), dtype=np.float64)
    series = [column(frame).cast(pl.Float64).fill_null(np.nan) for column in columns]
    return np.stack([one.to_numpy() for one in series], axis=1)


def number_rows(
    frame: pl.DataFrame,
    limits: tuple[Limit, ...],
    columns: Sequence[NumberColumn],
    crossed: Sequence[Floats],
) -> NumberRows:
    """The numeric columns of the training rows, the mean targets of other folds behind them."""
    means = np.concatenate([np.empty((frame.height, 0)), *crossed], axis=1)

    def between(start: int, stop: int, chosen: Integers) -> Floats:
        rows = limited(frame.slice(start, stop - start), limits)
        own = number_matrix(rows, [columns[at] for at in chosen if at < len(columns)])
        beside = means[start:stop, chosen[chosen >= len(columns)] - len(columns)]
        return np.concatenate([own, beside], axis=1)

    return NumberRows(frame.height, len(columns) + means.shape[1], between)


def profile_columns(frame: pl.DataFrame, columns: Sequence[ColumnType]) -> list[Json]:
    """Distribution of each column of typed rows."""
    return [_profile(frame[one.name], one) for one in columns if one.name in frame.columns]


def describe_columns(columns: Sequence[ColumnType], profile: Sequence[Json]) -> list[InputColumn]:
    """Columns that a model reads, with a typical value of their profile."""
    known = {one["name"]: one for one in profile}
    return [
        InputColumn(
            one.name, one.kind, one.origin or _example(known.get(one.name, {})), one.missing > 0
        )
        for one in columns
    ]


def _profile(series: pl.Series, column: ColumnType) -> Json:
    about: dict[str, Json] = {
        "name": column.name,
        "type": column.kind,
        "missing_share": rounded(series.null_count() / max(1, len(series))),
    }
    known = series.drop_nulls()
    match column.kind:
        case "numeric":
            numbers = to_numbers(known, column.origin).series
            origin = {"origin": column.origin} if column.origin else {}
            return {**about, **origin, "quantiles": safe_quantiles(numbers.to_numpy())}
        case "datetime":
            seconds = known.cast(pl.Datetime("us")).cast(pl.Int64).to_numpy() / 1e6
            return {**about, "quantiles_seconds": safe_quantiles(seconds)}
        case "text":
            lengths = known.cast(pl.String).str.len_chars().cast(pl.Float64).to_numpy()
            return {**about, "characters": safe_quantiles(lengths)}
        case _:
            return {**about, **safe_shares(known)}


def _example(column: Mapping[str, Json]) -> Json:
    """A typical value that many rows share: the median, or the most frequent category."""
    if categories := column.get("categories"):
        return next(iter(categories))
    if (median := column.get("quantiles", {}).get("0.5")) is not None:
        return float(f"{median:.3g}")
    if (seconds := column.get("quantiles_seconds", {}).get("0.5")) is not None:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    return ""
