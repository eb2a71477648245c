"""A checkpoint that somebody outside asks for."""

from __future__ import annotations

from typing import final

from trainwright.core.progress import Progress
from trainwright.core.stop_flag import StopFlag
from trainwright.engine.save_interval import Due


@final
class OrAsked:
    """Due as another rule says, and after the step in which it was asked for."""

    def __init__(self, rule: Due, flag: StopFlag) -> None:
        self._rule = rule
        self._flag = flag

    def due(self, progress: Progress) -> bool:
        """Whether it falls on this step."""
        asked = self._flag.take_save()
        return self._rule.due(progress) or asked
