"""A run by its name, and the contract that it was planned by."""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.contract.document import Contract
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, damage_in, read_json, to_json
from trainwright.tracking.run_folder import RunFolder, is_run_folder


def find_run(run: str, runs: Path) -> RunFolder:
    """Run by path, or by name in `runs`. A name of both a run in `runs` and a folder here is that
    of the run."""
    is_path = "/" in run or run in (".", "..")
    if is_path or (not os.path.lexists(runs / run) and is_run_folder(Path(run))):
        return RunFolder.open(Path(run))
    return RunFolder.find(runs, run)


def read_started(folder: RunFolder, fix: str = "start a new run without --resume") -> Json:
    """Plan that the run was started with.

    Raises:
        Mistake: it was stopped before it had one.
    """
    if not folder.plan.is_file():
        raise Mistake(
            Problem(
                f"run {folder.name} was stopped before it began",
                found=f"no {folder.plan.name} in {folder.path}",
                expected="the plan that the run was started with",
                fix=fix,
            )
        )
    return read_json(folder.plan)


def read_planned(folder: RunFolder) -> Contract:
    """Resolved contract of a run.

    Raises:
        Mistake: the folder has none.
    """
    with damage_in(folder.plan):
        return Contract.model_validate_json(to_json(read_started(folder)["contract"]))
