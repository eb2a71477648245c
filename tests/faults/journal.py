"""What each process itself saw of each step, on the disk before the next step: oracle O2.

One line a step: step, cursor, hash of the rows, and loss, gradient norm and learning rate as
hexadecimal numbers. A line `start` separates the processes.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.tracking.events import Event, Resumed, StepKept


class Journal:
    """An observer that writes through at every step."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._rows = ""
        self._write("start")

    def watch_the_feed(self) -> None:
        """Hash the tensors of every step that any feed of this process gives."""
        from trainwright.data.loading.feed import Feed

        give = Feed.next_step

        def hashed(feed: Feed) -> object:
            step = give(feed)
            digest = hashlib.sha256()
            for batch in step.micro_batches:
                for tensor in batch:
                    digest.update(tensor.contiguous().numpy().tobytes())
            self._rows = digest.hexdigest()[:16]
            return step

        Feed.next_step = hashed  # type: ignore[assignment,method-assign]

    def observe(self, event: Event) -> None:
        """A line for a step, and one for where the process went on."""
        if isinstance(event, StepKept):
            outcome = event.outcome
            numbers = (outcome.loss, outcome.gradient_norm, outcome.learning_rate)
            shown = " ".join(float(number).hex() for number in numbers)
            self._write(f"{event.progress.step} {event.progress.samples} {self._rows} {shown}")
        elif isinstance(event, Resumed):
            self._write(f"resumed {event.progress.step}")

    def _write(self, line: str) -> None:
        os.write(self._file, (line + "\n").encode())


@dataclass
class Attempt:
    """One process: where it went on (0 at the beginning), and its steps in their order. `trains`
    once it came so far."""

    resumed_at: int = 0
    trains: bool = False
    steps: dict[int, str] = field(default_factory=dict)


def read_journal(path: Path) -> list[Attempt]:
    """The processes in their order; a torn last line of one is left out."""
    attempts: list[Attempt] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        first, _, rest = line.partition(" ")
        if first == "start":
            attempts.append(Attempt())
        elif first == "resumed":
            if attempts[-1].trains:  # the next process of a supervised run
                attempts.append(Attempt())
            attempts[-1].resumed_at = int(rest)
            attempts[-1].trains = True
        else:
            attempts[-1].trains = True
            assert int(first) not in attempts[-1].steps, f"step {first} twice in one process"
            attempts[-1].steps[int(first)] = rest
    return attempts
