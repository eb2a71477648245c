"""Runs of the canary that are stopped or killed at a step, and what they must end with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from canary import (
    STEPS_PER_EPOCH,
    Canary,
    Killed,
    Setting,
    everything,
    journal,
    start,
)
from comparing import differences
from stepwise import FitTo
from trainwright.testing.fakes import MemoryCheckpoints
from trainwright.tracking.events import (
    Event,
    StepKept,
)

FULL, EARLY = Setting(), Setting(stops_early=True)
EARLY_STEP, BEST_STEP = 8, 5
SPARSE = Setting(checkpoint_every=4, validate_every=5)


@cache
def unbroken(setting: Setting) -> tuple[dict[str, object], dict[int, tuple[str, ...]]]:
    with TemporaryDirectory() as folder:
        canary = start(Path(folder), MemoryCheckpoints(), setting)
        ended = canary.fit()
        return everything(canary, ended), journal(canary)


def stop_at(canary: Canary, step: float) -> None:
    """Ask for an orderly end after a step."""

    def react(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == step:
            canary.flag.raise_flag("SIGTERM")

    canary.on_event.append(react)
    if step == 0:
        canary.flag.raise_flag("SIGTERM")


def stepwise(
    folder: Path,
    setting: Setting,
    change: Callable[[Canary, MemoryCheckpoints], None] = lambda canary, store: None,
    begin: Callable[[Path, MemoryCheckpoints, Setting, int], Canary] = start,
) -> FitTo:
    """A canary for `steps_that_differ`; a process that goes on behind a step is changed."""
    processes = itertools.count()

    def fit_to(store: MemoryCheckpoints, step: float) -> Mapping[int, object]:
        process = next(processes)
        canary = begin(folder / str(process), store, setting, process)
        if store.kept and store.kept[-1].step:
            change(canary, store)
        stop_at(canary, step)
        canary.fit()
        return journal(canary)

    return fit_to


def die_at(canary: Canary, kind: type, step: int) -> None:
    """Die while the observers are told of an event of a step."""

    def react(event: Event) -> None:
        if isinstance(event, kind) and event.progress.step == step:
            raise Killed

    canary.on_event.append(react)


def assert_resumes(
    folder: Path, checkpoints: object, setting: Setting, *dead: Canary, process: int = 100
) -> Canary:
    """The run goes on in a new process and ends as the unbroken one; steps made twice are equal."""
    canary = start(folder, checkpoints, setting, process)
    ended = canary.fit()
    whole, steps = unbroken(setting)
    assert differences(everything(canary, ended), whole) == []
    for process in (*dead, canary):
        seen = journal(process)
        assert seen == {step: steps[step] for step in seen}
    return canary


def samples_after(step: int) -> int:
    epochs, rest = divmod(step, STEPS_PER_EPOCH)
    return epochs * 22 + rest * 4
