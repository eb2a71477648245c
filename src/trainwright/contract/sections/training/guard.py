"""`training.guard`: what becomes of a run that goes wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Count, Section


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
    """With `skip`: consecutive dropped steps that trigger a rollback."""

    spike: Literal["raise", "rollback", "ignore"] = "rollback"
    """Reaction to a loss far above its recent values in several steps. The default is `rollback`:
    such a run rarely recovers by itself, and the same model mostly continues well on other rows.
    There is no `skip`: the update is made before a spike can be distinguished from noise."""

    spike_z: Annotated[float, Field(gt=1)] = 6.0
    """Robust z-score of the log-loss above which a step is suspicious, in standard deviations
    (1.4826 times the median absolute deviation) from the median of the last 64 steps."""

    out_of_memory: Literal["split", "raise"] = "split"
    """Reaction to running out of memory in a forward or backward pass. `split` repeats the step
    with micro-batches of half as many rows, for the rest of the run; `raise` ends the run with exit
    code 14 and a checkpoint, and so does `split` at micro-batches of one row. The default is
    `split`, because the rows of a step and its update are the same up to rounding (except with
    batch norm), and the size of a micro-batch depends on the machine, not on the experiment."""

    rollbacks: Annotated[int, Field(ge=0)] = 3
    """Rollback budget of a run; the next one ends it."""

    learning_rate_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor on the learning rate after a rollback; 1 disables it."""

    learning_rate_steps: Count = 200
    """Steps for which that factor applies."""
