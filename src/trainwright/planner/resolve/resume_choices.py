"""`resume` for `auto`."""

from __future__ import annotations

from trainwright.contract.sections.resume import Resume
from trainwright.planner.read_device import DeviceFacts
from trainwright.planner.resolve.choice import Chosen

_AWS_SECONDS, _USUAL_SECONDS = 120.0, 30.0


def resume_choices(section: Resume, device: DeviceFacts) -> Chosen:
    """Field -> (value, reason) for `resume`."""
    grace = (_USUAL_SECONDS, "what most clouds and schedulers grant")
    if section.notice == "aws":
        grace = (_AWS_SECONDS, "AWS gives notice two minutes ahead")
    determinism = ("bitwise", "a CPU has algorithms that give the same bits every time")
    if device.kind == "cuda":
        determinism = ("off", "on a GPU it costs speed, and some operations have no such algorithm")
    return {"grace_seconds": grace, "determinism": determinism}
