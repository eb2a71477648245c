"""`training.optimizer`, `training.gradient_clipping` and `training.ramps`: how a step changes
the weights.

In the formulas w is a weight, g its gradient, t the step from 1, lr the learning rate of the step
(peak x schedule), d the weight decay, b1 and b2 the betas; sums and quotients are elementwise.
"""

from __future__ import annotations

from collections.abc import Mapping
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

Beta = Annotated[float, Field(ge=0, lt=1)]
PositiveBeta = Annotated[float, Field(gt=0, lt=1)]
Part = Annotated[float, Field(gt=0, le=1)]


class _Tuned(Section):
    learning_rate: Auto | Positive = "auto"
    """Peak learning rate, before the schedule. `auto`: the usual one of the optimizer; the plan
    shows which and why."""

    batch_scaling: Literal["none", "linear", "sqrt"] = "none"
    """Scaling of the learning rate with the batch size, for a rate that was tuned at another one.
    `linear`: rate x rows / base (Goyal et al. 2017, arXiv:1706.02677, section 2.1), for SGD.
    `sqrt`: rate x sqrt(rows / base) (Malladi et al. 2022, arXiv:2205.10287, definition 5), for Adam
    and its variants."""

    base_batch_size: Count = 256
    """Rows of an optimizer step for which `learning_rate` holds; only with `batch_scaling`."""

    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Layer-wise decay: learning rate of a block relative to the block above it (Clark et al. 2020,
    arXiv:2003.10555, section 3.1); the output has the full rate. 1 is off."""

    learning_rate_factors: Mapping[str, Positive] = {}
    """Factor on the learning rate of everything under a module, by the module's path, for example
    `{body.0: 0.1}`. The longest path counts."""


class Sgd(_Tuned):
    """Stochastic gradient descent: m = momentum m + g + d w; w -= lr m, or with Nesterov's momentum
    w -= lr (g + d w + momentum m) (Sutskever et al. 2013, section 2). torch.optim.SGD."""

    name: Literal["sgd"]

    momentum: Beta = 0.9
    """Fraction of the previous update that is kept. 0: plain gradient descent, without state."""

    nesterov: bool = False
    """Look one momentum step ahead."""

    weight_decay: NonNegative = 1e-4
    """L2 penalty, added to the gradient (He et al. 2016, arXiv:1512.03385, section 3.4)."""


class Adam(_Tuned):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1): m = b1 m + (1 - b1) g;
    v = b2 v + (1 - b2) g^2; w -= lr m' / (sqrt(v') + eps), with m' = m / (1 - b1^t) and
    v' = v / (1 - b2^t). torch.optim.Adam."""

    name: Literal["adam"]

    weight_decay: NonNegative = 0.0
    """L2 penalty, added to the gradient. It is scaled away with the gradient: prefer adamw."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of the running means of the gradient and of its square."""

    eps: Positive = 1e-8
    """Added to the denominator."""


class AdamW(_Tuned):
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2): w -= lr d w, then Adam's
    update. Parameters of fewer than two dimensions, norms, biases and embeddings are never decayed,
    here and in all others.
    torch.optim.AdamW."""

    name: Literal["adamw"] = "adamw"

    weight_decay: NonNegative = 0.01
    """Decoupled weight decay per step, times the learning rate."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of the running means of the gradient and of its square."""

    eps: Positive = 1e-8
    """Added to the denominator."""


class Adafactor(_Tuned):
    """Adafactor (Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 and 5): the square of the
    gradient of a matrix is kept as one number a row and one a column, V = R C / mean(R). With
    u = g / sqrt(V): w -= max(0.001, rms(w)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / clip). The
    learning rate is relative to the weights. torch.optim.Adafactor."""

    name: Literal["adafactor"]

    weight_decay: NonNegative = 0.0
    """Decoupled weight decay per step, times the learning rate."""

    beta2_decay: Annotated[float, Field(lt=0)] = -0.8
    """Exponent: the decay of the running square is 1 - t ^ this."""

    clip: Annotated[float, Field(ge=1)] = 1.0
    """Largest root mean square of an update (d in the paper)."""


class Lamb(_Tuned):
    """LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2, without bias correction as in its
    version 3): u = m / (sqrt(v) + eps) + d w; w -= lr min(10, norm(w)) / norm(u) u, norms over each
    tensor. For very large batches. Of pytorch-optimizer."""

    name: Literal["lamb"]

    weight_decay: NonNegative = 0.01
    """Weight decay, part of the update whose norm is set."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of the running mean of the gradient and of its square."""

    eps: Positive = 1e-6
    """Added to both denominators."""


class Lion(_Tuned):
    """Lion (Chen et al. 2023, arXiv:2302.06675, algorithm 2): w -= lr (sign(b1 m + (1 - b1) g)
    + d w); m = b2 m + (1 - b2) g. Half of AdamW's state; wants a 3 to 10 times smaller rate and as
    much more decay. Of pytorch-optimizer."""

    name: Literal["lion"]

    weight_decay: NonNegative = 0.1
    """Decoupled weight decay per step, times the learning rate."""

    betas: tuple[Beta, Beta] = (0.9, 0.99)
    """Share of the momentum in the update, and decay of the momentum."""


class Muon(_Tuned):
    """Muon (Jordan 2024, kellerjordan.github.io/posts/muon) for the matrices of hidden layers:
    m = momentum m + (1 - momentum) g; u = (1 - momentum) g + momentum m, made orthogonal by five
    Newton-Schulz steps in bf16; w -= lr d w + lr c u. AdamW trains the rest: embeddings, norms,
    biases, the output and, unless `convolutions` says otherwise, kernels. torch.optim.Muon."""

    name: Literal["muon"]

    momentum: Beta = 0.95
    """Fraction of the previous update that is kept."""

    nesterov: bool = True
    """Look one momentum step ahead."""

    scale: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """c, for a matrix of a rows and b columns. `match_rms_adamw`: 0.2 sqrt(max(a, b)), so that
    updates are as large as AdamW's and its rates serve (Liu et al. 2025, arXiv:2502.16982, equation
    4); `original`: sqrt(max(1, a / b))."""

    convolutions: Literal["adamw", "muon"] = "adamw"
    """Optimizer of all convolution kernels but the first, which sees the input. For `muon` a kernel
    [out, in, h, w] is the matrix [out, in h w]."""

    weight_decay: NonNegative = 0.01
    """Decoupled weight decay per step, times the learning rate; of both parts."""

    adamw_learning_rate: Auto | Positive = "auto"
    """Peak learning rate of all other parameters."""

    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """AdamW's decay of the running mean of the gradient and of its square."""

    eps: Positive = 1e-8
    """Added to AdamW's denominator."""


class ScheduleFreeAdamW(_Tuned):
    """Schedule-free AdamW (Defazio et al. 2024, arXiv:2405.15682, algorithm 1): gradients are taken
    at y = (1 - b1) z + b1 x; z takes AdamW's steps without momentum, x is the mean of all z,
    weighted by the square of the highest rate so far. x is evaluated and kept, y is trained. Goes
    with the schedule `constant` and a warmup. Of pytorch-optimizer."""

    name: Literal["schedule_free_adamw"]

    weight_decay: NonNegative = 0.01
    """Weight decay per step at y, times the learning rate."""

    betas: tuple[PositiveBeta, Beta] = (0.9, 0.999)
    """Weight of the average in the point of the gradient, and decay of the running square."""

    eps: Positive = 1e-8
    """Added to the denominator."""


class AdamW8bit(_Tuned):
    """AdamW with both running means in 8 bits, in blocks of 256 with a scale each (Dettmers et al.
    2022, arXiv:2110.02861, section 2). Tensors of fewer than 4,096 numbers keep 32 bits. Of
    bitsandbytes: `pip install 'trainwright[eightbit]'`."""

    name: Literal["adamw_8bit"]

    weight_decay: NonNegative = 0.01
    """Decoupled weight decay per step, times the learning rate."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of the running mean of the gradient and of its square."""

    eps: Positive = 1e-8
    """Added to the denominator."""


AnyOptimizer: TypeAlias = (
    Sgd | Adam | AdamW | Adafactor | Lamb | Lion | Muon | ScheduleFreeAdamW | AdamW8bit
)

Optimizer = Annotated[
    Annotated[Sgd, Tag("sgd")]
    | Annotated[Adam, Tag("adam")]
    | Annotated[AdamW, Tag("adamw")]
    | Annotated[Adafactor, Tag("adafactor")]
    | Annotated[Lamb, Tag("lamb")]
    | Annotated[Lion, Tag("lion")]
    | Annotated[Muon, Tag("muon")]
    | Annotated[ScheduleFreeAdamW, Tag("schedule_free_adamw")]
    | Annotated[AdamW8bit, Tag("adamw_8bit")],
    tagged_by("name", default="adamw"),
]


class ByNorm(Section):
    """The gradient is scaled down to a largest L2 norm (Pascanu et al. 2013, arXiv:1211.5063). A
    number in the place of this section means the same."""

    kind: Literal["norm"] = "norm"

    max_norm: Positive = 1.0
    """Largest L2 norm of the whole gradient."""


class ByValue(Section):
    """Each number of the gradient is held within plus and minus a value. Changes its direction."""

    kind: Literal["value"]

    max_value: Positive
    """Largest absolute value of a number of the gradient."""


class ZClip(Section):
    """The norm is held to its own running mean and deviation (Kumar et al. 2025,
    arXiv:2504.02507): only a norm that stands out is scaled down."""

    kind: Literal["zclip"]

    z: Annotated[float, Field(gt=0)] = 2.5
    """Deviations above the running mean from which a norm is scaled down."""

    decay: Fraction = 0.97
    """Decay of the running mean and variance."""

    warmup_steps: Annotated[int, Field(ge=2)] = 25
    """Steps whose norms give the first mean and variance; nothing is scaled down in them but by
    `max_norm`."""

    max_norm: Literal["off"] | Positive = "off"
    """A largest norm beside it, from the first step on."""


class AutoClip(Section):
    """The norm is held to a percentile of the norms of all steps so far (Seetharaman et al. 2020,
    arXiv:2007.14469)."""

    kind: Literal["autoclip"]

    percentile: Annotated[float, Field(gt=0, le=100)] = 10.0
    """The percentile: 10 scales most steps down, so that the learning rate counts nearly alone."""

    history: Count = 10_000
    """Steps that are looked back at. The paper keeps all; this bounds the cost of a step."""


ClippingKind = Annotated[
    Annotated[ByNorm, Tag("norm")]
    | Annotated[ByValue, Tag("value")]
    | Annotated[ZClip, Tag("zclip")]
    | Annotated[AutoClip, Tag("autoclip")],
    tagged_by("kind", "norm"),
]

GradientClipping = Literal["off"] | Positive | ClippingKind


class BatchRamp(Section):
    """The rows of an optimizer step grow from `start` to `effective_batch_size`, as the gradient
    noise does over a run (McCandlish et al. 2018, arXiv:1812.06162, section 2.3; Brown et al. 2020,
    arXiv:2005.14165, appendix B; in place of a falling rate, Smith et al. 2018, arXiv:1711.00489).
    Sizes follow one another in stages of equally many rows. A step of more than `batch_size` rows
    is cut into micro-batches of at most as many."""

    start: Count
    """Rows of the first optimizer steps; less than `effective_batch_size`."""

    growth: Literal["doubling", "linear"] = "doubling"
    """`doubling`: each size is twice the one before it, the fewest different shapes. `linear`: each
    is larger by `start`."""

    ratio: Part = 0.1
    """Share of all rows of the run, over all epochs, after which a step has its full size."""

    samples: Annotated[int, Field(ge=0)] = 0
    """Rows after which a step has its full size, in place of `ratio`; of a text windows."""


class SequenceRamp(Section):
    """The windows of a text start short and grow to the model's context (Li et al. 2022,
    arXiv:2108.06084, section 4; in two stages Press et al. 2021, arXiv:2012.15832, section 4). A
    window of L tokens is cut into L / l windows of l tokens, so every token is still predicted
    once, and an optimizer step has as many targets as before."""

    start: Count
    """Tokens of the first windows; a divisor of the model's context. Each length after it is the
    longest divisor up to twice the one before."""

    ratio: Part = 0.2
    """Share of all rows of the run, over all epochs, after which windows are whole."""

    samples: Annotated[int, Field(ge=0)] = 0
    """Whole windows after which none is cut any more, in place of `ratio`."""


class Ramps(Section):
    """What starts small and grows. Each is a function of the feed's position alone, so a run
    resumes exactly and the number of its steps is known beforehand."""

    batch: Literal["off"] | BatchRamp = "off"
    """Rows of an optimizer step. With `optimizer.batch_scaling` the learning rate follows the rows
    that a step has; without it the rate does not know of the ramp."""

    sequence: Literal["off"] | SequenceRamp = "off"
    """Tokens of a window; only for texts."""
