"""`training.average`: weight averages (EMA, SWA), evaluated and kept instead of the trained
weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.section import (
    Auto,
    Count,
    Fraction,
    Positive,
    Section,
    tagged_by,
)


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
