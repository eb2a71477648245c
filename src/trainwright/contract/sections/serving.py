"""`serving`: what a prediction may take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Positive, Section


class Serving(Section):
    """Limits of the model in use, measured on this machine when it is judged: clauses of the
    verdict beside the metric. `model: {kind: auto}` keeps no candidate that is over one."""

    latency_ms: Literal["unlimited"] | Positive = "unlimited"
    """Most milliseconds of a prediction of one row by the model of the bundle, once it is loaded
    and warm; of a table from its columns, encoding included. Not of forecasts: their time depends
    on the history that they are given."""

    percentile: Annotated[float, Field(ge=50, le=99.9)] = 95.0
    """Percentile of the times of the predictions that `latency_ms` limits."""

    megabytes: Literal["unlimited"] | Positive = "unlimited"
    """Largest size of the bundle, in 10^6 bytes."""

    @property
    def is_limited(self) -> bool:
        """Is there a limit?"""
        return self.latency_ms != "unlimited" or self.megabytes != "unlimited"
