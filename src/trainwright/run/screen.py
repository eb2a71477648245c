"""How long each part of a run took, and what is said while it goes on."""

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


class Screen(Protocol):
    """Where a run says what it does. Results go elsewhere."""

    def say(self, line: str) -> None:
        """Write a line that stays."""
        ...

    def progress(self, total_steps: int) -> ConsoleProgress:
        """An observer that shows how far the training is; of 0 steps the length is unknown."""
        ...

    def count(self, total: int) -> CountProgress:
        """Shows how many of at most `total` parts are made, for models outside the loop."""
        ...


@final
class StreamScreen:
    """Lines and a live bar on a stream, which is stderr for commands."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        """Write a line, on a terminal broken at its width."""
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
    """The seconds of each named part, in the order they were first entered; `began` is when, on the
    monotonic clock, if not now."""

    def __init__(self, began: float | None = None) -> None:
        self._began = time.monotonic() if began is None else began
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count the time of the block to `name`."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    @property
    def elapsed(self) -> float:
        """The seconds since the beginning, those of no part too."""
        return time.monotonic() - self._began

    def line(self) -> str:
        """`read 0.3s · prepare 0.5s · train 2.1s`."""
        return " · ".join(f"{name} {show_seconds(time)}" for name, time in self.seconds.items())
