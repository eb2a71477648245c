"""The command on several ranks, with a deadline at which all of them say where they are."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from command import PROCESS
from deadlines import within
from trainwright.tracking.event_log import read_events

ONE_THREAD = ("--set", "compute.threads=1")


def on_ranks(strategy: str, number: int, *settings: str) -> tuple[str, ...]:
    """The words for a training on so many ranks of one thread, with these settings."""
    written = (f"distributed.strategy={strategy}", f"distributed.num_gpus={number}", *settings)
    return (*ONE_THREAD, *(word for setting in written for word in ("--set", setting)))


def run_ranks(
    *words: str, fault: str = "", seconds: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run the command with these words.

    Raises:
        AssertionError: it took longer than `seconds` on a quiet machine; with the stacks of all its
            processes.
    """
    command = [*PROCESS, *words]
    environment = {**os.environ, "TRAINWRIGHT_FAULT": fault, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            out, err = running.communicate(timeout=within(seconds))
        except subprocess.TimeoutExpired:
            for process in reversed(_descendants(running.pid)):
                os.kill(process, signal.SIGABRT)
                time.sleep(0.2)  # each writes its stacks to the end
            _, err = running.communicate()
            logs = [f"{log}:\n{log.read_text()}" for log in Path("runs").glob("*/ranks/*.log")]
            raise AssertionError("\n".join(["out of time", *logs, err])) from None
    return subprocess.CompletedProcess(command, running.returncode, out, err)


def _descendants(process: int) -> list[int]:
    """A process and all that it has started, parents first."""
    children = Path(f"/proc/{process}/task/{process}/children")
    below = map(int, children.read_text().split()) if children.is_file() else ()
    return [process, *(one for child in below for one in _descendants(child))]


def weights(run: str) -> bytes:
    """The trained weights of a run."""
    files = sorted(Path("runs", run, "bundle").glob("*.safetensors"))
    return b"".join(file.read_bytes() for file in files)


def validations(run: str) -> list[dict[str, float]]:
    """The values of each validation of a run."""
    events = read_events(Path("runs", run, "events.jsonl"))
    return [event["values"] for event in events if event["event"] == "validated"]
