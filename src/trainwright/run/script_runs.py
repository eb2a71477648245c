"""Runs that a script trained: what needs a contract or a bundle is refused for them."""

from __future__ import annotations

from trainwright.core.errors import Mistake, Problem
from trainwright.tracking.folder import RunFolder


def is_script_run(folder: RunFolder) -> bool:
    """Whether a script trained here and nothing was judged."""
    return folder.settings.is_file() and not folder.plan.exists()


def refuse_script_run(folder: RunFolder, fix: str) -> None:
    """Say that this run has no contract.

    Raises:
        Mistake: a script trained it.
    """
    if is_script_run(folder):
        raise Mistake(
            Problem(
                f"run {folder.name} was trained by a script, which alone can build its model",
                found=f"{folder.settings.name} and no {folder.plan.name} in {folder.path}",
                fix=fix,
            )
        )
