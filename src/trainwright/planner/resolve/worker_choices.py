"""Number of loader processes: by a rule if one applies, else by a measurement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final

from trainwright.contract.document import Contract
from trainwright.core.files import Json
from trainwright.core.formatting import show_seconds
from trainwright.planner.read_device import DeviceFacts
from trainwright.planner.resolve.choice import Choice, Chosen

WORKERS = "data.num_workers"

MARGIN = 1.05
"""How many times as fast as without workers a run must be with them, so that no noise decides."""

_LEAST_SHARE, _LEAST_SECONDS = 0.05, 30.0


def workers_by_rule(contract: Contract, device: DeviceFacts) -> Chosen:
    """The choice if no measurement is needed; empty if one is."""
    reason = ""
    if not contract.model.is_loop_trained:
        reason = "the model is fitted on all rows at once"
    elif not contract.data.is_augmented:
        reason = "rows in memory are gathered, not made"
    elif device.kind == "cuda":
        reason = "images are changed on the GPU"
    elif device.cores < 2:
        reason = "there is one core"
    return {"num_workers": (0, reason)} if reason else {}


@final
@dataclass(frozen=True, slots=True)
class Making:
    """Seconds for loading a micro-batch, for the step that follows, and for loading all rows of the
    run."""

    batch_seconds: float
    step_seconds: float
    run_seconds: float

    @property
    def share(self) -> float:
        """Share of loading in both."""
        return self.batch_seconds / (self.batch_seconds + self.step_seconds)


class WorkerTrial(Protocol):
    """Measurements of loader processes on this machine."""

    def making(self) -> Making:
        """Loading time without workers."""
        ...

    def rows_per_second(self, counts: Sequence[int]) -> Mapping[int, float]:
        """Rows trained per second of wall time, with each number of workers; 0 is without."""
        ...


def choose_workers(
    trial: WorkerTrial, device: DeviceFacts, budget_seconds: float = math.inf
) -> Choice:
    """The fastest number, if the gain is worth additional processes; a budget ends the run before
    all its batches are loaded."""
    making = trial.making()
    making = replace(making, run_seconds=min(making.run_seconds, making.share * budget_seconds))
    share = f"making a batch takes {making.share:.1%} of a step"
    numbers: dict[str, Json] = {"share": making.share, "seconds_of_the_run": making.run_seconds}
    if making.share < _LEAST_SHARE:
        return Choice(WORKERS, 0, f"{share}: nothing to gain", numbers)
    if making.run_seconds < _LEAST_SECONDS:
        seconds = show_seconds(making.run_seconds)
        return Choice(WORKERS, 0, f"making all batches of the run takes {seconds}", numbers)
    rates = trial.rows_per_second((0, *_candidates(device.cores)))
    numbers["rows_per_second"] = {str(count): rate for count, rate in rates.items()}
    best = max(rates, key=lambda count: rates[count])
    gain = rates[best] / rates[0]
    if gain < MARGIN:
        why = f"no number of workers is {MARGIN:g} times as fast on {device.cores} cores"
        return Choice(WORKERS, 0, f"{share}, and {why}", numbers)
    return Choice(WORKERS, best, f"{share}; the training is {gain:.2f} times as fast", numbers)


def _candidates(cores: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, up to the number of cores."""
    return tuple(2**power for power in range(cores.bit_length()) if 2**power <= cores)
