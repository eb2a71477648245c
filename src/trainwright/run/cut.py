"""Where a run was cut before it goes on."""

from __future__ import annotations

from trainwright.core.files import read_json
from trainwright.tracking.events import Noted
from trainwright.tracking.folder import RunFolder
from trainwright.tracking.lines import last_step


def note_cut(folder: RunFolder) -> Noted:
    """How the process before this one ended, and the last step that it has recorded.

    A process that dies may have made more steps: the newest are still in its memory.
    """
    step = last_step(folder.signals)
    record = read_json(folder.record) if folder.record.is_file() else {}
    reason = str(record.get("ending", {}).get("reason", "")).partition(";")[0]
    if not step:
        text = "the run was cut before its first recorded step"
    elif reason:
        text = f"the run ended after step {step:,}: {reason}"
    else:
        text = f"the run died after step {step:,} or a later one: its process left no word"
    return Noted("cut", text, {"step": step})
