"""Does something every few seconds, beside what the process is at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainwright.core.errors import StorageFailed

BEAT_SECONDS = 10.0
"""The most that is between two beats."""

_FIRST_SECONDS = 1.0


@contextmanager
def beating(beat: Callable[[], None], most_seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Inside the block `beat` is called in a thread: after a second, then whenever its time has
    doubled, at least every `most_seconds`. A beat that the disk refuses does not happen."""
    ended = threading.Event()

    def run() -> None:
        passed = pause = min(_FIRST_SECONDS, most_seconds)
        while not ended.wait(pause):
            pause = min(passed, most_seconds)
            passed += pause
            try:
                beat()
            except StorageFailed:
                continue  # the run says so itself when it has to write there

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
