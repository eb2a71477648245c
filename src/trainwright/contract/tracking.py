"""`tracking`: where a run is recorded beside its own folder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainwright.contract.section import Auto, Count, Section


class WindowsSection(Section):
    """What is measured once in a window of steps and written to `windows.jsonl`: rows and tokens a
    second, memory, FLOP utilisation, and for each layer group the norms of weights, gradients and
    updates and the share of dead units. Trouble is looked for in these numbers and in the course of
    the loss, and named in the events."""

    every_n_steps: Auto | Count = "auto"
    """Applied optimizer steps of a window. One step of each window is measured, which costs a copy
    of the trained weights and four passes over them. `auto`: 200 for networks on tables, whose
    steps are short, else 50."""

    noise_scale: Literal["off"] | Count = "off"
    """Steps from one measurement of the gradient noise scale to the next: how many rows a step
    should have (McCandlish et al. 2018, arXiv:1812.06162). It needs two micro-batches a step; a
    measured step costs one norm of the gradient more."""


class Inspect(Section):
    """What is looked at inside a network, in one step of every so many windows, and written to
    `windows.jsonl` with the rest. Hooks are in place for that step only."""

    every_n_windows: Count = 10
    """Windows from one inspected step to the next."""

    which: tuple[Literal["activations", "silent_units", "gradient_sizes", "attention"], ...] = (
        "activations",
        "silent_units",
        "gradient_sizes",
        "attention",
    )
    """`activations`: mean, deviation, zeros and numbers that are not finite of what each module
    puts out. `silent_units`: units of ReLU, GELU and their kin that no row wakes. `gradient_sizes`:
    a histogram over powers of ten. `attention`: the entropy of attention and its largest logit, in
    a gpt; other models have none."""


class Tracking(Section):
    """Where a run is recorded beside its own folder, which always holds everything."""

    sinks: tuple[Literal["mlflow", "tensorboard", "wandb"], ...] = Field(default=())
    """Trackers that get the signals as well."""

    windows: Literal["off"] | WindowsSection = WindowsSection()
    """What is measured once in a window of steps; `off` measures nothing but the signals of every
    step."""

    inspect: Literal["off"] | Inspect = "off"
    """What is looked at inside the network now and then."""
