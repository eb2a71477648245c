"""A process that says what it took: `measured.py REPORT command ARGUMENTS` or `script NAME ...`.

Of the command each stage is measured: the peak of the resident memory is set back when a stage
begins (Linux, /proc/self/clear_refs) and read when it ends.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def peak_megabytes() -> float:
    """The most resident memory since it was set back."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


class Measured:
    """Seconds and the peak of memory of each stage."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}
        self.peak = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the block to a stage."""
        self.peak = max(self.peak, peak_megabytes())
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        started = time.monotonic()
        try:
            yield
        finally:
            found = self.stages.setdefault(name, {"seconds": 0.0, "megabytes": 0.0})
            found["seconds"] += time.monotonic() - started
            found["megabytes"] = max(found["megabytes"], peak_megabytes())
            self.peak = max(self.peak, found["megabytes"])


def run_command(words: list[str], measured: Measured) -> None:
    from trainwright.cli.main import main
    from trainwright.run.screen import StageTimes

    @contextmanager
    def stage(_: StageTimes, name: str) -> Iterator[None]:
        with measured.stage(name):
            yield

    StageTimes.__call__ = stage  # type: ignore[method-assign]
    sys.argv = ["trainwright", *words]
    main()


def run_script(words: list[str], measured: Measured) -> None:
    from scales import by_hand

    by_hand.SCRIPTS[words[0]](Path(words[1]), int(words[2]), measured.stage)


def main() -> None:
    """Run it, and write the report."""
    report, kind, *words = sys.argv[1:]
    measured = Measured()
    started = time.monotonic()
    try:
        {"command": run_command, "script": run_script}[kind](words, measured)
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        found: dict[str, Any] = {
            "seconds": time.monotonic() - started,
            "processor_seconds": used.ru_utime + used.ru_stime,
            "megabytes": max(measured.peak, peak_megabytes()),
            "stages": measured.stages,
        }
        Path(report).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
