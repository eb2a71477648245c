"""Metadata of parsed rows: line numbers and skipped records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.table import Integers

NO_LINES: Integers = np.empty(0, dtype=np.int64)


@final
@dataclass(frozen=True, slots=True)
class ParseResult:
    """Beside the N rows that were written to an Arrow file, of text files all as strings: `lines`
    int64 [N] holds the line each row starts on; it is empty for files without lines. `skipped` are
    the lines of records that could not be read and were skipped."""

    lines: Integers
    skipped: tuple[int, ...] = ()


@final
class BadRecords:
    """Unreadable records, of which up to `most` are skipped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.lines: list[int] = []

    def leave_out(self, line: int) -> bool:
        """Whether the record on this line may be skipped; it is counted either way."""
        self.lines.append(line)
        return len(self.lines) <= self._most

    @property
    def too_many(self) -> bool:
        """Whether more were met than may be skipped."""
        return len(self.lines) > self._most

    def check(self, problems: list[Problem]) -> None:
        """Raise the problems if there were too many."""
        if self.too_many:
            raise DataMistake(problems)
