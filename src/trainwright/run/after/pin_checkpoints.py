"""Listing and pinning of a run's checkpoints."""

from __future__ import annotations

import shlex

from trainwright.checkpoint.files.file_entry import name_of
from trainwright.checkpoint.keeping.pins import pin, unpin
from trainwright.checkpoint.storages.catalog import Listed, list_checkpoints
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import storage_errors
from trainwright.tracking.run_folder import RunFolder

_SHOWN = 8


def checkpoints_of(folder: RunFolder) -> list[Listed]:
    """All checkpoints of a run, which may be active."""
    return list_checkpoints(folder.checkpoints)


def pin_checkpoint(folder: RunFolder, step: int) -> None:
    """Pin the checkpoint of a step; the run may be active.

    Raises:
        Mistake: no checkpoint of that step.
    """
    with storage_errors(f"pinning in {folder.checkpoints}"):
        found = folder.checkpoints.is_dir() and pin(folder.checkpoints, name_of(step))
    if not found:
        raise _none_of(folder, step, "there is no checkpoint of this step")


def unpin_checkpoint(folder: RunFolder, step: int) -> None:
    """Unpin a checkpoint: retention decides again, at the latest at the run's next save.

    Raises:
        Mistake: it is not pinned.
    """
    with storage_errors(f"unpinning in {folder.checkpoints}"):
        found = unpin(folder.checkpoints, name_of(step))
    if not found:
        raise _none_of(folder, step, "this step is not pinned")


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
