"""Progress of a run in shared memory, which survives its process, for the supervisor."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple, final

from trainwright.core.progress import Progress
from trainwright.tracking.events import (
    Event,
    Resumed,
    RolledBack,
    Saved,
    StepDropped,
    StepKept,
)

_NUMBERS = struct.Struct("<5q")
_NAME_AT = 64
_NAME_LENGTH = struct.Struct("<q")
_SIZE = 8192


class Position(NamedTuple):
    """The last complete step, and its number of rows (0 before the first)."""

    progress: Progress
    rows: int


@final
class SharedPosition:
    """Observer of a run in a forked process; its parent reads. Written without a system call, so
    that the cost per step is negligible."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    def opened(self, folder: Path) -> None:
        """The run has its folder."""
        name = str(folder.absolute()).encode()[: _SIZE - _NAME_AT - _NAME_LENGTH.size]
        _NAME_LENGTH.pack_into(self._memory, _NAME_AT, len(name))
        start = _NAME_AT + _NAME_LENGTH.size
        self._memory[start : start + len(name)] = name

    def observe(self, event: Event) -> None:
        """Record the position of the run."""
        if type(event) is StepKept:
            _NUMBERS.pack_into(self._memory, 0, *event.progress, event.outcome.rows)
        elif isinstance(event, Resumed | RolledBack | StepDropped):
            _NUMBERS.pack_into(self._memory, 0, *event.progress, 0)
        elif isinstance(event, Saved):  # trees have no steps, and each kept file is progress
            _NUMBERS.pack_into(self._memory, 0, *event.progress, self.position.rows)

    @property
    def position(self) -> Position:
        """Last position of the run."""
        *progress, rows = _NUMBERS.unpack_from(self._memory, 0)
        return Position(Progress(*progress), rows)

    @property
    def folder(self) -> str:
        """Folder of the run; empty before it has one."""
        (length,) = _NAME_LENGTH.unpack_from(self._memory, _NAME_AT)
        start = _NAME_AT + _NAME_LENGTH.size
        return self._memory[start : start + length].decode()
