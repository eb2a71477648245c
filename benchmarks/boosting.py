"""The cost of training trees through us over that of calling LightGBM by hand.

Both grow the same trees from the same prepared matrix of the census example, with the same early
stopping, in turns; what is measured is the processor time of the process. Reading, preparing and
judging come on top; `trainwright train` shows them as parts.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lightgbm
import numpy as np

from page import goal
from trainwright.core.progress import StopFlag
from trainwright.model.boosting.lightgbm_dataset import BoostingRows, matrix_of
from trainwright.model.boosting.lightgbm_fit import BoostingJob, boosting_parameters
from trainwright.run.learners.learner import build_learner
from trainwright.run.library_fit import job_of
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder

CONTRACT = Path(__file__).resolve().parents[1] / "examples" / "income" / "contract.yaml"
GOAL = 1.1


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, ours and by hand, taken in turns."""
    screen = StreamScreen(io.StringIO())
    ready = make_ready(Request(CONTRACT), StageTimes(), screen)
    seconds: dict[str, list[float]] = {"ours": [], "by_hand": []}
    for number in range(rounds + 1):
        # A new folder each time: a learner goes on from the trees that it finds.
        with tempfile.TemporaryDirectory() as folder:
            run = RunContext(RunFolder(Path(folder)), (), screen, StopFlag())
            ways: dict[str, Callable[[], object]] = {
                "ours": lambda run=run: build_learner(ready.plan).fit(ready.prepared, run),
                "by_hand": lambda: by_hand(ready),
            }
            for name, way in ways.items():
                started = time.process_time()
                way()
                if number:  # the first round warms up
                    seconds[name].append(time.process_time() - started)
    return seconds


def by_hand(ready: Ready, threads: int = 0) -> lightgbm.Booster:
    """What a person writes who knows LightGBM. `threads` 0 are as many as ours get."""
    prepared, model = ready.prepared, ready.plan.contract.model
    train = BoostingRows(prepared.train.inputs, prepared.train.target)
    held = BoostingRows(prepared.validation.inputs, prepared.validation.target)
    metric = ready.plan.contract.metric.name
    threads = threads or job_of(ready.plan.contract, prepared).threads
    job = BoostingJob(model, train, held, 2, seed=0, watch=metric, threads=threads)
    parameters = boosting_parameters(job)
    numbers = train.inputs.numeric.shape[1]
    columns = list(range(numbers, numbers + train.inputs.categories.shape[1]))
    rows = lightgbm.Dataset(matrix_of(train.inputs), train.target, categorical_feature=columns)
    watched = lightgbm.Dataset(matrix_of(held.inputs), held.target, reference=rows)
    return lightgbm.train(
        parameters,
        rows,
        model.max_trees,
        valid_sets=[watched],
        callbacks=[lightgbm.early_stopping(model.early_stopping_rounds, verbose=False)],
    )


def main() -> None:
    """Measure, and print the ratio of the medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = measure(options.rounds)
    ratios = np.divide(seconds["ours"], seconds["by_hand"])
    if options.json:
        sys.stdout.write(json.dumps({"ratios": {"lightgbm": float(np.median(ratios))}}) + "\n")
        return
    for name, values in seconds.items():
        print(f"{name:8} median {statistics.median(values):.3f} s, least {min(values):.3f} s")
    median = float(np.median(ratios))
    print(f"ratio    median {median:.3f}, goal {goal(f'at most {GOAL}', median <= GOAL)}")


if __name__ == "__main__":
    main()
