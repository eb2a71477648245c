"""Does a graceful shutdown fit the preemption notice?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from trainwright.contract.sections.resume import Resume
from trainwright.contract.sections.section import settled
from trainwright.core.formatting import show_seconds
from trainwright.run.screen import Screen
from trainwright.run.summary import labelled
from trainwright.tracking.events import Ended, Event, Noted, Saved, StepKept, Validated
from trainwright.tracking.observers import Observer, Observers


def watch_grace(section: Resume, observers: Sequence[Observer], screen: Screen) -> GraceWatch:
    """Watch of the shutdown time in all trainings of a run, which notifies its observers."""

    def tell(note: Noted) -> None:
        screen.say(labelled("warning", note.message))
        Observers(observers, screen.say).observe(note)

    return GraceWatch(settled(section.grace_seconds), tell)


@final
class GraceWatch:
    """Records how long steps, validations and saves take, and warns once if the longest of each
    together exceed the grace period.

    A notice may come at the start of a step that is followed by a validation; the checkpoint
    follows both. The first step of a training is a warm-up and does not count.
    """

    def __init__(self, grace_seconds: float, tell: Callable[[Noted], None]) -> None:
        self._grace_seconds = grace_seconds
        self._tell = tell
        self._started = False
        self._longest = {"a step": 0.0, "a validation": 0.0, "a save": 0.0}

    def observe(self, event: Event) -> None:
        """Record a duration."""
        if type(event) is StepKept:
            if event.outcome.step_seconds > self._longest["a step"] and self._started:
                self._longest["a step"] = event.outcome.step_seconds
            self._started = True
        elif isinstance(event, Validated):
            self._longest["a validation"] = max(self._longest["a validation"], event.seconds)
        elif isinstance(event, Saved):
            self._longest["a save"] = max(self._longest["a save"], event.seconds)
            self._judge()
        elif isinstance(event, Ended):
            self._started = False

    def _judge(self) -> None:
        needed = sum(self._longest.values())
        if needed <= self._grace_seconds:
            return
        parts = ", ".join(f"{what} {show_seconds(took)}" for what, took in self._longest.items())
        self._tell(
            Noted(
                "grace",
                f"a graceful shutdown may take {show_seconds(needed)} ({parts}), but the machine "
                f"lasts {show_seconds(self._grace_seconds)} after a notice (resume.grace_seconds): "
                "the checkpoint may come too late",
                {"needed_seconds": needed, "grace_seconds": self._grace_seconds},
            )
        )
        self._grace_seconds = float("inf")
