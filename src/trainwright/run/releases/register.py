"""A finished run becomes a version of a model: its files are copied to the registry's."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import child_of, hash_file, hash_value, read_json, storage_errors
from trainwright.predictor.bundle import MANIFEST
from trainwright.registry.registry import Registry, Version
from trainwright.run.folder.check_own_files import check_own, read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.tracking.run_folder import RunFolder


def register_run(folder: RunFolder, model: str, registry: Registry, why: str = "") -> Version:
    """Copy what a judged run wrote, without its checkpoints, and register it as the next version of
    a model. The version of its rows is a hash of the files that were read and of their split,
    whatever became of the columns.

    Raises:
        Mistake: the run has no verdict. StorageFailed: its files are changed, or the disk is full.
    """
    if not folder.evaluation.is_file() or not folder.checksums.is_file():
        raise Mistake(
            Problem(
                f"run {folder.name} has no verdict",
                found=f"no {folder.evaluation.name} in {folder.path}",
                expected="a run that was judged",
                fix=f"let it end: trainwright resume {shlex.quote(str(folder.path))}",
            )
        )
    check_own(folder)
    read_own_bundle(folder)
    result, contract = read_judged(folder), read_planned(folder)
    metric, split = contract.metric.name, folder.data / "split.json"
    facts = read_json(folder.data / "manifest.json")["facts"]
    files = [file["sha256"] for file in facts.get("files", ())]
    version = Version(
        model=model,
        number=0,
        run=folder.name,
        bundle=hash_file(folder.bundle / MANIFEST),
        data=str(read_json(folder.record)["data_version"]),
        rows=hash_value([files, hash_file(split) if split.is_file() else ""]),
        verdict=result.verdict.status,
        purpose=contract.purpose,
        metric=metric,
        value=result.evaluation.metrics[metric].value,
        added="",
    )
    _copy(folder, version_folder(version, registry.artifacts))
    return registry.add(version, why)


def version_folder(version: Version, artifacts: Path) -> Path:
    """The folder of a version's files, named by its bundle's hash: a copy of its run's folder."""
    return child_of(child_of(artifacts, version.model, "a model's name"), version.bundle[:16], "")


def _copy(folder: RunFolder, to: Path) -> None:
    """Copy the files that the run's checksums list; one that is there already is whole."""
    if to.exists():
        return
    new = to.with_name(f".tmp-{os.getpid()}-{to.name}")
    names = [*read_json(folder.checksums)["content"]["files"], folder.checksums.name]
    with storage_errors(f"copying run {folder.name} to {to}"):
        shutil.rmtree(new, ignore_errors=True)
        for name in [*names, folder.record.name]:
            place = new / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder.path / name, place)
        try:
            new.rename(to)
        except OSError:
            shutil.rmtree(new)
            if not to.exists():  # else another process has copied the same
                raise
