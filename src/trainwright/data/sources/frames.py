"""In-memory frames given from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.sources import FRAME
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.messages import nearest_option, quoted
from trainwright.data.formats.parse_result import NO_LINES
from trainwright.data.sources.frame_hash import hash_frame
from trainwright.data.sources.source_file import SourcePart


@runtime_checkable
class ArrowTable(Protocol):
    """A table of another library that Arrow can take over, such as one of pandas."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Frame: TypeAlias = pl.DataFrame | ArrowTable | Mapping[str, npt.NDArray[Any] | Sequence[Any]]
"""Rows in memory: a frame of polars or pandas, or a dict of columns."""

NO_FRAMES: Mapping[str, Frame] = MappingProxyType({})


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
