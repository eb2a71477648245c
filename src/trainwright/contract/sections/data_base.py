"""Fields that every kind of data shares: how rows reach the model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainwright.contract.sections.accepted_findings import Audit
from trainwright.contract.sections.loading import Loading
from trainwright.contract.sections.sampling import Sampling, Uniform
from trainwright.contract.sections.section import Auto, Section

DELIVERY = ("num_workers", "pin_memory", "loading")
"""Fields that change nothing but the time in which batches come."""


class Feeding(Section):
    """How rows reach the model."""

    num_workers: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Processes that make batches ahead of their use; 0 makes them in the training process. `auto`:
    0 where rows only have to be gathered, and for runs that are too short to gain; else measured
    with the model at the start of the run. The number changes nothing but the time, so it may
    differ when a run goes on."""

    pin_memory: Auto | bool = "auto"
    """Whether the batches of worker processes reach a GPU through page-locked memory, which copies
    faster and beside the training. `auto`: only where there is a GPU."""

    loading: Loading = Loading()
    """Delivery of batches by worker processes."""

    shuffle: bool = True
    """Whether an epoch visits the training rows in a new random order. The order of epoch e is a
    function of the seed and e."""

    sampling: Sampling = Uniform()
    """Which training rows an epoch visits, and how often: `uniform`, `balanced`, `weighted`,
    `mixture` or `curriculum`."""

    audit: Audit = Audit()
    """Findings of the leakage audit that are accepted, with the reason."""
