"""`tracking`: where a run is recorded besides its own folder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, Section


class WindowsSection(Section):
    """Telemetry per window of steps, written to `windows.jsonl`: rows and tokens per second,
    memory, FLOP utilisation, and for each layer group the norms of weights, gradients and updates
    and the share of dead units. These numbers and the loss history are checked for problems, which
    are reported as events."""

    every_n_steps: Auto | Count = "auto"
    """Applied optimizer steps of a window. One step of each window is measured, which costs a copy
    of the trained weights and four passes over them. `auto`: 200 for networks on tables, whose
    steps are short, else 50."""

    noise_scale: Literal["off"] | Count = "off"
    """Steps from one measurement of the gradient noise scale to the next: how many rows a step
    should have (McCandlish et al. 2018, arXiv:1812.06162). It needs two micro-batches a step; a
    measured step costs one norm of the gradient more."""


class Inspect(Section):
    """Network inspection, in one step of every `every_n_windows` windows, written to
    `windows.jsonl` with the rest. Hooks are installed for that step only."""

    every_n_windows: Count = 10
    """Windows from one inspected step to the next."""

    which: tuple[Literal["activations", "silent_units", "gradient_sizes", "attention"], ...] = (
        "activations",
        "silent_units",
        "gradient_sizes",
        "attention",
    )
    """`activations`: mean, standard deviation, zeros and non-finite numbers of each module's
    outputs. `silent_units`: units of ReLU, GELU and similar that are inactive for every row.
    `gradient_sizes`: a histogram over powers of ten. `attention`: the entropy of attention and its
    largest logit, in a gpt; other models have none."""


class Tracking(Section):
    """Where a run is recorded besides its own folder, which always has everything."""

    sinks: tuple[Literal["mlflow", "tensorboard", "wandb"], ...] = Field(default=())
    """Trackers that receive the signals as well."""

    windows: Literal["off"] | WindowsSection = WindowsSection()
    """Telemetry per window of steps; `off` records only the signals of every step."""

    inspect: Literal["off"] | Inspect = "off"
    """Periodic inspection of the network."""
