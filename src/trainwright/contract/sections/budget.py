"""`budget`: resources that the run may use."""

from __future__ import annotations

import math
from typing import Literal

from trainwright.contract.sections.section import NonNegative, Positive, Section


class Budget(Section):
    """What the run may use. Before the training starts, a few of its steps are measured, and what
    the contract leaves open (epochs, rows of a step, validations) is decided so that the learning
    rate ends its schedule within the budget. What is written is kept, and cut."""

    hours: Literal["unlimited"] | Positive = "unlimited"
    """Most hours of wall-clock time for the run, over all its attempts: reading, preparing,
    baselines, training, validations and judging. Of an attempt that was killed at most its last 10
    seconds are not counted."""

    cost: Literal["unlimited"] | Positive = "unlimited"
    """Maximum cost of the run, in the currency of `price_per_hour`."""

    price_per_hour: NonNegative = 0.0
    """Price of this machine per hour; needed for `cost`, and shown with the time of a run: on the
    screen, in the report, in `runs list` and in the record."""

    def seconds(self) -> float:
        """The seconds that time and money allow, whichever is less; infinite without a limit."""
        hours = math.inf if self.hours == "unlimited" else self.hours
        if self.cost != "unlimited":
            hours = min(hours, self.cost / self.price_per_hour)
        return hours * 3600
