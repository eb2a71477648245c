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

    noise_scale: Literal["off"] | Count = "off"
    """Steps from one measurement of the gradient noise scale to the next: how many rows a step
    should have (McCandlish et al. 2018, arXiv:1812.06162). It needs two micro-batches a step; a
    measured step costs one norm of the gradient more."""


class Tracking(Section):
    """Where a run is recorded beside its own folder, which always holds everything."""

    sinks: tuple[Literal["mlflow", "tensorboard", "wandb"], ...] = Field(default=())
    """Trackers that get the signals as well."""

    windows: Literal["off"] | Windows = Windows()
    """What is measured once in a window of steps; `off` measures nothing but the signals of every
    step."""
