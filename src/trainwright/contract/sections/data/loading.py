"""`data.loading`: how worker processes deliver batches."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainwright.contract.sections.section import Count, Positive, Section


class Loading(Section):
    """How worker processes deliver batches, where `data.num_workers` is not 0. Nothing here, nor
    the number of workers, changes what is trained on: it may differ when a run goes on."""

    ahead: Count = 2
    """Blocks of about 8 MB that each worker makes before they are needed. Memory for all of them is
    held from the first step on."""

    hang_seconds: Positive = 60.0
    """Seconds after which a worker that does not answer is killed, and counts as dead."""

    restarts: Annotated[int, Field(ge=0)] = 3
    """Dead workers of a run that are started again; at one more the run stops. The rows that a dead
    worker had are made again, with the same bits."""
