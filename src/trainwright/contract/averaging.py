"""`training.average`: a mean of the weights over time, evaluated and kept in their place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.section import Section


class Ema(Section):
    """An exponential mean of the weights over the applied steps: m <- d m + (1 - d) w, from the
    first weights on (Polyak and Juditsky 1992; Tarvainen and Valpola 2017, arXiv:1703.01780,
    equation 2). Validations, the best checkpoint and the bundle have m; w is what is trained.
    Running statistics of norms are averaged in the same way."""

    kind: Literal["ema"]

    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """d: the mean looks back over about 1 / (1 - d) steps."""


Average = Literal["off"] | Ema
