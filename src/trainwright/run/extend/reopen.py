"""Reopening a finished run with a new ending."""

from __future__ import annotations

import shlex
from dataclasses import replace

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import damage_in, read_json
from trainwright.core.process import loading
from trainwright.planner.extend_plan import Extension, extend_plan
from trainwright.run.extend.extendable import find_end, keep_evaluation
from trainwright.run.folder.interruption import is_finished
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.request import ExtensionRequest
from trainwright.run.screen import Screen, labelled
from trainwright.tracking.events import Noted
from trainwright.tracking.record import reopen_record
from trainwright.tracking.run_folder import RunFolder


def extend_run(
    folder: RunFolder, wanted: ExtensionRequest, ready: Ready, screen: Screen
) -> tuple[Ready, list[Noted]]:
    """The plan with its new ending, and a note. The verdict is set aside: the run is resumable
    until it has the next.

    An interrupted extension continues if the same is requested again.

    Raises:
        Mistake: the run has not ended, or cannot be extended; nothing was written.
    """
    if not is_finished(folder):
        newest = [Extension.from_json(one) for one in ready.plan.extensions[-1:]]
        if not any(one.by == str(wanted) for one in newest):
            raise Mistake(_not_ended(folder))
        screen.say(labelled("extended", f"by {wanted}, which is under way: it goes on"))
        return ready, []
    end = find_end(folder, ready.plan.contract, wanted)
    with loading():  # only networks need torch
        from trainwright.run.extend.plan_extension import plan_extension
    with damage_in(folder.record):
        verdict = str(read_json(folder.record)["ending"]["verdict"])
    extension = plan_extension(end, ready.plan, ready.prepared, wanted, verdict)
    reopen_record(folder.record)
    folder.checksums.unlink(missing_ok=True)
    keep_evaluation(folder, extension.step)
    screen.say(labelled("schedule", extension.schedule))
    values = ", ".join(f"{path} {value}" for path, value in extension.values.items())
    before = f"after {end.reason} with the verdict {verdict}"
    note = Noted("extended", f"the run is extended by {wanted} {before}: {values}")
    return replace(ready, plan=extend_plan(ready.plan, extension)), [note]


def _not_ended(folder: RunFolder) -> Problem:
    return Problem(
        f"run {folder.name} has not ended: only a finished run is given a new ending",
        path="--for",
        fix=f"let it end first: trainwright resume {shlex.quote(str(folder.path))}",
    )
