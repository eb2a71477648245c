"""Random generators of a script that no checkpoint holds: a draw is refused. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import final, get_args

import torch
from torch import Tensor

from trainwright.checkpoint.states.random_state import Generator, state_of_generator
from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.job import Job, NoCheckpoints, NoValidation
from trainwright.run.script.check_job import gap_in_state
from trainwright.run.script.check_tensors import find_within
from trainwright.tracking.events import StepOutcome


@final
class UndrawnGenerators:
    """Generators that stay where they are; a resumed run finds them there, too."""

    def __init__(self, generators: list[Generator]) -> None:
        self._states = [(one, state_of_generator(one)) for one in generators]

    def check(self, who: str) -> None:
        """Compare their states with those at the start.

        Raises:
            Mistake: `who` drew from one.
        """
        for one, state in self._states:
            if not _is_same(state, state_of_generator(one)):
                kind = f"{type(one).__module__}.{type(one).__qualname__}"
                raise Mistake(
                    gap_in_state(
                        "a generator of random numbers of its own",
                        f"{who} drew from a {kind}",
                        '"random": tw.RandomState(generator), with each generator that is drawn '
                        "from",
                    )
                )


def keep_generators(job: Job) -> Job:
    """The job, refusing draws by step or validation from generators outside its state."""
    held = {id(one) for one in find_within(list(job.state.values()), get_args(Generator))}
    drawing: tuple[object, ...] = (job.step, job.outcome_observers, job.validate)
    found = find_within(drawing, get_args(Generator))
    loose = [one for one in found if id(one) not in held]
    if not loose or isinstance(job.checkpoints, NoCheckpoints):
        return job
    undrawn = UndrawnGenerators(loose)

    def step(work: StepBatches) -> StepOutcome:
        outcome = job.step(work)
        undrawn.check("the step")
        return outcome

    def validate() -> Mapping[str, float]:
        values = job.validate()
        undrawn.check("the validation")
        return values

    validates = not isinstance(job.validate, NoValidation)
    return replace(job, step=step, validate=validate if validates else job.validate)


def _is_same(before: Tensor | Json, now: Tensor | Json) -> bool:
    if isinstance(before, Tensor) and isinstance(now, Tensor):
        return torch.equal(before, now)
    return bool(before == now)
