"""`training.stop`: reasons to end beside the epochs, the budget and early stopping."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.section import Count, Fraction, Positive, Section


class LossPlateau(Section):
    """Ends when the training loss does not fall any more: the mean of the newest steps is not lower
    than that of as many steps before them."""

    steps: Annotated[int, Field(ge=2)] = 1000
    """Steps in each of the two stretches that are compared."""

    min_gain: Fraction = 0.001
    """Fall of the mean, as a share of it, that counts as one."""


class Stop(Section):
    """Reasons to end, each off by default. All are asked after every step; the first to hold ends
    the run with a validation and a checkpoint."""

    max_steps: Literal["off"] | Count = "off"
    """Optimizer steps that are made at most; the schedule still spans all epochs."""

    target_reached: Literal["off"] | float = "off"
    """Value of the watched metric (`early_stopping.metric`) at which the run is good enough."""

    gradient_norm_below: Literal["off"] | Positive = "off"
    """Gradient norm below which, 10 steps in a row, the weights are taken to have arrived."""

    loss_plateau: Literal["off"] | LossPlateau = "off"
    """Ends when the training loss does not fall any more."""
