"""Number of validations of a run, and its effect on early stopping and plateau schedules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, final

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.scheduler import ReduceOnPlateau
from trainwright.core.formatting import many
from trainwright.planner.estimate import epoch_ends, most_steps

_VALIDATIONS_WANTED = 10


@final
@dataclass(frozen=True, slots=True)
class Validations:
    """Validations of a run that ends by its length: their number, the last one included, and the
    optimizer steps of the run. Tokens are counted as if no document were padded."""

    count: int
    steps: int

    @classmethod
    def of(cls, contract: Contract, train_rows: int) -> Self:
        """Validations of a resolved contract."""
        training, model = contract.training, contract.model
        steps = most_steps(contract, train_rows)
        if training.validate_every_n_steps != "off":
            return cls(-(-steps // training.validate_every_n_steps), steps)
        ends = epoch_ends(contract, train_rows)
        if training.validate_every_n_tokens != "off":
            tokens = len(ends) * train_rows * model.context_length * steps // ends[-1]
            return cls(max(1, -(-tokens // training.validate_every_n_tokens)), steps)
        every = training.validate_every_n_epochs
        before = sum(end < steps for end in ends[every - 1 :: every])
        return cls(before + 1, steps)


def idle_rules(contract: Contract, train_rows: int) -> Iterator[tuple[str, str]]:
    """Rules that depend on validations and can never act because there are too few: a message and
    what to write.

    The first validation always improves, so that a patience of p ends a run at validation p + 1,
    and the last validation is the end of the run anyway.
    """
    if not contract.model.is_loop_trained:
        return
    training, scheduler = contract.training, contract.training.scheduler
    made = Validations.of(contract, train_rows)
    every = max(1, made.steps // _VALIDATIONS_WANTED)
    fix = f"write training.validate_every_n_steps: {every}"
    if training.validate_every_n_epochs > 1:
        fix += " in the place of validate_every_n_epochs"
    elif training.validate_every_n_tokens != "off":
        fix += " in the place of validate_every_n_tokens"
    if made.count == 1 and training.early_stopping != "off":
        yield "the only validation follows the last step: early stopping can never act", fix
    if isinstance(scheduler, ReduceOnPlateau) and scheduler.patience + 1 >= made.count:
        validated = f"{many(made.count, 'validation')} and a patience of {scheduler.patience}"
        yield f"reduce_on_plateau can never lower the rate: {validated}", fix
