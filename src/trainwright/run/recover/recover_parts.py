"""Download and verification of a run's copied parts. Needs torch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from trainwright.checkpoint.copies.copied_file_sets import CopiedFile, CopiedSet, FileSets
from trainwright.checkpoint.copies.recovery import (
    CopyRequirements,
    NothingCopied,
    recover_checkpoints,
)
from trainwright.checkpoint.copies.run_copies import OWN
from trainwright.checkpoint.storages.object_files import open_system
from trainwright.checkpoint.storages.object_storage import ObjectStorage
from trainwright.checkpoint.strict_json import Damaged
from trainwright.contract.document import Contract
from trainwright.core.errors import NoValidCheckpoint, StorageFailed
from trainwright.core.files import storage_errors
from trainwright.core.formatting import show_bytes
from trainwright.doctor.verify_checkpoints import WRONG_SHAPE
from trainwright.doctor.verify_run import verify_run
from trainwright.run.compose.compose_checkpoints import direction_of
from trainwright.run.folder.planned_contract import read_planned
from trainwright.tracking.event_log import last_step, size_up_to
from trainwright.tracking.identity import Identity, read_identity
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import inner_trainings

_MOST_SHOWN = 10


def bring_files(found: CopiedSet, sets: FileSets, folder: RunFolder) -> None:
    """Write the files of a set into an empty folder, each verified.

    Raises:
        StorageFailed: one is damaged or missing, they belong to another run than their list says,
            or the disk is full.
    """
    wrong: list[str] = []
    needed = sum(file.size_bytes for file in found.files)
    if (free := shutil.disk_usage(folder.path).free) < needed:
        raise StorageFailed(
            f"{folder.path}: {show_bytes(free)} are free and {show_bytes(needed)} are needed"
        )
    with storage_errors(f"writing {folder.path}"):
        for part in (folder.data, folder.checkpoints):
            part.mkdir()
        for file in found.files:
            try:
                _write(file, sets, folder.path / file.path)
            except Damaged as error:
                wrong.append(f"\n    {file.path}: {error}")
    if wrong:
        raise StorageFailed(f"the copied files in {sets} are damaged:{''.join(wrong)}")
    try:
        lineage = read_identity(folder).lineage
    except WRONG_SHAPE as error:
        raise StorageFailed(
            f"the copied {folder.plan.name} in {sets} is not what the run wrote: {error!r:.200}"
        ) from error
    if lineage != found.lineage:
        raise StorageFailed(f"the copied {folder.plan.name} in {sets} belongs to another run")


def _write(file: CopiedFile, sets: FileSets, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as stream:
        for piece in sets.read(file):
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())


def bring_checkpoints(
    found: CopiedSet, remote: str, folder: RunFolder, say: Callable[[str], None]
) -> None:
    """Restore the checkpoints of the run and of its inner trainings. A training without copied
    checkpoints starts over.

    Raises:
        NoValidCheckpoint: some were copied, and none can be resumed from. StorageFailed: the disk,
            or the storage.
    """
    contract, identity = read_planned(folder), read_identity(folder)
    for training in _trainings(folder, identity):
        away = ObjectStorage(*open_system(f"{remote}/{training.folder.full_name}"))
        wanted = _wanted(training, contract)
        came = recover_checkpoints(training.folder.checkpoints, away, wanted)
        if not isinstance(came, NothingCopied):
            for why in came.rejected:
                say(f"a copy is not used: {why}")
            _cut(training.folder, came.step)
        elif training.part in found.begun or training.folder.evaluation.is_file():
            raise NoValidCheckpoint(
                f"checkpoints of run {found.name} were copied to {away}, and they are missing "
                "there: the run does not start over silently"
            )
        else:
            _begin_again(training.folder)


@final
@dataclass(frozen=True, slots=True)
class _Training:
    part: str
    folder: RunFolder
    identity: Identity


def _trainings(folder: RunFolder, identity: Identity) -> Iterator[_Training]:
    """The run's own training, and those of its folds, other seeds and refit."""
    yield _Training(OWN, folder, identity)
    for kind, path in inner_trainings(folder):
        version = path / "data" / "version.txt"
        if version.is_file():
            called = f"{folder.full_name}-{kind}-{path.name}-{version.read_text()[:12]}"
            path.joinpath("checkpoints").mkdir(exist_ok=True)
            part = f"{path.parent.name}/{path.name}"
            yield _Training(part, RunFolder(path, called), identity.of_part(called))


def _wanted(training: _Training, contract: Contract) -> CopyRequirements:
    return CopyRequirements(
        lineage=training.identity.lineage,
        last_step=last_step(training.folder.signals),
        keeps_best=contract.training.early_stopping != "off"
        and not training.part.startswith("refits/"),
        direction=direction_of(contract.training),
    )


def _cut(folder: RunFolder, step: int) -> None:
    """Truncate as a resume does: later steps are repeated."""
    if folder.evaluation.is_file():
        return
    with storage_errors(f"cutting {folder.path}"):
        for path in (folder.signals, folder.windows):
            if path.is_file():
                with path.open("r+b") as stream:
                    stream.truncate(size_up_to(path, step))


def _begin_again(folder: RunFolder) -> None:
    """Start over: no step of it is stored anywhere."""
    with storage_errors(f"tidying {folder.path}"):
        for path in (folder.signals, folder.windows, folder.events):
            path.unlink(missing_ok=True)
        shutil.rmtree(folder.checkpoints)
        folder.checkpoints.mkdir()


def check_whole(folder: RunFolder, where: str) -> None:
    """Verify the restored run as `runs verify` does.

    Raises:
        NoValidCheckpoint: no checkpoint verifies. StorageFailed: another part does not.
    """
    wrong = [one for one in verify_run(folder) if one.status == "broken"]
    if not wrong:
        return
    shown = [f"\n    {one.what}: {one.message}" for one in wrong[:_MOST_SHOWN]]
    listed = "".join(shown) + (
        f"\n    and {len(wrong) - _MOST_SHOWN} more" * (len(wrong) > _MOST_SHOWN)
    )
    text = f"the copies in {where} are not what the run wrote:{listed}"
    if any(one.what == "checkpoints" for one in wrong):
        raise NoValidCheckpoint(text)
    raise StorageFailed(text)
