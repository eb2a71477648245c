"""What every kind of data says of how it reaches the model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainwright.contract.sampling import Sampling, Uniform
from trainwright.contract.section import Auto, Section


class Feeding(Section):
    """How rows reach the model."""

    num_workers: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Processes that prepare batches. The data lies in memory and needs none: `auto` is 0."""

    pin_memory: Auto | bool = "auto"
    """Page-locked host memory for faster copies to a GPU. `auto`: only where there is one."""

    shuffle: bool = True
    """Whether an epoch visits the training rows in a new random order. The order of epoch e is a
    function of the seed and e."""

    sampling: Sampling = Uniform()
    """Which training rows an epoch visits, and how often: `uniform`, `balanced`, `weighted`,
    `mixture` or `curriculum`."""
