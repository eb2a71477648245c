"""Refuse foreign or modified files in a run folder, and copy a finished one."""

from __future__ import annotations

import shlex
from pathlib import Path

from trainwright.contract.document import Contract
from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import Json, damage_in, read_json
from trainwright.core.process import is_code_allowed, look_for_code_in
from trainwright.predictor.bundle import MANIFEST, read_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.screen import Screen, labelled
from trainwright.tracking.checksums import changed_files, has_checksums
from trainwright.tracking.identity import Identity, read_identity
from trainwright.tracking.run_folder import RunFolder, is_run_folder

LINEAGE = "lineage"


def describe_owner(folder: RunFolder, identity: Identity) -> dict[str, str]:
    """Identity of the run that a bundle belongs to."""
    return {"run": folder.name} | ({LINEAGE: identity.lineage} if identity.lineage else {})


def check_own(folder: RunFolder, within: str = "") -> None:
    """Refuse files of a finished run that it did not write, among those whose path begins with
    `within`; a run without checksums is unfinished, or of an earlier version.

    Raises:
        StorageFailed: a file is modified, missing, or foreign.
    """
    if not has_checksums(folder):
        return
    try:
        changed = [f"{name}: {what}" for name, what in changed_files(folder, within)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageFailed(f"{folder.checksums} cannot be read: {error!r:.200}") from error
    if changed:
        listed = "".join(f"\n    {one}" for one in changed)
        raise StorageFailed(
            f"run {folder.name} holds files that it did not write:{listed}\n"
            f"put back the files of this run; trainwright runs verify {folder.path} checks them"
        )


def read_own_bundle(folder: RunFolder) -> Predictor:
    """Model of a run, after its files and owner were checked.

    Raises:
        Mistake: the bundle is incomplete. StorageFailed: it belongs to another run.
    """
    check_own(folder, folder.bundle.name)
    if is_code_allowed():
        _look_beside_contract(folder)
    predictor = read_bundle(folder.bundle)
    check_owner(folder, read_json(folder.bundle / MANIFEST)["about"], read_identity(folder))
    return predictor


def read_model(folder: Path) -> Predictor:
    """Model of a run, by its folder, or of a bundle; every file is verified first.

    Raises:
        Mistake: neither, a run without a model yet, or a changed file. MissingExtra: a network,
            without PyTorch. StorageFailed: the run's files belong to another run.
    """
    if (folder / MANIFEST).exists() or not is_run_folder(folder):
        return read_bundle(folder)
    bundle = RunFolder.open(folder).bundle
    if bundle.is_dir():
        return read_own_bundle(RunFolder.open(folder))
    raise Mistake(
        Problem(
            f"run {folder.name} has no model yet",
            found=f"no {bundle.name} in {folder}",
            fix=f"let it end: trainwright resume {shlex.quote(str(folder))}",
        )
    )


def _look_beside_contract(folder: RunFolder) -> None:
    """Look for the code of a model in the folder of the run's contract."""
    with damage_in(folder.plan):
        plan = read_json(folder.plan)
        where = plan.get("contract_folder") or Path(plan.get("contract_path", "")).parent
    look_for_code_in(Path(where))


def check_owner(folder: RunFolder, about: Json, identity: Identity) -> None:
    """Refuse a bundle of another run; a bundle without identity belongs to any.

    Raises:
        StorageFailed: it belongs to another run.
    """
    wanted = identity.lineage
    if wanted and about.get(LINEAGE) != wanted:
        raise StorageFailed(
            f"{folder.bundle} belongs to another run ({about.get('run', 'unnamed')!s:.80}), not to "
            f"{folder.name}: put back its own, or let it end: trainwright resume {folder.path}"
        )


def copy_finished(folder: RunFolder, contract: Contract, screen: Screen) -> None:
    """Copy what a finished run has written since its last checkpoint, if its contract asks for
    copies. A failure is only reported."""
    remote = contract.training.checkpointing.remote
    if remote == "off":
        return
    # Imported here: few runs are copied.
    from trainwright.checkpoint.copies.copied_file_sets import open_sets
    from trainwright.checkpoint.copies.run_copies import RunCopies

    try:
        copies = RunCopies(folder, open_sets(remote, folder.name), read_identity(folder).lineage)
        if copies.is_of_another():
            raise StorageFailed(f"the copies in {copies} belong to another run")
        copies.copy(copies.moment())
    except StorageFailed as error:
        text = f"the finished run is not copied to {remote}/{folder.name}: {error}"
        screen.say(labelled("warning", text))
