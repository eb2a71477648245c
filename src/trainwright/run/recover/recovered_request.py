"""Request that resumes a run recovered on another machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json, read_json
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.request.resume_request import request_again
from trainwright.run.request.run_request import Request
from trainwright.tracking.run_folder import RunFolder

_REMOTE = "training.checkpointing.remote"
_MOST_SHOWN = 5


def request_recovered(folder: RunFolder, url: str, command: Sequence[str]) -> Request:
    """As `request_again`, but copies continue where these came from, and the contract is the copied
    one, regardless of local files; its data is at its original path, or in the working folder.

    Raises:
        DataMistake: the data is at neither place; the run folder stays, and can be resumed.
    """
    request = request_again(folder, command)
    remote = url.rstrip("/").rpartition("/")[0]
    if read_planned(folder).training.checkpointing.remote.rstrip("/") != remote:
        others = [one for one in request.overrides if not one.startswith(f"{_REMOTE}=")]
        request = replace(request, overrides=(*others, f"{_REMOTE}={remote}"))
    contract = request.contract
    place = contract.folder if isinstance(contract, ContractText) else contract.parent
    text = folder.contract.read_text(encoding="utf-8")
    for around in (place, Path.cwd()):
        if not _missing(folder, around):
            return replace(request, contract=ContractText(text, around))
    raise _no_data(folder, place)


def _missing(folder: RunFolder, around: Path) -> list[str]:
    """Data files of the run that are not where its contract names them."""
    manifest: Json = read_json(folder.data / "manifest.json")
    names = [str(file["path"]) for file in manifest["facts"]["files"]]
    return [name for name in names if "://" not in name and not (around / name).exists()]


def _no_data(folder: RunFolder, place: Path) -> DataMistake:
    names = _missing(folder, place)
    listed = ", ".join(str(place / name) for name in names[:_MOST_SHOWN])
    more = len(names) - _MOST_SHOWN
    return DataMistake(
        Problem(
            f"run {folder.name} is back in {folder.path}, but its data is not on this machine",
            found=f"nothing at {listed}" + (f" and {more:,} more" if more > 0 else ""),
            expected="the files that the run was started with; copies do not hold them",
            fix=f"put them there and give: trainwright resume {shlex.quote(str(folder.path))}; or, "
            "where contract and data lie elsewhere: trainwright train CONTRACT "
            f"--run {folder.name} --runs {shlex.quote(str(folder.path.parent))} --resume",
        )
    )
