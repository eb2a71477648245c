"""Restoring the state of a job from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.checkpoint.store import Loaded
from trainwright.checkpoint.strict_json import read_count
from trainwright.core.errors import NoValidCheckpoint
from trainwright.core.progress import Progress
from trainwright.engine.execution.oom import is_out_of_memory

_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)
"""What an owner of state raises on values that it has not written."""


@contextmanager
def restoring(loaded: Loaded, part: str) -> Iterator[None]:
    """The block restores a part of a checkpoint whose hashes are right. Memory that runs out says
    nothing about the checkpoint: its error passes.

    Raises:
        NoValidCheckpoint: the part holds what its owner cannot read.
    """
    try:
        yield
    except _WRONG as error:
        if is_out_of_memory(error):
            raise
        said = (str(error).splitlines() or [""])[0]
        raise NoValidCheckpoint(
            f"{part} of {loaded.name} cannot be restored ({type(error).__name__}: {said:.200}): "
            "the checkpoint was not written by this program. Set its folder aside, so that the run "
            "resumes from an older one"
        ) from error


def progress_of(loaded: Loaded) -> Progress:
    """Progress of the run when the checkpoint was written.

    Raises:
        NoValidCheckpoint: it is not that of the checkpoint's step.
    """
    with restoring(loaded, "progress"):
        values = loaded.parts["progress"].values
        progress = Progress(**{key: read_count(values[key]) for key in Progress._fields})
        if progress.step != loaded.step:
            raise ValueError(f"it says step {progress.step}")
    return progress
