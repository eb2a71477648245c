"""`training.scheduler` and `training.average`: the learning rate by step, and weight averages.

In the formulas t is the step from 0, T the total number of steps, W the steps of the warmup, f the
floor `min_lr_ratio`. In a warmup the factor on the peak is (t + 1) / W, so that no step has rate 0;
after it s = (t - W) / (T - 1 - W) goes from 0 to 1 at the last step.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from trainwright.contract.sections.section import (
    Auto,
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


class Ema(Section):
    """Exponential moving average of the weights over the applied steps: m <- d m + (1 - d) w, from
    the first weights on (Polyak and Juditsky 1992; Tarvainen and Valpola 2017, arXiv:1703.01780,
    equation 2). Validations, the best checkpoint and the bundle have m; w is trained."""

    kind: Literal["ema"]

    decay: Auto | Annotated[float, Field(gt=0, lt=1)] = "auto"
    """d: the average spans about 1 / (1 - d) steps. `auto`: a tenth of the run's steps, at most
    1,000 (d = 0.999). After n steps the first weights still have weight d^n in the average: most of
    it if d is too close to 1 for the run."""


class ConstantRate(Section):
    """Constant learning rate during the averaging, which keeps the weights exploring around their
    optimum (Izmailov et al. 2018, arXiv:1803.05407, section 3.2)."""

    kind: Literal["constant"] = "constant"

    ratio: Positive = 0.2
    """The rate, as a share of the peak."""

    anneal_ratio: Fraction = 0.05
    """Share of all optimizer steps over which the rate moves there from the schedule's, in half a
    cosine."""


class CyclicRate(Section):
    """In each cycle the learning rate falls in a straight line, and its last weights are taken
    (Izmailov et al. 2018, arXiv:1803.05407, section 3.1): rate i of c is (1 - i / c) high +
    i / c low. A cycle is what `every_n_steps` says."""

    kind: Literal["cyclic"]

    high_ratio: Positive = 0.5
    """Rate at the start of a cycle, as a share of the peak."""

    low_ratio: Positive = 0.01
    """Rate of its last step, as a share of the peak."""


SwaRate = Annotated[
    Annotated[ConstantRate, Tag("constant")] | Annotated[CyclicRate, Tag("cyclic")],
    tagged_by("kind", default="constant"),
]


class Swa(Section):
    """Stochastic weight averaging: the equal mean of the weights at several steps late in the run,
    m <- (n m + w) / (n + 1) (Izmailov et al. 2018, arXiv:1803.05407, algorithm 1). Once the first
    weights are taken, validations, the best checkpoint and the bundle have m; before that, w.
    Running statistics of norms are those of no weights that were trained: they are computed anew
    for m, over training rows."""

    kind: Literal["swa"]

    start_ratio: Fraction = 0.75
    """Share of all optimizer steps before the averaging."""

    start_epoch: Annotated[int, Field(ge=0)] = 0
    """Epochs before the averaging, in place of `start_ratio`."""

    every_n_steps: Literal["epoch"] | Count = "epoch"
    """Optimizer steps between averaged weights; `epoch`: at the end of each."""

    learning_rate: Literal["schedule"] | SwaRate = ConstantRate()
    """Learning rate during the averaging. `schedule`: unchanged; the averaged weights then hardly
    move any more, if the rate has fallen."""

    batch_norm_rows: Count = 10_000
    """Training rows for recomputing BatchNorm statistics, each time that m has changed and is
    evaluated. Without batch norm nothing is computed."""


Average = (
    Literal["off"]
    | Annotated[
        Annotated[Ema, Tag("ema")] | Annotated[Swa, Tag("swa")],
        tagged_by("kind", default="missing"),
    ]
)
