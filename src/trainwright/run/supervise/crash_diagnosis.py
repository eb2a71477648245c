"""Crash diagnosis: when a run died, and at which step it crashes repeatedly."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.sections.model import sections
from trainwright.contract.sections.model.traits import Traits
from trainwright.core.files import Json, read_json, to_json
from trainwright.run.supervise.shared_progress import Position

_SHOWN = 12
_WRONG_SHAPE = (OSError, ValueError, KeyError, TypeError)


def describe_death(folder: Path | None, position: Position) -> str:
    """When a run died, in its unit of progress; without a folder it had not begun."""
    done = position.progress.step
    if folder is None:
        return "before it began"
    if not _is_library(folder):
        return f"after step {done:,}"
    if "training.checkpointing" not in _traits(folder).training_keys:
        return "with nothing kept yet"
    return f"after tree {done:,} was kept" if done else "before a tree was kept"


def describe_loop(folder: Path, position: Position) -> str:
    """Where a run crashes repeatedly, with the rows of its step if the folder has them, and
    possible remedies."""
    then = f"and go on with trainwright resume {folder}"
    if _is_library(folder):
        when = describe_death(folder, position)
        return f"three crashes {when}: look at the memory, {then}"
    progress = position.progress
    text = f"step {progress.step + 1:,} (epoch {progress.epoch}), or the validation or save before"
    try:
        plan, split = read_json(folder / "plan.json"), read_json(folder / "data" / "split.json")
        rows = _rows(plan["contract"], split["rows"]["train"], position)
    except _WRONG_SHAPE:
        rows = ""
    return (
        f"three crashes at the same step: {text}{rows}. The checkpoints are as they were: look at "
        f"these rows and at the memory, {then}"
    )


def _is_library(folder: Path) -> bool:
    return _traits(folder).trained_by == "library"


def _traits(folder: Path) -> Traits:
    """Traits of the kind of model; those of a network if the folder does not say."""
    try:
        kind = read_json(folder / "plan.json")["contract"]["model"]["kind"]
        return sections()[kind].traits
    except _WRONG_SHAPE:
        return Traits(reads=())


def _rows(contract: Json, rows: int, position: Position) -> str:
    from trainwright.contract.document import Contract
    from trainwright.data.base.counter_rng import Permutation

    data = Contract.model_validate_json(to_json(contract)).data
    if data.has_tokens or data.sampling.kind != "uniform":
        return f"; from sample {position.progress.samples:,} on"
    epoch, first = divmod(position.progress.samples, rows)
    count = position.rows or int(contract["training"]["effective_batch_size"])
    order = Permutation(rows, int(contract["seed"]), bool(contract["data"]["shuffle"]))
    numbers = [int(row) for row in order.at(epoch, first, min(rows, first + count))]
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"; training rows {', '.join(map(str, numbers[:_SHOWN]))}{more}"
