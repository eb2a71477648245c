"""What a plan takes for the checkpoints where the contract says `auto`."""

from __future__ import annotations

from trainwright.contract.checkpointing import Checkpointing
from trainwright.contract.training import Training
from trainwright.planner.choosing import Chosen


def checkpoint_choices(training: Training, metric: str, steps_per_epoch: int) -> Chosen:
    """Field -> (value, reason) for `training.checkpointing`; `metric` is the contract's."""
    return {
        "save_every_n_steps": (
            steps_per_epoch * training.validate_every_n_epochs,
            "one checkpoint at each validation",
        ),
        "save_every_minutes": _spacing(training.checkpointing),
        "rank_by": _ranking(training, metric),
    }


def _spacing(section: Checkpointing) -> tuple[str, str]:
    hours = section.expected_hours_between_failures
    if hours == "off":
        return "off", "nothing is known of failures"
    return "measured", f"the machine lasts {hours:g} hours on average"


def _ranking(training: Training, metric: str) -> tuple[str, str]:
    stopping = training.early_stopping
    if stopping == "off":
        return "val_loss", "nothing else is watched"
    watched = f"val_{metric}" if stopping.metric == "auto" else stopping.metric
    return watched, "what early stopping watches"
