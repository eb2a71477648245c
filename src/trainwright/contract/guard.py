"""`training.guard`: what becomes of a run that goes wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.section import Count, Section


class Guard(Section):
    """What becomes of a run at a number that is not finite, at a loss that leaps up and stays, and
    when memory runs out.

    `raise` ends the run with exit code 14, `skip` leaves the step out, `rollback` puts the last
    good checkpoint back and goes on behind the bad rows, `ignore` goes on. Whatever is chosen here,
    an update with a number that is not finite is dropped before it reaches the weights.
    """

    non_finite: Literal["raise", "skip", "rollback", "ignore"] = "raise"
    """At a loss or gradient that is not finite. The default is `raise`, because the cause is nearly
    always a row or a setting that a person must mend, and its rows are named."""

    non_finite_in_a_row: Count = 3
    """With `skip`: dropped steps one after the other that roll the run back."""

    spike: Literal["raise", "rollback", "ignore"] = "rollback"
    """At a loss far above its recent course in several steps. The default is `rollback`: such a run
    rarely comes back by itself, and the same model on other rows mostly goes on well. There is no
    `skip`: the update is made before a leap can be told from noise."""

    spike_z: Annotated[float, Field(gt=1)] = 6.0
    """Robust z-score of the log-loss from which a step is suspicious, in deviations (1.4826 times
    the median absolute deviation) from the median of the last 64 steps."""

    out_of_memory: Literal["split", "raise"] = "split"
    """When memory runs out in a forward or backward pass. `split` makes the step again with
    micro-batches of half as many rows, for the rest of the run; `raise` ends the run with exit code
    14 and a checkpoint, and so does `split` at micro-batches of one row. The default is `split`,
    because the rows of a step and its update stay the same up to rounding (batch norm apart), and
    the size of a micro-batch is a matter of the machine, not of the experiment."""

    rollbacks: Annotated[int, Field(ge=0)] = 3
    """Rollbacks of one run; the next one ends it."""

    learning_rate_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor on the learning rate after a rollback; 1 leaves it."""

    learning_rate_steps: Count = 200
    """Steps for which that factor holds."""
