"""Resuming with other settings than those of the checkpoint: refused, or recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, final

from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.checkpoint.store import Loaded
from trainwright.core.errors import DataChanged, Mistake, Problem
from trainwright.core.files import Json
from trainwright.run.script.job_settings import DATA, JobSettings

SETTINGS = "settings"
PROGRESS = "progress"
OnChange = Literal["refuse", "record"]
_SHOWN = 8


@final
class SameSettings:
    """Refuses a checkpoint written with other settings, unless changes are to be recorded. Only the
    first one is compared: later ones were written with the current settings."""

    def __init__(
        self,
        settings: JobSettings,
        on_change: OnChange,
        say: Callable[[str], None],
        parts: Collection[str],
    ) -> None:
        self._settings = settings
        self._on_change = on_change
        self._say = say
        self._parts = frozenset(parts)
        self._is_compared = False

    def check(self, found: Loaded) -> None:
        """Compare a checkpoint before anything is restored.

        Raises:
            Mistake: it was written with other settings. DataChanged: with other rows.
        """
        if not self._is_compared:
            self._compare(found)
            self._is_compared = True

    def _compare(self, found: Loaded) -> None:
        if missing := sorted(self._parts - set(found.parts)):
            raise Mistake(
                Problem(
                    f"{found.name} holds no part named {', '.join(missing)}",
                    path="Job.state",
                    found=", ".join(sorted(set(found.parts) - {PROGRESS})),
                    expected="the parts of the job that wrote it",
                    fix="train into another folder, or remove this one to start over",
                )
            )
        self._check_dropped(found)
        before = found.inventory.get(SETTINGS) if isinstance(found.inventory, dict) else None
        changed = self._settings.compare(before)
        if not changed:
            return
        if self._on_change == "record":
            listed = ", ".join(f"{name} {old} -> {new}" for name, old, new in changed[:_SHOWN])
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            self._say(f"resumed with other settings: {listed}{more}")
            return
        if all(name == DATA for name, _, _ in changed):
            raise DataChanged(
                f"the rows of the feed are not those that {found.name} was trained on. Put them "
                'back, train into another folder, or accept them: tw.fit(job, changed="record")'
            )
        raise Mistake([_refused(name, old, new, found.name) for name, old, new in changed[:_SHOWN]])

    def _check_dropped(self, found: Loaded) -> None:
        """Refuse to leave out a part that the checkpoint holds, or announce it."""
        dropped = ", ".join(sorted(set(found.parts) - self._parts - {PROGRESS}))
        if dropped and self._on_change == "record":
            self._say(f"{found.name} holds {dropped}, which the job does not: not restored")
        elif dropped:
            raise Mistake(
                Problem(
                    f"the job does not go on with a part that {found.name} holds: {dropped}",
                    path="Job.state",
                    found=", ".join(sorted(self._parts)),
                    expected="the parts of the job that wrote it",
                    fix="put it back, train into another folder, or go on without it: "
                    'tw.fit(job, changed="record")',
                )
            )


def _refused(name: str, old: Json, new: Json, checkpoint: str) -> Problem:
    return Problem(
        f"{checkpoint} was trained with another value",
        path=name,
        found=str(new),
        expected=str(old),
        fix="put the value back, train into another folder, or accept the new one: "
        'tw.fit(job, changed="record")',
    )


@final
class ChangedOptions:
    """Optimizer state that keeps changed group options on a restore; `name` is the optimizer's name
    in the settings."""

    def __init__(self, state: OptimizerState, name: str, settings: JobSettings) -> None:
        self._state = state
        self._name = name
        self._settings = settings
        self._made = [dict(group) for group in state.optimizer.param_groups]

    def snapshot(self) -> Snapshot:
        """State of the optimizer."""
        return self._state.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Restore everything but the options that the program has changed."""
        self._state.restore(snapshot)
        changed = {name for name, _, _ in self._settings.changed}
        for index, group in enumerate(self._state.optimizer.param_groups):
            for key in group:
                if f"{self._name}.{index}.{key}" in changed:
                    group[key] = self._made[index][key]
