"""Heartbeats: what each rank says of its training thread once a second, and which rank is frozen.

A rank is frozen only where others wait for it in a call of torch.distributed. While rank 0
prepares or judges, the others wait for an order, and no rank is frozen. Seconds are counted by the
rounds of the rank that watches, not by a clock: a machine that was suspended as a whole has lost
none.
"""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple, final

from trainwright.core.files import Json
from trainwright.core.formatting import show_seconds

SILENT_SECONDS = 300
"""After so long without a sign a process is stopped, or its machine or connection is gone; or a
library keeps the interpreter's lock."""

STILL_SECONDS = 1800
"""So long no work stands at one line: saves to slow storage and compilers stand for minutes."""

_OURS = f"{os.sep}trainwright{os.sep}"


class Heartbeat(NamedTuple):
    """Sign of life of a rank. `beats` counts the seconds of the process, `moves` those after which
    its training thread stood elsewhere. `waits`: it is in a call that other ranks have to join."""

    machine: str = ""
    pid: int = 0
    beats: int = 0
    moves: int = 0
    waits: bool = False
    line: str = ""


class Frozen(NamedTuple):
    """Rank that keeps the others waiting, or -1 where all wait for each other."""

    rank: int
    machine: str
    pid: int
    message: str

    @classmethod
    def read(cls, value: Json) -> Frozen:
        """As it was written to JSON."""
        return cls(*value)


def name_machine() -> str:
    """Identity of the kernel and of the space of its process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # another system than Linux
        return platform.node()


def locate_thread(thread: int) -> tuple[int, str]:
    """Where a thread stands: a hash of its stack, which another instruction changes, and the
    innermost line of this package."""
    innermost = sys._current_frames()[thread]
    frame: FrameType | None = innermost
    instructions = []
    line = ""
    while frame is not None:
        instructions.append((id(frame.f_code), frame.f_lasti))
        if not line and _OURS in frame.f_code.co_filename:
            line = _describe(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    code = innermost.f_code
    return hash(tuple(instructions)), line or _describe(
        code.co_filename, innermost.f_lineno, code.co_name
    )


def _describe(path: str, line: int, function: str) -> str:
    return f"{Path(*Path(path).parts[-3:])}:{line} in {function}"


@final
class PeerPatience:
    """How long a rank, while it waits itself, has seen nothing new of each rank."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._before: Sequence[Heartbeat] = ()
        self._silent: Counter[int] = Counter()
        self._still: Counter[int] = Counter()

    def forget(self) -> None:
        """This rank does not wait."""
        self._before = ()
        self._silent.clear()
        self._still.clear()

    def judge(self, beats: Sequence[Heartbeat], *, is_answered: bool) -> Frozen | None:
        """The frozen rank, from the heartbeats of all ranks, which are taken once a second.
        `is_answered`: rank 0, which keeps them, has given them; else they are those of before."""
        for rank, (beat, before) in enumerate(zip(beats, self._before, strict=False)):
            if not is_answered and rank:
                continue
            self._silent[rank] = 0 if beat.beats != before.beats else self._silent[rank] + 1
            self._still[rank] = 0 if beat.moves != before.moves else self._still[rank] + 1
        self._before = beats
        for rank, beat in enumerate(beats):
            if rank != self._rank and self._silent[rank] >= SILENT_SECONDS:
                return _accuse(rank, beat, "has given no sign", SILENT_SECONDS)
        for rank, beat in enumerate(beats):
            if not beat.waits and self._still[rank] >= STILL_SECONDS:
                return _accuse(rank, beat, "has stood still", STILL_SECONDS)
        if all(self._still[rank] >= STILL_SECONDS for rank in range(len(beats))):
            lines = "; ".join(f"rank {rank} at {beat.line}" for rank, beat in enumerate(beats))
            waited = show_seconds(STILL_SECONDS)
            return Frozen(-1, "", 0, f"all ranks have waited for each other for {waited}: {lines}")
        return None


def _accuse(rank: int, beat: Heartbeat, what: str, seconds: float) -> Frozen:
    message = f"rank {rank} (process {beat.pid}) {what} for {show_seconds(seconds)}, at {beat.line}"
    return Frozen(rank, beat.machine, beat.pid, message)
