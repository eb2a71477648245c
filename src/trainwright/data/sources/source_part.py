"""The `Source` protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import polars as pl

from trainwright.data.base.table import Integers


@final
@dataclass(frozen=True, slots=True)
class SourcePart:
    """Rows that came in one piece: a file, the answer to a query, a frame.

    `written` is what people call it and holds no secret; `sha256` is of the content, so that equal
    hashes are equal rows; `lines` int64 [N] and `skipped` are as in `Parsed`; `file_sha256` is as
    in `FileVersion`.
    """

    written: str
    sha256: str
    size_bytes: int
    frame: pl.DataFrame
    lines: Integers
    skipped: tuple[int, ...] = ()
    file_sha256: str = ""


class Source(Protocol):
    """A place that rows come from.

    An implementation must give the same parts in the same order as long as the content is the
    same, a changed hash as soon as one value is another, and refuse with a `Mistake` that names the
    contract path what it cannot read whole. It writes nothing outside of the cache.
    """

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows, in one or more parts with the same columns."""
        ...
