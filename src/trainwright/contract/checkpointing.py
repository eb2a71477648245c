"""`training.checkpointing`: what is written so that the run can go on after any interruption."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.section import Auto, Count, Section


class Checkpointing(Section):
    """What is written so that the run can go on after any interruption, and what of it is kept."""

    save_every_n_steps: Auto | Count = "auto"
    """Optimizer steps between checkpoints. `auto`: at each validation."""

    keep_top_k: Count = 3
    """Best checkpoints kept."""

    rank_by: str = "auto"
    """What makes a checkpoint the best, and the model that of its weights: `val_loss`, or `val_`
    and a metric, for example `val_f1`. `auto`: what early stopping watches."""

    keep_last: Annotated[int, Field(ge=2)] = 2
    """Newest checkpoints kept; two at least, because the newest may turn out damaged or be rolled
    back."""

    keep_every_n_steps: Literal["off"] | Count = "off"
    """Keeps the first checkpoint at or after each multiple of so many steps for ever, for looking
    at a training afterwards."""

    asynchronous: bool = False
    """Writes checkpoints while the training goes on, which then stands still only while its state
    is copied. Costs memory for one more copy of the state."""

    save_optimizer_state: bool = True
    """Without it a checkpoint is a third of the size and the run cannot be resumed from it."""
