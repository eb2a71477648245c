"""Seconds that the trees of the income example take: with the threads that are chosen, and one.

Prints both as JSON. A process of its own, so that its environment is that of the command.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.update({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "20000"})

from boosting import CONTRACT, by_hand
from trainwright.core.progress import StopFlag
from trainwright.run.learners.learner import build_learner
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder


def main() -> None:
    """Grow the trees twice."""
    screen = StreamScreen(io.StringIO())
    ready = make_ready(Request(CONTRACT), StageTimes(), screen)
    with tempfile.TemporaryDirectory() as folder:
        run = RunContext(RunFolder(Path(folder)), (), screen, StopFlag())
        learner = build_learner(ready.plan)
        started = time.perf_counter()
        learner.fit(ready.prepared, run)
        chosen = time.perf_counter() - started
    started = time.perf_counter()
    by_hand(ready, threads=1)
    one = time.perf_counter() - started
    print(json.dumps({"chosen": chosen, "one": one}))


if __name__ == "__main__":
    main()
