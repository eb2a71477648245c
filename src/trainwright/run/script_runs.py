"""Runs trained by a script: operations that need a contract or a bundle are refused."""

from __future__ import annotations

from trainwright.core.errors import Mistake, Problem
from trainwright.tracking.run_folder import RunFolder


def refuse_script_run(folder: RunFolder, fix: str) -> None:
    """Refuse a run whose model only its script can build.

    Raises:
        Mistake: a script trained it.
    """
    if folder.has_own_model:
        raise Mistake(
            Problem(
                f"the model of run {folder.name} was trained by a script, which alone can build it",
                found=f"no {folder.bundle.name} in {folder.path}",
                fix=fix,
            )
        )
