"""The checkpoints of a run, for people: what there is, and which of them is to stay."""

from __future__ import annotations

import shlex

from trainwright.checkpoint.file_names import name_of
from trainwright.checkpoint.list_checkpoints import Listed, list_checkpoints
from trainwright.checkpoint.pins import pin, unpin
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import storage_errors
from trainwright.tracking.run_folder import RunFolder

_SHOWN = 8


def checkpoints_of(folder: RunFolder) -> list[Listed]:
    """Every checkpoint of a run, which may be at work."""
    return list_checkpoints(folder.checkpoints)


def pin_checkpoint(folder: RunFolder, step: int) -> None:
    """Keep the checkpoint of a step until its pin is taken off; the run may be at work.

    Raises:
        Mistake: there is none of that step.
    """
    with storage_errors(f"pinning in {folder.checkpoints}"):
        found = folder.checkpoints.is_dir() and pin(folder.checkpoints, name_of(step))
    if not found:
        raise _none_of(folder, step, "there is no checkpoint of this step")


def unpin_checkpoint(folder: RunFolder, step: int) -> None:
    """Let retention decide about a checkpoint again; it is removed at the run's next save at most.

    Raises:
        Mistake: it has no pin.
    """
    with storage_errors(f"unpinning in {folder.checkpoints}"):
        found = unpin(folder.checkpoints, name_of(step))
    if not found:
        raise _none_of(folder, step, "this step has no pin")


def _none_of(folder: RunFolder, step: int, message: str) -> Mistake:
    steps = [str(listed.step) for listed in checkpoints_of(folder)]
    shown = ", ".join(steps[-_SHOWN:]) or "none"
    more = "the last are " if len(steps) > _SHOWN else ""
    return Mistake(
        Problem(
            message,
            found=f"step {step} of run {folder.name}",
            expected=f"a step with a checkpoint: {more}{shown}",
            fix=f"list them with: trainwright runs checkpoints {shlex.quote(str(folder.path))}",
        )
    )
