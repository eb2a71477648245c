"""`training.scheduler`: the learning rate as a function of the applied optimizer steps.

In the formulas t is the step from 0, T the total number of steps, W the steps of the warmup, f the
floor `min_lr_ratio`. In a warmup the factor on the peak is (t + 1) / W, so that no step has rate 0;
after it s = (t - W) / (T - 1 - W) goes from 0 to 1 at the last step.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from trainwright.contract.sections.section import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    Section,
    tagged_by,
)

Share = Annotated[float, Field(ge=0, le=1)]
Inner = Annotated[float, Field(gt=0, lt=1)]


class _Warmed(Section):
    warmup_ratio: Fraction = 0.0
    """Share of all optimizer steps used for warmup."""

    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps of warmup, in place of `warmup_ratio`."""


class Constant(_Warmed):
    """Constant learning rate at its peak, after an optional warmup."""

    name: Literal["constant"]


class LinearDecay(_Warmed):
    """Linear decay to the floor: f + (1 - f)(1 - s)."""

    name: Literal["linear"]

    min_lr_ratio: Share = 0.0
    """The floor at the last step, as a share of the peak."""


class CosineDecay(_Warmed):
    """Cosine decay to the floor, with warm restarts (Loshchilov and Hutter 2017, arXiv:1608.03983,
    equation 5): f + (1 - f)(1 + cos(pi s)) / 2, with s over one cycle."""

    name: Literal["cosine"]

    cycles: Count = 1
    """Number of cycles; 1 never restarts."""

    cycle_growth: Annotated[float, Field(ge=1)] = 1.0
    """Length of a cycle relative to the previous one (T_mult in the paper)."""

    min_lr_ratio: Share = 0.01
    """The floor at the end of each cycle, as a share of the peak."""


class CosineWithWarmup(_Warmed):
    """Linear warmup to the peak, then a half cosine to the floor."""

    name: Literal["cosine_with_warmup"] = "cosine_with_warmup"

    warmup_ratio: Fraction = 0.05
    """Share of all optimizer steps used for warmup."""

    min_lr_ratio: Share = 0.01
    """The floor at the last step, as a share of the peak."""


class StepDecay(_Warmed):
    """Step decay by a factor at each milestone: max(f, factor ^ milestones passed)."""

    name: Literal["step"]

    milestones: Annotated[tuple[Inner, ...], Field(min_length=1)] = (0.5, 0.75)
    """Shares of all steps after which the rate falls, in increasing order."""

    factor: Inner = 0.1
    """Rate after a milestone relative to that before it."""

    min_lr_ratio: Share = 0.0
    """The rate never falls below this share of the peak."""


class PolynomialDecay(_Warmed):
    """f + (1 - f)(1 - s) ^ power."""

    name: Literal["polynomial"]

    power: Positive = 2.0
    """1 is linear; higher values fall faster at first."""

    min_lr_ratio: Share = 0.0
    """The floor at the last step, as a share of the peak."""


class InverseSqrt(_Warmed):
    """max(f, sqrt(W / (t + 1))) after the warmup (Vaswani et al. 2017, arXiv:1706.03762, equation
    3). Independent of the run's length, so a run can be extended."""

    name: Literal["inverse_sqrt"]

    warmup_ratio: Fraction = 0.05
    """Share of all optimizer steps used for warmup."""

    min_lr_ratio: Share = 0.0
    """The rate never falls below this share of the peak."""


class OneCycle(Section):
    """One cycle of half cosines: from `start_ratio` to the peak, then to the floor (Smith and Topin
    2018, arXiv:1708.07120; torch's OneCycleLR with two phases). Momentum is unchanged."""

    name: Literal["one_cycle"]

    warmup_ratio: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of all optimizer steps on the way up."""

    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps on the way up, in place of `warmup_ratio`."""

    start_ratio: Annotated[float, Field(gt=0, le=1)] = 0.04
    """Rate of the first step, as a share of the peak."""

    min_lr_ratio: Share = 4e-6
    """The floor at the last step, as a share of the peak."""


class WarmupStableDecay(_Warmed):
    """Peak for most of the run, then decay to the floor (Hu et al. 2024, arXiv:2404.06395, section
    4): f + (1 - f)(1 - c), c going from 0 to 1 over the decay. `train --from` begins
    the decay at any checkpoint of a run."""

    name: Literal["warmup_stable_decay"]

    warmup_ratio: Fraction = 0.05
    """Share of all optimizer steps used for warmup."""

    decay_ratio: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of all optimizer steps that decay."""

    decay_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps that decay, in place of `decay_ratio`."""

    shape: Literal["one_minus_sqrt", "linear", "cosine"] = "one_minus_sqrt"
    """c for the share s of the decay: sqrt(s) (Haegele et al. 2024, arXiv:2405.18392), s, or
    (1 - cos(pi s)) / 2."""

    min_lr_ratio: Share = 0.0
    """The floor at the last step, as a share of the peak."""


class ReduceOnPlateau(_Warmed):
    """Reduces the rate by a factor whenever the validation loss has stopped falling. The only
    stateful schedule; its state is in the checkpoints."""

    name: Literal["reduce_on_plateau"]

    factor: Inner = 0.1
    """Rate after a reduction relative to that before."""

    patience: Count = 2
    """Validations without a lower loss after which the rate is reduced."""

    cooldown: Annotated[int, Field(ge=0)] = 0
    """Validations after a reduction that are ignored."""

    min_delta: NonNegative = 0.0
    """Smallest improvement that counts."""

    min_lr_ratio: Share = 0.0001
    """The rate never falls below this share of the peak."""


AnyScheduler: TypeAlias = (
    Constant
    | LinearDecay
    | CosineDecay
    | CosineWithWarmup
    | StepDecay
    | PolynomialDecay
    | InverseSqrt
    | OneCycle
    | WarmupStableDecay
    | ReduceOnPlateau
)

Scheduler = Annotated[
    Annotated[Constant, Tag("constant")]
    | Annotated[LinearDecay, Tag("linear")]
    | Annotated[CosineDecay, Tag("cosine")]
    | Annotated[CosineWithWarmup, Tag("cosine_with_warmup")]
    | Annotated[StepDecay, Tag("step")]
    | Annotated[PolynomialDecay, Tag("polynomial")]
    | Annotated[InverseSqrt, Tag("inverse_sqrt")]
    | Annotated[OneCycle, Tag("one_cycle")]
    | Annotated[WarmupStableDecay, Tag("warmup_stable_decay")]
    | Annotated[ReduceOnPlateau, Tag("reduce_on_plateau")],
    tagged_by("name", default="cosine_with_warmup"),
]

Warmed: TypeAlias = _Warmed | OneCycle
"""Schedules whose warmup is given in steps or as a share."""
