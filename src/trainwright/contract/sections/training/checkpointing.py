"""`training.checkpointing`: what is written so that the run can go on after any interruption."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, Positive, Section


class Checkpointing(Section):
    """What is written so that the run can go on after any interruption, and what of it is kept.

    Saves fall on steps, and with `save_every_minutes` on the clock too. `measured` spaces them so
    that the least time is lost to saving and to failures together: with d the seconds that the
    training stands still for a save and M the mean seconds between failures, about sqrt(2 d M)
    apart (Young 1974, Comm. ACM 17, 530; the formula used is that of Daly 2006, Future Generation
    Computer Systems 22, 303).
    """

    save_every_n_steps: Auto | Count = "auto"
    """Optimizer steps between checkpoints, beside those at validations. `auto`: at validations
    alone."""

    save_every_n_tokens: Literal["off"] | Count = "off"
    """Tokens between checkpoints, beside the others; only for texts."""

    save_every_minutes: Auto | Literal["off", "measured"] | Positive = "auto"
    """Minutes after which a checkpoint is due, whatever the step; `measured`: from what a save
    costs, see above. `auto`: `measured` if `expected_hours_between_failures` is given, else
    `off`; of trees, which have no steps, 10 seconds or more, so that it takes at most 2 % of the
    time."""

    expected_hours_between_failures: Literal["off"] | Positive = "off"
    """Mean time between failures of the machine, for example 6 for a spot machine that is often
    preempted. Used only by `save_every_minutes: measured`."""

    keep_top_k: Count = 3
    """Number of best checkpoints kept."""

    rank_by: str = "auto"
    """Value that ranks checkpoints: `val_loss`, or `val_` and a metric, for example `val_f1`.
    `auto`: what early stopping watches. With early stopping the model has the weights of the best,
    without it the last ones."""

    keep_last: Annotated[int, Field(ge=2)] = 2
    """Number of newest checkpoints kept; at least two, because the newest may turn out damaged or
    be rolled back."""

    keep_every_n_steps: Literal["off"] | Count = "off"
    """Keeps the first checkpoint at or after each multiple of this many steps forever, for a later
    analysis of the training."""

    remote: Literal["off"] | str = "off"
    """Where checkpoints are copied to while the training goes on, with the run's own files beside
    them, for example `s3://bucket/folder`; the run's name is added. A machine that has nothing else
    of the run goes on with `trainwright resume s3://bucket/folder/RUN`, and a run whose own folder
    lost its checkpoints brings them back from there. Credentials come from the environment and
    never stand in the address."""

    asynchronous: bool = False
    """Writes checkpoints in the background: training stalls only while its state is copied; on a
    CPU most of that is copied during the passes of the next step. Costs memory for one more copy of
    the state."""

    on_failure: Literal["stop", "continue"] = "stop"
    """Reaction to a checkpoint that cannot be written, for example on a full disk: `stop` ends the
    run with exit code 13, `continue` reports and counts it and tries again when the next one is
    due. Without a checkpoint before the first step, or at an interruption, a run stops either
    way."""

    save_optimizer_state: bool = True
    """Without it a checkpoint is a third of the size and the run cannot be resumed from it."""
