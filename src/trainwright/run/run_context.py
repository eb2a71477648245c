"""Context of a process at work on a run, and of a learner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from trainwright.core.stop_flag import StopFlag
from trainwright.run.request.run_request import Additions, Request
from trainwright.run.screen import Screen, StageTimes
from trainwright.tracking.identity import Identity, NoIdentity
from trainwright.tracking.observers import Observer
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.time_spent import Spent


@final
@dataclass(frozen=True, slots=True)
class RunAttempt:
    """A process at work on a request: where it reports, how long its stages take, and its stop
    flag."""

    request: Request
    screen: Screen
    stages: StageTimes
    flag: StopFlag = field(default_factory=StopFlag)


@final
@dataclass(frozen=True, slots=True)
class RunContext:
    """Folder of the run, its observers, its screen, and the stop flag. `goes_on`: the run is
    resumed. Its files are bound to its `identity`; `spent` records how long its trainings take.
    `added` are stop rules and observers of the caller; the observers are among `observers`."""

    folder: RunFolder
    observers: tuple[Observer, ...]
    screen: Screen
    flag: StopFlag
    goes_on: bool = False
    identity: Identity = field(default_factory=NoIdentity)
    spent: Spent = field(default_factory=Spent)
    added: Additions = field(default_factory=Additions)
