"""The processes of sinks: started with a training, ended after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, final

from trainwright.contract.sections.run_settings import SinkKind, Tracking
from trainwright.core.lazy_imports import need_package
from trainwright.tracking.lock import RunLock
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.sinks import Say
from trainwright.tracking.sinks.cursor import cursor_path
from trainwright.tracking.sinks.sender import describe_missing
from trainwright.tracking.sinks.training_facts import TrackedTraining

_WARNING = "warning"
_PATIENCE_SECONDS = 2.0
"""How much longer than its own limit a sink may take until it is ended."""


def need_sinks(kinds: Sequence[SinkKind]) -> None:
    """Refuse sinks whose packages are not installed.

    Raises:
        MissingExtra: one is not.
    """
    for kind in kinds:
        need_package(kind, kind, "tracking.sinks", f"the sink {kind}")


def lock_sink(run: RunFolder, kind: str) -> RunLock:
    """Take the cursors of a sink of a run for this process.

    Raises:
        RunLocked: another process sends this run. StorageFailed: the lock cannot be written.
    """
    path = cursor_path(run.path, kind)
    path.parent.mkdir(exist_ok=True)
    return RunLock.acquire(path.with_suffix(".lock"))


@final
@dataclass(frozen=True, slots=True)
class SinkProcess:
    """A process that sends the run to one tracker; a thread passes on what it says."""

    kind: str
    process: subprocess.Popen[bytes]
    reader: threading.Thread
    warned: threading.Event
    """Set once it has said a warning."""

    @classmethod
    def start(cls, run: RunFolder, kind: str, say: Say) -> Self:
        """Start it afresh: a fork of a process that has used torch may hang.

        Raises:
            OSError: it cannot be started.
        """
        process = subprocess.Popen(  # noqa: S603  our own program, no shell
            [sys.executable, "-P", "-m", "trainwright.tracking.sinks", str(run.path), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

        warned = threading.Event()

        def pass_on() -> None:
            assert process.stdout is not None, "it is a pipe"
            with process.stdout as lines:
                for line in lines:
                    label, _, text = line.decode(errors="replace").rstrip("\n").partition("\t")
                    if label == _WARNING:
                        warned.set()
                    say(label, text)
            process.wait()

        reader = threading.Thread(target=pass_on, name=f"sink {kind}", daemon=True)
        reader.start()
        return cls(kind, process, reader, warned)

    def close(self) -> None:
        """Let it drain and end by itself."""
        assert self.process.stdin is not None, "it is a pipe"
        self.process.stdin.close()


@final
@dataclass(slots=True)
class Sinks:
    """The sinks of a run. The training never waits for them; its end does, for a bounded time."""

    run: RunFolder
    drain_seconds: float
    say: Say
    processes: Sequence[SinkProcess] = field(default=())

    @classmethod
    def start(cls, run: RunFolder, tracking: Tracking, say: Say) -> Self:
        """Start a process for each sink; one that cannot be started is said."""
        processes = []
        for kind in tracking.sinks:
            try:
                processes.append(SinkProcess.start(run, kind, say))
            except OSError as error:
                say(_WARNING, f"{kind} is not sent to: {error.strerror or error}")
        return cls(run, tracking.drain_seconds, say, processes)

    def leave(self) -> None:
        """Let all of them drain by themselves, without waiting."""
        for sink in self.processes:
            sink.close()
        self.processes = ()

    def finish(self) -> None:
        """Wait until all is sent, for at most `drain_seconds`, and say what is missing."""
        processes = self.processes
        self.leave()
        deadline = time.monotonic() + self.drain_seconds + _PATIENCE_SECONDS
        for sink in processes:
            sink.reader.join(max(0.0, deadline - time.monotonic()))
            if sink.reader.is_alive():
                # With what its client has started.
                os.killpg(sink.process.pid, signal.SIGKILL)
                sink.reader.join()
        for sink in processes:
            if missing := describe_missing(TrackedTraining(self.run), sink.kind):
                how = f"trainwright runs sync {self.run.path} sends them"
                label = "unsent" if sink.warned.is_set() else _WARNING
                self.say(label, f"{sink.kind} lacks {missing}: {how}")
