"""Checkpoint on request."""

from __future__ import annotations

from typing import final

from trainwright.core.progress import Progress
from trainwright.core.stop_flag import StopFlag


@final
class SaveRequested:
    """Due after a step during which a save was requested."""

    def __init__(self, flag: StopFlag) -> None:
        self._flag = flag

    def due(self, progress: Progress) -> bool:  # noqa: ARG002
        """Is a save due at this step?"""
        return self._flag.take_save()
