"""The process of a sink: `python -m trainwright.tracking.sinks RUN KIND`.

It ends when its standard input does, which the training's process holds open, and then drains what
is left. What it has to say to the user is a line each on its standard output.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from trainwright.core.errors import RunLocked
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.sinks.sender import send_run
from trainwright.tracking.sinks.sink_process import lock_sink
from trainwright.tracking.sinks.training_facts import Training

_LOCK_PAUSE = 0.2


def _say(line: str) -> None:
    try:
        sys.stdout.write(line.replace("\n", " ") + "\n")
        sys.stdout.flush()
    except OSError:
        # The training's process is gone; the run folder has everything.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _has_ended(seconds: float) -> bool:
    """Wait for the end of the standard input."""
    readable, _, _ = select.select([0], [], [], seconds)
    return bool(readable) and not os.read(0, 1)


def main() -> int:
    """Send the run; 0 if everything was sent."""
    # The training comes first, also where it uses every core.
    os.nice(19)
    run, kind = RunFolder(Path(sys.argv[1])), sys.argv[2]
    seconds = float(Training(run).settings["drain_seconds"])
    while True:
        try:
            with lock_sink(run, kind):
                return 0 if send_run(run, kind, _say, _has_ended, seconds) else 1
        except RunLocked:
            # The sink of an earlier attempt still drains.
            if _has_ended(_LOCK_PAUSE):
                return 1
            time.sleep(_LOCK_PAUSE)


if __name__ == "__main__":
    sys.exit(main())
