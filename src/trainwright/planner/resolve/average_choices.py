"""Weight average for `auto`."""

from __future__ import annotations

from trainwright.contract.sections.training.averaging import Average, Ema
from trainwright.contract.sections.training.training import Training
from trainwright.planner.resolve.choice import Choosing

_MOST_STEPS, _FEWEST_STEPS = 1000, 2
_SHARE = 10


def choose_average(training: Training, steps: int, choosing: Choosing) -> Average:
    """`training.average` for a run of at most `steps` optimizer steps."""
    average = training.average
    if not isinstance(average, Ema):
        return average
    back = min(_MOST_STEPS, max(_FEWEST_STEPS, steps // _SHARE))
    over = f"{back:,} of {steps:,} steps" if back < steps else "all steps"
    reason = f"the mean looks back over {over}"
    chosen = {"decay": (round(1 - 1 / back, 6), reason)}
    return choosing.take(average, "training.average", chosen)
