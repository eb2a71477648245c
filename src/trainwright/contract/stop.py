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
    """Optimizer steps that are made at most."""

    max_samples: Literal["off"] | Count = "off"
    """Training rows that are read at most, over all epochs; of a text windows. Rows of dropped
    steps count; the step that reaches the number is the last."""

    max_tokens: Literal["off"] | Count = "off"
    """Tokens that are predicted at most, over all epochs; only for texts. Tokens of dropped steps
    count; the step that reaches the number is the last."""

    schedule_spans: Literal["epochs", "limits"] | Count = "epochs"
    """What the learning-rate schedule is drawn over. `epochs`: all of them, so that a run cut short
    is the beginning of the whole one. `limits`: what `max_steps`, `max_samples` and `max_tokens`
    leave of them, so that the rate has fallen when they are reached. A number: so many optimizer
    steps, after which the rate stays where it is; `resume --for` writes one."""

    target_reached: Literal["off"] | float = "off"
    """Value on the validation rows at which the run is good enough: of `early_stopping.metric`, and
    with early stopping off of the contract's metric."""

    gradient_norm_below: Literal["off"] | Positive = "off"
    """Gradient norm below which, 10 steps in a row, the weights are taken to have arrived."""

    loss_plateau: Literal["off"] | LossPlateau = "off"
    """Ends when the training loss does not fall any more."""
