"""`training.gradient_clipping`: what is done to a gradient that is too large."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.section import Count, Fraction, Positive, Section, tagged_by


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
