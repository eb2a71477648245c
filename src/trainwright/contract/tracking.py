"""`tracking`: where a run is recorded beside its own folder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainwright.contract.section import Count, Section


class Windows(Section):
    """What is measured once in a window of steps and written to `windows.jsonl`: rows and tokens a
    second, memory, and for each layer group the norms of weights, gradients and updates."""

    every_n_steps: Count = 50
    """Applied optimizer steps of a window. One step of each window is measured, which costs a copy
    of the trained weights and four passes over them."""


class Tracking(Section):
    """Where a run is recorded beside its own folder, which always holds everything."""

    sinks: tuple[Literal["mlflow", "tensorboard", "wandb"], ...] = Field(default=())
    """Trackers that get the signals as well."""

    windows: Literal["off"] | Windows = Windows()
    """What is measured once in a window of steps; `off` measures nothing but the signals of every
    step."""
