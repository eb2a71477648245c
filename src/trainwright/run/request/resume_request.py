"""Original request of a run, from its folder alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, damage_in
from trainwright.run.folder.planned_contract import read_started
from trainwright.run.request.extension_request import NO_EXTENSION, ExtensionRequest
from trainwright.run.request.run_request import Request
from trainwright.run.script_runs import refuse_script_run
from trainwright.tracking.bound_request import changed_request
from trainwright.tracking.run_folder import RunFolder


def request_again(
    folder: RunFolder, command: Sequence[str], extend: ExtensionRequest = NO_EXTENSION
) -> Request:
    """Request that resumes the run; `extend` gives it a new ending.

    The contract is read from its original path, because its data is relative to it; the checks of a
    resume detect changes.

    Raises:
        Mistake: the run was stopped before its plan was written, or the plan names another contract
            or other overrides than the run was given.
    """
    fix = "run the script again: it resumes from the newest checkpoint"
    if extend.count:
        fix = (
            "raise in the script what ends the job, such as tw.StepLimit(steps), and run it again "
            "with the same run="
        )
    refuse_script_run(folder, fix)
    with damage_in(folder.plan):
        plan = read_started(folder, _by_contract(folder))
        if changed := list(changed_request(plan)):
            raise Mistake(_edited(folder, key, found) for key, found in changed)
        return Request(
            contract=_contract_of(folder, plan),
            overrides=tuple(plan["overrides"]),
            runs=folder.path.parent,
            name=folder.name,
            resume=True,
            command=tuple(command),
            extend=extend,
        )


def _edited(folder: RunFolder, key: str, found: str) -> Problem:
    return Problem(
        f"{folder.plan} was edited: {key} is not what run {folder.name} was given",
        path=key,
        found=found,
        fix=f"put it back, or name the contract yourself: {_by_contract(folder)}",
    )


def _by_contract(folder: RunFolder) -> str:
    runs = shlex.quote(str(folder.path.parent))
    return f"trainwright train CONTRACT --runs {runs} --run {folder.name} --resume"


def _contract_of(folder: RunFolder, plan: Json) -> Path | ContractText:
    if "contract_path" in plan:
        return Path(plan["contract_path"])
    text = folder.contract.read_text(encoding="utf-8")
    return ContractText(text, Path(plan["contract_folder"]))
