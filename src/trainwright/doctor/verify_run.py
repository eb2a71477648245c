"""Integrity of a run folder, checked file by file, read-only.

Independent of the store that wrote the checkpoints, so that a bug there is detected here. Does not
need torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from trainwright.core.files import Json, hash_value, is_unchanged, read_json
from trainwright.core.formatting import many
from trainwright.doctor.verify_checkpoints import (
    WRONG_SHAPE,
    Checked,
    broken,
    newest_step,
    note,
    verify_checkpoints,
    verify_trees,
    whole,
)
from trainwright.planner.budget_allotment import Allotment
from trainwright.tracking.checksums import changed_files, has_checksums
from trainwright.tracking.identity import (
    Identity,
    NoIdentity,
    RunIdentity,
    changed_request,
    read_identity,
)
from trainwright.tracking.lock import read_holder
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import inner_trainings

_Check: TypeAlias = Callable[[RunFolder], Iterator[Checked]]


def verify_run(folder: RunFolder) -> tuple[Checked, ...]:
    """All results. What a killed process leaves and the next start repairs is a note."""
    found = _checked(folder, (("lock", _lock), ("plan", _plan), ("record", _record)))
    found += _checked(folder, (("identity", _identity), ("checksums", _checksums)))
    found += _checked(folder, _training(_identity_of(folder)))
    for kind, inner in inner_trainings(folder):
        of_part = _checked(RunFolder(inner), _of_part(folder, kind, inner))
        found += [replace(one, what=f"{kind} {inner.name}: {one.what}") for one in of_part]
    return (*found, *_checked(folder, (("left over", _left_over),)))


def _checked(folder: RunFolder, checks: Sequence[tuple[str, _Check]]) -> list[Checked]:
    found: list[Checked] = []
    for name, check in checks:
        try:
            found.extend(check(folder))
        except WRONG_SHAPE as error:
            found.append(broken(name, f"unreadable: {error!r:.200}"))
    return found


def _lock(folder: RunFolder) -> Iterator[Checked]:
    holder = read_holder(folder.lock_file)
    if holder.is_alive_here():
        yield note("lock", f"{holder} is running: files that it is writing may look broken")


def _plan(folder: RunFolder) -> Iterator[Checked]:
    if folder.is_of_script:
        yield whole("plan", "none: a training script without a plan")
        return
    if not folder.plan.exists():
        yield note("plan", "there is none: the run was stopped before it started")
        return
    plan = read_json(folder.plan)
    manifest = read_json(folder.data / "manifest.json")
    files = [file["sha256"] for file in manifest["facts"]["files"]]
    samples = Allotment.from_json(plan.get("budget", {})).samples
    began = {"start": plan["start"]} if "start" in plan else {}
    found = hash_value({"contract": plan["contract"], "files": files, **samples, **began})
    if found != plan["hash"]:
        yield broken("plan", "its hash does not match its contract and data files")
    elif manifest["version"] != plan["data"]:
        yield broken("plan", "its data version differs from data/manifest.json")
    elif not folder.contract.is_file():
        yield broken("plan", "contract.yaml is missing")
    elif changed := list(changed_request(plan)):
        for key, found in changed:
            yield broken("plan", f"{key} differs from what the run was given: {found}")
    else:
        yield whole("plan", f"hash {plan['hash'][:16]}")


def _is_finished(folder: RunFolder) -> bool:
    """Did the run reach its verdict, by the record?"""
    if not folder.record.exists():
        return False
    return bool(read_json(folder.record).get("ending", {}).get("state") == "finished")


def _record(folder: RunFolder) -> Iterator[Checked]:
    if not folder.record.exists():
        yield note("record", "there is none yet")
        return
    record = read_json(folder.record)
    attempts = record["attempts"]
    if _is_finished(folder) and not folder.is_of_script:
        model = folder.own_target if folder.own_target.is_file() else folder.bundle / "bundle.json"
        for path in (folder.evaluation, model):
            if not path.is_file():
                yield broken("record", f"the run is finished, but {path.name} is missing")
        judged = read_json(folder.evaluation)["verdict"]["status"]
        if record["ending"]["verdict"] != judged:
            yield broken("record", f"its verdict is not that of {folder.evaluation.name}, {judged}")
    yield whole("record", f"{len(attempts)} start{'s' * (len(attempts) != 1)}")


def _identity(folder: RunFolder) -> Iterator[Checked]:
    if not (folder.plan.exists() or folder.is_of_script):
        return
    identity = read_identity(folder)
    if isinstance(identity, NoIdentity):
        text = "none: started by an earlier version, so its parts are not bound to a run"
        yield note("identity", text)
    else:
        yield whole("identity", f"run {identity.run[:16]}")


def _checksums(folder: RunFolder) -> Iterator[Checked]:
    if not has_checksums(folder):
        if _is_finished(folder) and not folder.is_of_script:
            text = "none: contract, data reports, baselines and evaluation are not checked"
            is_bound = isinstance(read_identity(folder), RunIdentity)
            yield broken("checksums", "they are missing") if is_bound else note("checksums", text)
        return
    changed = list(changed_files(folder))
    yield from (broken(name, what) for name, what in changed)
    if not changed:
        yield whole("checksums", "all files behind the decision match")


def _not_lost(folder: RunFolder) -> Iterator[Checked]:
    """The first checkpoint precedes the first step, so signals without any checkpoint show a loss.
    A script may keep its checkpoints elsewhere."""
    if folder.settings.is_file():
        return
    there = folder.checkpoints.is_dir() and any(folder.checkpoints.iterdir())
    steps = len(_lines(folder.signals)) if folder.signals.exists() else 0
    if steps and not there:
        text = f"none: they are missing, {folder.signals.name} records {many(steps, 'step')}"
        yield broken("checkpoints", text)


def _signals(folder: RunFolder) -> Iterator[Checked]:
    if not folder.signals.exists():
        return
    steps = [entry["step"] for entry in _lines(folder.signals)]
    newest = newest_step(folder.checkpoints)
    # A run that begins at a checkpoint of another one has the signals of its own steps.
    plan = read_json(folder.plan) if folder.plan.exists() else {}
    begin = int(plan.get("start", {}).get("step", 0))
    end = begin + len(steps)
    if steps != list(range(begin + 1, end + 1)):
        yield broken("signals", "a step is missing, doubled or out of order")
    elif end < newest:
        yield broken("signals", f"they end at step {end}, but a checkpoint is at step {newest}")
    else:
        yield whole("signals", f"steps {begin + 1} to {end}, each once")


def _windows(folder: RunFolder) -> Iterator[Checked]:
    if folder.windows.exists():
        yield whole("windows", many(len(_lines(folder.windows)), "window") + " of steps")


def _events(folder: RunFolder) -> Iterator[Checked]:
    if not folder.events.exists():
        return
    numbers = [entry["sequence"] for entry in _lines(folder.events)]
    if numbers != list(range(1, len(numbers) + 1)):
        yield broken("events", "an event is missing, doubled or out of order")
    else:
        yield whole("events", f"{len(numbers)} events")


def _bundle(folder: RunFolder, lineage: str) -> Iterator[Checked]:
    if not folder.bundle.exists():
        return
    manifest = read_json(folder.bundle / "bundle.json")
    if lineage and manifest["about"].get("lineage") != lineage:
        yield broken("bundle", "it belongs to another run")
    for name, written in manifest["files"].items():
        path = folder.bundle / name
        if not path.is_file() or path.is_symlink():
            yield broken("bundle", f"{name} is missing")
        elif not is_unchanged(path, written["size_bytes"], written["sha256"]):
            yield broken("bundle", f"{name} differs from what was written")
        else:
            yield whole("bundle", name)


def _left_over(folder: RunFolder) -> Iterator[Checked]:
    for path in sorted(folder.path.rglob(".tmp-*")):
        yield note("left over", f"{path.relative_to(folder.path)}: the next start removes it")


def _lines(path: Path) -> list[Json]:
    """Complete lines of a file, without an unterminated last one."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _of_part(run: RunFolder, kind: str, inner: Path) -> tuple[tuple[str, _Check], ...]:
    """Checks of the training of a fold, another seed or a refit."""
    known = inner / "data" / "version.txt"
    version = known.read_text(encoding="utf-8") if known.is_file() else ""
    part = f"{run.full_name}-{kind}-{inner.name}-{version[:12]}"
    return _training(_identity_of(run).of_part(part))


def _identity_of(folder: RunFolder) -> Identity:
    """Identity from the plan; an unreadable plan is a separate result."""
    try:
        return read_identity(folder)
    except WRONG_SHAPE:
        return NoIdentity()


def _training(identity: Identity) -> tuple[tuple[str, _Check], ...]:
    """Checks of every training, including folds."""
    lineage = identity.lineage
    return (
        ("checkpoints", lambda run: verify_checkpoints(run.checkpoints, lineage)),
        ("checkpoints", lambda run: verify_trees(run.checkpoints, lineage)),
        ("checkpoints", _not_lost),
        ("signals", _signals),
        ("windows", _windows),
        ("events", _events),
        ("bundle", lambda run: _bundle(run, lineage)),
    )
