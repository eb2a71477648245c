"""Whether a run folder is what was written: checked file by file, changing nothing.

It shares no code with the store that wrote the checkpoints, so a mistake there is seen here. It
needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from trainwright.core.files import Json, read_json
from trainwright.core.hashing import hash_file, hash_value
from trainwright.core.units import many
from trainwright.doctor.checked import WRONG_SHAPE, Checked, broken, note, whole
from trainwright.doctor.verify_checkpoints import newest_step, verify_checkpoints
from trainwright.tracking.folder import RunFolder
from trainwright.tracking.lock import read_holder

_Check: TypeAlias = Callable[[RunFolder], Iterator[Checked]]


def verify_run(folder: RunFolder) -> tuple[Checked, ...]:
    """Every finding. What a killed process leaves, and the next start mends, is a note."""
    found = _checked(folder, (("lock", _lock), ("plan", _plan), ("record", _record), *_TRAINING))
    for inner in sorted(folder.folds.glob("*")) if folder.folds.is_dir() else ():
        of_fold = _checked(RunFolder(inner), _TRAINING)
        found += [replace(one, what=f"fold {inner.name}: {one.what}") for one in of_fold]
    for inner in sorted(folder.seeds.glob("*")) if folder.seeds.is_dir() else ():
        of_seed = _checked(RunFolder(inner), _TRAINING)
        found += [replace(one, what=f"seed {inner.name}: {one.what}") for one in of_seed]
    return (*found, *_checked(folder, (("left over", _left_over),)))


def _checked(folder: RunFolder, checks: Sequence[tuple[str, _Check]]) -> list[Checked]:
    found: list[Checked] = []
    for name, check in checks:
        try:
            found.extend(check(folder))
        except WRONG_SHAPE as error:
            found.append(broken(name, f"not what is written there: {error!r:.200}"))
    return found


def _lock(folder: RunFolder) -> Iterator[Checked]:
    holder = read_holder(folder.lock_file)
    if holder.is_alive_here():
        yield note("lock", f"{holder} is at work: what it writes just now may look broken")


def _plan(folder: RunFolder) -> Iterator[Checked]:
    if _is_script(folder):
        yield whole("plan", "none: the training is that of a script")
        return
    if not folder.plan.exists():
        yield note("plan", "there is none: the run was stopped before it began")
        return
    plan = read_json(folder.plan)
    manifest = read_json(folder.data / "manifest.json")
    files = [file["sha256"] for file in manifest["facts"]["files"]]
    if hash_value({"contract": plan["contract"], "files": files}) != plan["hash"]:
        yield broken("plan", "its hash is not that of its contract and its data files")
    elif manifest["version"] != plan["data"]:
        yield broken("plan", "it is of another version of the data than data/manifest.json")
    elif not folder.contract.is_file():
        yield broken("plan", "contract.yaml is missing")
    else:
        yield whole("plan", f"hash {plan['hash'][:16]}")


def _is_script(folder: RunFolder) -> bool:
    """Whether a script trained here and nothing was judged."""
    return folder.settings.is_file() and not folder.plan.exists()


def _record(folder: RunFolder) -> Iterator[Checked]:
    if not folder.record.exists():
        yield note("record", "there is none yet")
        return
    record = read_json(folder.record)
    attempts = record["attempts"]
    if record.get("ending", {}).get("state") == "finished" and not _is_script(folder):
        model = folder.own_target if folder.own_target.is_file() else folder.bundle / "bundle.json"
        for path in (folder.evaluation, model):
            if not path.is_file():
                yield broken("record", f"the run is finished and {path.name} is missing")
        read_json(folder.evaluation)
    yield whole("record", f"{len(attempts)} start{'s' * (len(attempts) != 1)}")


def _signals(folder: RunFolder) -> Iterator[Checked]:
    if not folder.signals.exists():
        return
    steps = [entry["step"] for entry in _lines(folder.signals)]
    newest = newest_step(folder.checkpoints)
    if steps != list(range(1, len(steps) + 1)):
        yield broken("signals", "a step is missing, doubled or out of order")
    elif len(steps) < newest:
        yield broken("signals", f"they end at step {len(steps)}, a checkpoint is of step {newest}")
    else:
        yield whole("signals", f"steps 1 to {len(steps)}, each once")


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


def _bundle(folder: RunFolder) -> Iterator[Checked]:
    if not folder.bundle.exists():
        return
    manifest = read_json(folder.bundle / "bundle.json")
    for name, written in manifest["files"].items():
        path = folder.bundle / name
        if not path.is_file() or path.is_symlink():
            yield broken("bundle", f"{name} is missing")
        elif (path.stat().st_size, hash_file(path)) != (written["size_bytes"], written["sha256"]):
            yield broken("bundle", f"{name} is not the file that was written")
        else:
            yield whole("bundle", name)


def _left_over(folder: RunFolder) -> Iterator[Checked]:
    for path in sorted(folder.path.rglob(".tmp-*")):
        yield note("left over", f"{path.relative_to(folder.path)}: the next start removes it")


def _lines(path: Path) -> list[Json]:
    """The whole lines of a file; what follows the last newline was being written."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


_TRAINING: tuple[tuple[str, _Check], ...] = (
    ("checkpoints", lambda run: verify_checkpoints(run.checkpoints)),
    ("signals", _signals),
    ("windows", _windows),
    ("events", _events),
    ("bundle", _bundle),
)
"""What every training leaves, also that of a fold."""
