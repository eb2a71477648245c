"""The process of a sink: `python -m trainwright.tracking.sinks RUN KIND`.

It ends when its standard input does, which the training's process holds open, and then drains what
is left. What it has to say to the user is a line each on its standard output.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import sys
import time
from pathlib import Path

from trainwright.core.errors import RunLocked
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.sinks.sender import send_run
from trainwright.tracking.sinks.sink_process import lock_sink
from trainwright.tracking.sinks.training_facts import TrackedTraining

_LOCK_PAUSE = 0.2
_OUTPUT = 3


def _say(label: str, text: str) -> None:
    with contextlib.suppress(OSError):  # the training's process may be gone
        os.write(_OUTPUT, f"{label}\t{' '.join(text.split())}\n".encode())


def _has_ended(seconds: float) -> bool:
    """Wait for the end of the standard input."""
    readable, _, _ = select.select([0], [], [], seconds)
    return bool(readable) and not os.read(0, 1)


def main() -> int:
    """Send the run; 0 if everything was sent."""
    # What clients print is not for the user.
    os.dup2(1, _OUTPUT)
    os.dup2(2, 1)
    # The training comes first, also where it uses every core.
    os.nice(19)
    run, kind = RunFolder(Path(sys.argv[1])), sys.argv[2]
    training = TrackedTraining(run)
    seconds = float(training.settings["drain_seconds"])
    deadline = math.inf
    while time.monotonic() < deadline:
        try:
            with lock_sink(run, kind):
                return 0 if send_run(training, kind, _say, _has_ended, seconds) else 1
        except RunLocked:
            # The sink of an earlier attempt still drains, maybe for longer than this one trains.
            if _has_ended(_LOCK_PAUSE):
                deadline = min(deadline, time.monotonic() + seconds)
            time.sleep(_LOCK_PAUSE)
    return 1


if __name__ == "__main__":
    sys.exit(main())
