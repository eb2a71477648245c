"""The wiring of a network's checkpoints: where they go, which stay, and when they are due. Needs
torch."""

from __future__ import annotations

from pathlib import Path

from trainwright.checkpoint.store import Checkpoints
from trainwright.contract.metric import METRICS, Direction
from trainwright.contract.section import settled
from trainwright.contract.training import Training
from trainwright.engine.job import At, Every
from trainwright.planner.plan import Plan


def build_checkpoints(training: Training, folder: Path) -> Checkpoints:
    """The checkpoints of a run's folder, kept as the contract says."""
    section = training.checkpointing
    return Checkpoints(
        folder,
        section.keep_top_k,
        _direction(training),
        section.keep_last,
        section.keep_every_n_steps,
    )


def build_checkpoint_every(plan: Plan, validate_every: At) -> Every | At:
    """As the contract says; if it leaves it open, at the feed's own validations."""
    path = "training.checkpointing.save_every_n_steps"
    if any(choice.path == path for choice in plan.choices):
        return validate_every
    return Every(settled(plan.contract.training.checkpointing.save_every_n_steps))


def _direction(training: Training) -> Direction:
    """In which the value that checkpoints are ranked by improves."""
    ranked_by, stopping = training.checkpointing.rank_by, training.early_stopping
    if stopping != "off" and ranked_by == stopping.metric:
        return settled(stopping.mode)
    fact = METRICS.get(ranked_by.removeprefix("val_"))
    return "min" if fact is None else fact.direction
