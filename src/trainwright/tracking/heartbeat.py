"""Heartbeat: periodic calls from a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainwright.core.errors import StorageFailed

BEAT_SECONDS = 10.0
"""Longest time between two beats."""

_FIRST_SECONDS = 1.0


@contextmanager
def beating(beat: Callable[[], None], most_seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Inside the block `beat` is called in a thread: after one second, then whenever the elapsed
    time has doubled, at least every `most_seconds`. Disk errors of a beat are ignored."""
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
