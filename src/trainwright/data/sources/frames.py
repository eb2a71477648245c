"""In-memory frames given from Python, and their content hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.sources import FRAME
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.messages import nearest_option, quoted
from trainwright.data.formats.file_format import NO_LINES
from trainwright.data.sources.source_file import SourcePart

_ROWS = 65_536
_AS_TEXT = (pl.Categorical, pl.Enum, pl.Decimal, pl.Int128, pl.UInt128)
NO_FRAMES: Mapping[str, Frame] = MappingProxyType({})


def hash_frame(frame: pl.DataFrame) -> str:
    """SHA-256 over the names, types and values of the columns, in their order, as lower-case hex.
    No column may be of Python objects.

    How the rows lie in memory makes no difference.
    """
    found = hashlib.sha256(f"{frame.height}".encode())
    for name, dtype in frame.schema.items():
        found.update(f"\0{name}\0{dtype}\0".encode())
        for start in range(0, frame.height, _ROWS):
            _add(found, frame[name].slice(start, _ROWS))
    return found.hexdigest()


def _add(found: hashlib._Hash, values: pl.Series) -> None:
    """Which values are missing, and then the others: of nested ones the lengths and the leaves."""
    missing = values.is_null().to_numpy()
    found.update(np.packbits(missing).tobytes())
    if isinstance(values.dtype, pl.BaseExtension):
        values = values.ext.storage()
    match values.dtype:
        case pl.Null():
            return
        case pl.Array():
            _add(found, values.arr.to_list())
            return
        case pl.List():
            lengths = values.list.len().fill_null(0)
            found.update(np.ascontiguousarray(lengths.to_numpy(), dtype="<i8").tobytes())
            _add(found, values.filter(lengths > 0).explode())
            return
        case pl.Struct(fields=fields):
            for field in fields:
                _add(found, values.struct.field(field.name))
            return
    if values.dtype in _AS_TEXT:
        values = values.cast(pl.String)
    if values.dtype == pl.String:
        values = values.cast(pl.Binary)
    if values.dtype == pl.Binary:
        cells = [cell or b"" for cell in values.to_list()]
        found.update(np.array([len(cell) for cell in cells], dtype="<i8").tobytes())
        found.update(b"".join(cells))
        return
    numbers = values.to_physical().fill_null(0) if values.dtype != pl.Boolean else values
    found.update(np.ascontiguousarray(numbers.fill_null(False).to_numpy()).tobytes())


@runtime_checkable
class ArrowTable(Protocol):
    """A table of another library that Arrow can take over, such as one of pandas."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Frame: TypeAlias = pl.DataFrame | ArrowTable | Mapping[str, npt.NDArray[Any] | Sequence[Any]]
"""Rows in memory: a frame of polars or pandas, or a dict of columns."""


@final
@dataclass(frozen=True, slots=True)
class FrameRows:
    """The frame that a contract calls `written`, at `path`."""

    written: str
    path: str
    frames: Mapping[str, Frame]

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows unchanged, without a pandas index.

        Raises:
            DataMistake: no frame of this name was given, it is no table, or a column holds objects
                of Python.
        """
        name = self.written.removeprefix(FRAME)
        if name not in self.frames:
            near = nearest_option(name, list(self.frames))
            raise DataMistake(
                Problem(
                    f"no frame {name!r} was given",
                    path=self.path,
                    found=quoted(list(self.frames)) or "no frames",
                    expected=f"trainwright.train(..., frames={{{name!r}: frame}})",
                    fix=f"did you mean {near!r}?" if near else "train from Python, or name a file",
                )
            )
        frame = _as_frame(self.frames[name], self.path)
        if objects := frame.select(pl.col(pl.Object)).columns:
            raise DataMistake(
                Problem(
                    "columns hold objects of Python, which are no values",
                    path=self.path,
                    found=quoted(objects),
                    expected="numbers, text, dates, or lists and structs of them",
                    fix="drop these columns, or turn what is in them into text",
                )
            )
        size = int(frame.estimated_size())
        return (SourcePart(self.written, hash_frame(frame), size, frame, NO_LINES),)


def _as_frame(frame: Frame, path: str) -> pl.DataFrame:
    try:
        return frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    except (TypeError, ValueError, ImportError, pl.exceptions.PolarsError) as error:
        raise DataMistake(
            Problem(
                "the frame cannot be read as a table",
                path=path,
                found=f"{type(frame).__name__}: {str(error).splitlines()[0][:160]}",
                expected="a frame of polars or pandas, or a dict of columns of one length",
                fix="turn it into one of these",
            )
        ) from error
