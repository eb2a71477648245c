"""Cost estimate of a run by arithmetic: trainings, steps, validations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self, final

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.scheduler import ReduceOnPlateau
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.read_table import DataFacts
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape
from trainwright.planner.kinds.data_planner import planner_of

if TYPE_CHECKING:
    from trainwright.data.sampling.step_ramps import Stages

_VALIDATIONS_WANTED = 10


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of a run.

    `train_rows` are the training rows after the split: exact for random and stratified splits,
    approximate where groups or timestamps stay together. `steps` are optimizer steps up to the last
    epoch, 0 for models not trained by the loop; `steps_per_epoch` those of an epoch, after any
    ramp. `memory_bytes` is approximately that of all encoded rows, 0 for rows in files.
    `parameters` are known once the columns are encoded.
    """

    train_rows: int
    steps_per_epoch: int
    steps: int
    memory_bytes: int
    parameters: Literal["unknown"] | int = "unknown"

    def with_parameters(self, section: ModelSection, shape: Shape) -> Estimate:
        """Estimate once the columns are encoded."""
        parameters = network_family(section).count_parameters(section, shape)
        return replace(self, parameters=parameters)

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "train_rows": self.train_rows,
            "steps_per_epoch": self.steps_per_epoch,
            "steps": self.steps,
            "memory_bytes": self.memory_bytes,
            "parameters": self.parameters,
        }


def count_trainings(contract: Contract) -> int:
    """Trainings of a run: of each fold, of each seed, and again on the validation rows too."""
    return fold_count(contract.data) + contract.training.seeds + contract.training.refit


def train_rows_of(contract: Contract, facts: DataFacts) -> int:
    """Training rows after the split: `DataPlanner.train_rows`."""
    return planner_of(contract, facts).train_rows()


def steps_per_epoch(train_rows: int, effective_batch_size: int) -> int:
    """Optimizer steps of an epoch; the last one may be short."""
    return math.ceil(train_rows / effective_batch_size)


def epoch_ends(contract: Contract, train_rows: int) -> tuple[int, ...]:
    """Optimizer steps at the end of each epoch, ramps included."""
    # Imported here, and below: trees take no steps.
    from trainwright.data.sampling.step_ramps import steps_at_epoch_ends

    epochs = settled(contract.training.num_epochs)
    return steps_at_epoch_ends(_step_rows(contract, train_rows), train_rows, epochs)


def most_steps(contract: Contract, train_rows: int) -> int:
    """Optimizer steps within the epochs and the limits of a run, ramps included; for padded
    documents, as if each filled its window."""
    from trainwright.data.sampling.step_ramps import steps_up_to

    stop = contract.training.stop
    samples = settled(contract.training.num_epochs) * train_rows
    if stop.max_samples != "off":
        samples = min(samples, stop.max_samples)
    if stop.max_tokens != "off":
        samples = min(samples, math.ceil(stop.max_tokens / contract.model.context_length))
    steps = steps_up_to(_step_rows(contract, train_rows), train_rows, samples)
    return steps if stop.max_steps == "off" else min(stop.max_steps, steps)


def scheduled_steps(contract: Contract, train_rows: int) -> int:
    """Upper bound on the steps spanned by the learning-rate schedule: the number of padded
    documents with so many tokens is not known here."""
    training, data = contract.training, contract.data
    spans = training.stop.schedule_spans
    if isinstance(spans, int):
        return spans
    if spans == "epochs":
        return epoch_ends(contract, train_rows)[-1]
    if data.is_padded:
        stop = training.stop.model_copy(update={"max_tokens": "off"})
        training = training.model_copy(update={"stop": stop})
    return most_steps(contract.model_copy(update={"training": training}), train_rows)


def _step_rows(contract: Contract, train_rows: int) -> Stages:
    from trainwright.data.sampling.step_ramps import step_rows

    training = contract.training
    samples = train_rows * settled(training.num_epochs)
    return step_rows(training.ramps.batch, settled(training.effective_batch_size), samples)


def estimate_run(contract: Contract, facts: DataFacts) -> Estimate:
    """Estimate for a resolved contract."""
    planner = planner_of(contract, facts)
    rows, held = planner.train_rows(), planner.encoded_bytes()
    if not contract.model.is_loop_trained:
        return Estimate(rows, 0, 0, held)
    training = contract.training
    in_epoch = steps_per_epoch(rows, settled(training.effective_batch_size))
    return Estimate(rows, in_epoch, epoch_ends(contract, rows)[-1], held)


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
