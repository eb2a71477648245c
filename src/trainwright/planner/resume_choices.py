"""What a plan takes for `resume` where the contract says `auto`."""

from __future__ import annotations

from trainwright.contract.resume import Resume
from trainwright.core.files import Json

_AWS_SECONDS, _USUAL_SECONDS = 120.0, 30.0


def resume_choices(section: Resume) -> dict[str, tuple[Json, str]]:
    """Field -> (value, reason) for `resume`."""
    grace = (_USUAL_SECONDS, "what most clouds and schedulers grant")
    if section.notice == "aws":
        grace = (_AWS_SECONDS, "AWS gives notice two minutes ahead")
    return {"grace_seconds": grace}
