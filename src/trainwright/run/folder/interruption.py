"""How the earlier process of a run ended."""

from __future__ import annotations

from trainwright.checkpoint.files.file_entry import TREES
from trainwright.core.files import damage_in, read_json
from trainwright.core.formatting import many
from trainwright.tracking.event_log import last_step, whole_lines
from trainwright.tracking.events import Noted
from trainwright.tracking.run_folder import RunFolder

_SAVED = b'"event": "saved"'


def note_cut(folder: RunFolder) -> Noted:
    """How the previous process ended, and the last step it recorded.

    A process that dies may have made more steps: the newest are still in its memory.
    """
    step, unit = last_step(folder.signals), "step"
    if not step and (trees := _last_tree(folder)):
        step, unit = trees, "tree"
    record = read_json(folder.record) if folder.record.is_file() else {}
    reason = str(record.get("ending", {}).get("reason", "")).partition(";")[0]
    if not step:
        text = "the run was cut before its first recorded step"
    elif reason:
        text = f"the run ended after {unit} {step:,}: {reason}"
    else:
        text = f"the run died after {unit} {step:,} or a later one without recording a reason"
    return Noted("cut", text, {"step": step})


def note_lost_record(folder: RunFolder) -> list[Noted]:
    """What a missing record takes away of a run that has trained."""
    has_trained = any(folder.checkpoints.glob("*")) or folder.bundle.is_dir()
    if folder.record.exists() or not has_trained:
        return []
    text = "record.json is missing: it begins anew, without the attempts before"
    return [Noted("record_missing", f"{text} and the time they took, which a budget cannot count")]


def is_finished(folder: RunFolder) -> bool:
    """Does the run have a verdict, and does its record say so?"""
    if not (folder.evaluation.is_file() and folder.record.is_file()):
        return False
    with damage_in(folder.record):
        return bool(read_json(folder.record).get("ending", {}).get("state") == "finished")


def is_fitted(folder: RunFolder) -> bool:
    """Does the record of a run say that its models are fitted, and not judged yet?"""
    record = read_json(folder.record) if folder.record.is_file() else {}
    with damage_in(folder.record):
        return bool(record.get("ending", {}).get("state") == "fitted")


def saves_recorded(folder: RunFolder) -> str:
    """Evidence that a training has saved before: a network saves a checkpoint before its first
    step. Empty without evidence."""
    steps = len(whole_lines(folder.signals))
    if steps:
        return f"{folder.signals.name} records {many(steps, 'step')}"
    saved = sum(_SAVED in line for line in whole_lines(folder.events))
    return f"{folder.events.name} records {many(saved, 'checkpoint')}" if saved else ""


def _last_tree(folder: RunFolder) -> int:
    """Number of trees in the newest file of a boosting run."""
    found = (TREES.fullmatch(path.name) for path in folder.checkpoints.glob("trees-*"))
    return max((int(match[1]) for match in found if match), default=0)
