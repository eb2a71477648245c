"""`training.stop`: stop rules besides the epochs, the budget and early stopping."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Count, Fraction, Positive, Section


class LossPlateau(Section):
    """Ends when the training loss has stopped falling: its mean over the latest steps is not lower
    than over as many steps before them."""

    steps: Annotated[int, Field(ge=2)] = 1000
    """Steps in each of the two windows that are compared."""

    min_gain: Fraction = 0.001
    """Smallest relative decrease of the mean that counts."""


class Stop(Section):
    """Stop rules, each off by default. All are evaluated after every step; the first to apply ends
    the run with a validation and a checkpoint."""

    max_steps: Literal["off"] | Count = "off"
    """Maximum number of optimizer steps."""

    max_samples: Literal["off"] | Count = "off"
    """Maximum number of training rows read, over all epochs; for a text its windows. Rows of
    dropped steps count; the step that reaches the number is the last."""

    max_tokens: Literal["off"] | Count = "off"
    """Maximum number of predicted tokens, over all epochs; only for texts. Tokens of dropped steps
    count; the step that reaches the number is the last."""

    schedule_spans: Literal["epochs", "limits"] | Count = "epochs"
    """Span of the learning-rate schedule. `epochs`: all of them, so that a run cut short is the
    beginning of the whole one. `limits`: what `max_steps`, `max_samples` and `max_tokens` leave of
    them, so that the rate has fallen when they are reached. A number: this many optimizer steps,
    after which the rate stays constant; `resume --for` writes one."""

    target_reached: Literal["off"] | float = "off"
    """Value on the validation rows at which the run stops: of `early_stopping.metric`, or of the
    contract's metric if early stopping is off."""

    gradient_norm_below: Literal["off"] | Positive = "off"
    """Gradient norm below which, for 10 steps in a row, training counts as converged."""

    loss_plateau: Literal["off"] | LossPlateau = "off"
    """Ends when the training loss has stopped falling."""
