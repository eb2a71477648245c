"""Checkpoint on request."""

from __future__ import annotations

from typing import final

from trainwright.core.progress import Progress
from trainwright.core.stop_flag import StopFlag
from trainwright.engine.save_interval import Due


@final
class OrAsked:
    """Due when the wrapped rule says so, and after a step during which a save was requested."""

    def __init__(self, rule: Due, flag: StopFlag) -> None:
        self._rule = rule
        self._flag = flag

    def due(self, progress: Progress) -> bool:
        """Is a save due at this step?"""
        asked = self._flag.take_save()
        return self._rule.due(progress) or asked
