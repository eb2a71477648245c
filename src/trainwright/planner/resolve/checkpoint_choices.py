"""Checkpointing for `auto`."""

from __future__ import annotations

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import steering_metric
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.checkpointing import Checkpointing
from trainwright.contract.sections.training.training import Training
from trainwright.planner.resolve.choice import Chosen


def checkpoint_choices(contract: Contract, training: Training, steps_per_epoch: int) -> Chosen:
    """Field -> (value, reason) for `training.checkpointing`, with resolved batch sizes."""
    return {
        "save_every_n_steps": (
            _validation_steps(contract.model, training, steps_per_epoch),
            "one checkpoint at each validation",
        ),
        "save_every_minutes": _spacing(training.checkpointing),
        "rank_by": _ranking(training, contract.metric.name),
    }


def _validation_steps(model: ModelSection, training: Training, steps_per_epoch: int) -> int:
    """Steps between validations; for tokens, as if every position of a window had one."""
    if training.validate_every_n_steps != "off":
        return training.validate_every_n_steps
    if training.validate_every_n_tokens != "off":
        of_step = settled(training.effective_batch_size) * model.context_length
        return -(-training.validate_every_n_tokens // of_step)
    return steps_per_epoch * training.validate_every_n_epochs


def _spacing(section: Checkpointing) -> tuple[str, str]:
    hours = section.expected_hours_between_failures
    if hours == "off":
        return "off", "nothing is known of failures"
    return "measured", f"the machine lasts {hours:g} hours on average"


def _ranking(training: Training, metric: str) -> tuple[str, str]:
    stopping = training.early_stopping
    if stopping == "off":
        return "val_loss", "nothing else is watched"
    watched = f"val_{steering_metric(metric)}" if stopping.metric == "auto" else stopping.metric
    return watched, "what early stopping watches"
