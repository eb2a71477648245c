"""Whether a contract and its data are those that a run was started with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from trainwright.contract.reading.stored_contracts import with_defaults
from trainwright.contract.reading.yaml_reader import yaml_value_text
from trainwright.contract.resumable_fields import differences, is_free
from trainwright.core.errors import ContractMistake, DataChanged, Problem
from trainwright.core.files import Json, damage_in, read_json
from trainwright.run.folder.planned_contract import read_started
from trainwright.run.prepare.prepare_run import Ready
from trainwright.tracking.events import Noted
from trainwright.tracking.run_folder import RunFolder

_SOURCE = "model.source"


def check_same_run(folder: RunFolder, ready: Ready) -> list[Noted]:
    """Refuse to resume with another contract or other data than the run was started with.

    Settings that cannot change a bit may differ; a key unknown to an earlier version counts as its
    default. Returns notes on the changes.
    """
    contract = ready.plan.contract
    with damage_in(folder.plan):
        before = read_started(folder)
        data = str(before["data"])
        started = with_defaults(dict(before["contract"]), contract, ready.document.contract)
        changed = list(differences(started, contract.model_dump(mode="json")))
    files = _changed_files(folder, ready)
    if not files and data == ready.prepared.version:
        return _check_contract(folder, ready, changed)
    what = ", ".join(files) or "the installed libraries prepare it otherwise"
    # Other data may lead to other resolved values: these settings were not changed by the user.
    decided = {choice.path for choice in ready.plan.choices}
    written = [change for change in changed if change[0] not in decided]
    _check_contract(folder, ready, written)
    if ready.plan.contract.resume.data_changed == "refuse":
        raise DataChanged(
            f"the data of run {folder.name} has changed since it was started: {what}. Put the "
            "files back, start a new run without --resume, or accept the changed data: "
            "--set resume.data_changed=record"
        )
    return [
        *_check_contract(folder, ready, changed),
        Noted("data_changed", f"the data has changed since the run was started: {what}"),
    ]


def _check_contract(
    folder: RunFolder, ready: Ready, changed: Sequence[tuple[str, Json, Json]]
) -> list[Noted]:
    accepted = _accepted_code(ready)
    refused = [one for one in changed if not (is_free(one[0]) or one[0].startswith(accepted))]
    if refused:
        raise ContractMistake([_refused(folder, ready, *change) for change in refused])
    # Resume settings are reported when it resumes, and the loader is measured at each start.
    free = [change for change in changed if not change[0].startswith(("resume.", "data."))]
    listed = ", ".join(f"{path} {old} -> {new}" for path, old, new in free)
    text = f"the contract has changed since the run was started: {listed}"
    return [Noted("contract_changed", text)] if free else []


def _accepted_code(ready: Ready) -> tuple[str, ...]:
    """Paths of the code that may have changed."""
    contract = ready.plan.contract
    is_accepted = contract.model.traits.runs_code and contract.resume.code_changed == "record"
    return (_SOURCE,) if is_accepted else ()


def _refused(folder: RunFolder, ready: Ready, path: str, old: Json, new: Json) -> Problem:
    another, fix = "contract", "put the value back"
    if path in {choice.path for choice in ready.plan.choices}:
        another = "value where the contract says auto"
        fix = f"write --set {shlex.quote(f'{path}={yaml_value_text(old)}')} as well"
    traits = ready.plan.contract.model.traits
    if any(f"{path}.".startswith(f"model.{one}.") for one in traits.files):
        what = "code" if traits.runs_code else "base"
        another, fix = f"{what} of its model", f"put the files of the {what} back"
    if path.startswith(_SOURCE) and traits.runs_code:
        fix += ", accept the new code: --set resume.code_changed=record"
    return Problem(
        f"run {folder.name} was started with another {another}",
        path=path,
        found=str(new),
        expected=str(old),
        fix=f"{fix}, or start a new run without --resume",
        place=ready.document.source.place_of(path),
    )


def _changed_files(folder: RunFolder, ready: Ready) -> list[str]:
    manifest = folder.data / "manifest.json"
    with damage_in(manifest):
        files = read_json(manifest)["facts"]["files"]
        before = {str(file["path"]): file["sha256"] for file in files}
        taught = read_json(manifest).get("teacher", {})
    changed = [f.path for f in ready.raw.facts.files if before.get(f.path) != f.sha256]
    if taught.get("sha256", "") != ready.teacher.get("sha256", ""):
        changed.append(f"the teacher {ready.teacher.get('path', '')}".rstrip())
    return changed
