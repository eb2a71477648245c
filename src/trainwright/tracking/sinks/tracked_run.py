"""What a sink needs of a tracker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from trainwright.core.lazy_imports import LazyTable
from trainwright.tracking.sinks import Say
from trainwright.tracking.sinks.cursor import Cursor
from trainwright.tracking.sinks.spool import Point
from trainwright.tracking.sinks.training_facts import TrackedTraining


class TrackedRun(Protocol):
    """A training as a tracker has it. Any method may raise what the tracker's client raises;
    nothing is lost then, and the call is repeated."""

    def send(self, points: Sequence[Point], cursor: Cursor) -> None:
        """Send points, and note in `cursor`, which is that behind them, what the tracker is to be
        told of them. Points that the tracker has already taken must not appear twice."""
        ...

    def rewind(self, cursor: Cursor) -> None:
        """Points above the cursor are invalid: their steps are repeated."""
        ...

    def finish(self, cursor: Cursor) -> None:
        """Send what describes the training as a whole, and how it has ended."""
        ...


OpenRun = Callable[[TrackedTraining, Cursor, str, Say], TrackedRun]
"""Begins a training's run of a tracker, or goes on in the run that the cursor names, which it
fills; the text is the tracker's id of the run that this one is a part of."""

TRACKERS: LazyTable[OpenRun] = LazyTable(
    {
        "mlflow": "trainwright.tracking.sinks.mlflow_run:MlflowRun",
        "tensorboard": "trainwright.tracking.sinks.tensorboard_run:TensorboardRun",
        "wandb": "trainwright.tracking.sinks.wandb_run:WandbRun",
    }
)
