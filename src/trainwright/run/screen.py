"""Stage times, and console output of a run."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, final

from trainwright.core.formatting import show_seconds
from trainwright.core.terminal import show_safely
from trainwright.tracking.console import (
    LABEL_WIDTH,
    ConsoleProgress,
    CountProgress,
    build_console,
    build_count,
)

_WIDTH_UNKNOWN = 80
_LEAST_SHOWN = 0.05
"""Seconds that `show_seconds` does not round to 0."""


class Screen(Protocol):
    """Where a run reports progress. Results go elsewhere."""

    def say(self, line: str) -> None:
        """Write a permanent line."""
        ...

    def progress(self, total_steps: int) -> ConsoleProgress:
        """Observer that shows the progress of the training; of 0 steps the length is unknown."""
        ...

    def count(self, total: int) -> CountProgress:
        """Progress in at most `total` parts, for models outside the loop."""
        ...


@final
class StreamScreen:
    """Lines and a live bar on a stream, which is stderr for commands."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        """Write a line, wrapped on a terminal."""
        line = show_safely(line)
        if self._stream.isatty():
            width = os.get_terminal_size(self._stream.fileno()).columns or _WIDTH_UNKNOWN
            line = textwrap.fill(
                line,
                width,
                subsequent_indent=" " * LABEL_WIDTH,
                break_long_words=False,
                break_on_hyphens=False,
            )
        self._stream.write(line + "\n")
        self._stream.flush()

    def progress(self, total_steps: int) -> ConsoleProgress:
        """Live on a terminal, plain lines elsewhere."""
        return build_console(self._stream, total_steps)

    def count(self, total: int) -> CountProgress:
        """Live on a terminal, plain lines elsewhere."""
        return build_count(self._stream, total)


@final
class StageTimes:
    """Seconds of each named stage, in order of first entry; `began` is the start on the monotonic
    clock, by default now."""

    def __init__(self, began: float | None = None) -> None:
        self._began = time.monotonic() if began is None else began
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the block to `name`."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    @property
    def elapsed(self) -> float:
        """Seconds since the start, including those outside any stage."""
        return time.monotonic() - self._began

    def line(self) -> str:
        """`read 0.3s · prepare 0.5s · train 2.1s · other 0.2s · total 3.1s`."""
        total = self.elapsed
        shown = dict(self.seconds)
        if (other := total - sum(shown.values())) >= _LEAST_SHOWN:
            shown["other"] = other
        shown["total"] = total
        return " · ".join(f"{name} {show_seconds(time)}" for name, time in shown.items())
