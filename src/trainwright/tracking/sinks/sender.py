"""Sends what is new in a run folder to one tracker."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Protocol, final

from trainwright.core.errors import StorageFailed
from trainwright.core.lazy_imports import LazyTable
from trainwright.core.redaction import redact_named
from trainwright.tracking.event_log import last_step
from trainwright.tracking.sinks import Say
from trainwright.tracking.sinks.cursor import FINISHED, Cursor, cursor_path
from trainwright.tracking.sinks.spool import Point, PointBatch, Spool
from trainwright.tracking.sinks.training_facts import TrackedTraining, find_trainings

_POLL_SECONDS = 1.0
_LONGEST_PAUSE = 30.0
_DRAIN_PAUSE = 0.5
_TRIES = 3
_CAUSE = re.compile(r"Caused by \w+\([\"']?(?:<[^<>]*>: )?(.*?)[\"']?\)*$")
_LONGEST_ERROR = 400
_MOST_NAMED = 3

PARENT = "TRAINWRIGHT_TRACKING_PARENT"
"""Environment variable with the tracker's id of a run that this one is a part of, such as that of
the study that it is a trial of."""


class TrackedRun(Protocol):
    """A training as a tracker has it. Any method may raise what the tracker's client raises;
    nothing is lost then, and the call is repeated."""

    def send(self, points: Sequence[Point], cursor: Cursor) -> None:
        """Send points, and note in `cursor`, which is that after them, what else the tracker should
        know. Points that the tracker has already taken must not appear twice."""
        ...

    def rewind(self, cursor: Cursor) -> None:
        """Points above the cursor are invalid: their steps are repeated."""
        ...

    def finish(self, cursor: Cursor) -> None:
        """Send what describes the training as a whole, and how it has ended."""
        ...


OpenRun = Callable[[TrackedTraining, Cursor, str, Say], TrackedRun]
"""Begins a training's run of a tracker, or goes on in the run that the cursor names, which it
fills; the text is the tracker's id of the run that this one is a part of."""

TRACKERS: LazyTable[OpenRun] = LazyTable(
    {
        "mlflow": "trainwright.tracking.sinks.mlflow_run:MlflowRun",
        "tensorboard": "trainwright.tracking.sinks.tensorboard_run:TensorboardRun",
        "wandb": "trainwright.tracking.sinks.wandb_run:WandbRun",
    }
)


@final
class TrainingSender:
    """Sends one training; its run of the tracker is opened once there is something to send."""

    def __init__(
        self,
        training: TrackedTraining,
        kind: str,
        parent: Callable[[], str],
        say: Say,
    ) -> None:
        self._training = training
        self._kind = kind
        self._parent = parent
        self._say = say
        self._path = cursor_path(training.sink_folder, kind)
        self.cursor = Cursor.read(self._path)
        self._spool = Spool(training.folder, self.cursor)
        self._waiting: PointBatch | None = None
        self._tracked: TrackedRun | None = None

    def open(self) -> TrackedRun:
        """Its run of the tracker, begun or gone on with."""
        if self._tracked is None:
            open_run = TRACKERS[self._kind]
            before = deepcopy(self.cursor)
            self._tracked = open_run(self._training, self.cursor, self._parent(), self._say)
            if self.cursor != before:
                self._waiting = None
                self._spool = Spool(self._training.folder, self.cursor)
                self.cursor.write(self._path)
        return self._tracked

    def send_next(self) -> bool:
        """Send the next points; false if there are none. After an error the same points are sent
        by the next call."""
        batch = self._waiting or self._spool.read(self.cursor)
        if not batch.points and not batch.rewound:
            moved = batch.cursor.sequence > self.cursor.sequence
            self.cursor = batch.cursor
            return moved
        self._waiting = batch
        if self._tracked is None:
            # The tracker may start over: then the points are read again.
            self.open()
            return True
        if batch.points:
            self._tracked.send(batch.points, batch.cursor)
        if batch.rewound:
            self._tracked.rewind(batch.cursor)
        self.cursor, self._waiting = batch.cursor, None
        self.cursor.write(self._path)
        return True

    def finish(self) -> None:
        """Send what describes the training as a whole, once for each end of the run."""
        ended = self._training.ended()
        if self._tracked is None and self.cursor.sent.get(FINISHED) == ended:
            return
        tracked = self.open()
        while self.send_next():  # all of it, if the tracker has started over
            pass
        curve = [point for point in self._training.curve() if point.step > self.cursor.curve]
        if curve:
            tracked.send(curve, self.cursor)
            self.cursor.curve = curve[-1].step
        tracked.finish(self.cursor)
        self.cursor.sent[FINISHED] = ended
        self.cursor.write(self._path)
        self._tracked = None


@final
class RunSender:
    """Sends a run and the trainings inside it."""

    def __init__(self, run: TrackedTraining, kind: str, say: Say) -> None:
        self._run = run
        self._kind = kind
        self._say = say
        self._senders: dict[str, TrainingSender] = {}
        self._finished: set[str] = set()

    def send_new(self, deadline: float = math.inf) -> None:
        """Send until nothing is left, or until `deadline` on the monotonic clock; of the trials of
        a study also how they have ended.

        Raises:
            Exception: whatever the tracker's client raises; a later call goes on.
        """
        for training in find_trainings(self._run):
            if training.part in self._finished:
                continue
            sender = self._sender(training)
            while time.monotonic() < deadline and sender.send_next():
                pass
            is_trial = training.in_study and training.part
            if is_trial and training.ended() and time.monotonic() < deadline:
                sender.finish()
                self._finished.add(training.part)

    def finish(self, deadline: float) -> bool:
        """Send what is left and how the run has ended; whether all is sent before `deadline`.

        Raises:
            As `send_new`.
        """
        self.send_new(deadline)
        for training in find_trainings(self._run):
            if time.monotonic() >= deadline:
                return False
            self._sender(training).finish()
        return True

    def _sender(self, training: TrackedTraining) -> TrainingSender:
        if training.part not in self._senders:
            self._senders[training.part] = TrainingSender(
                training, self._kind, lambda: self._parent_of(training), self._say
            )
        return self._senders[training.part]

    def _parent_of(self, training: TrackedTraining) -> str:
        if not training.part:
            return os.environ.get(PARENT, "")
        outer = self._sender(replace(self._run, part=training.outer))
        outer.open()
        return outer.cursor.run


def send_run(
    run: TrackedTraining,
    kind: str,
    say: Say,
    has_ended: Callable[[float], bool],
    drain_seconds: float,
) -> bool:
    """Send a run while it is at work, then for at most `drain_seconds` what is left; whether all
    was sent. `has_ended` waits for some seconds and says whether the run has ended. Only the first
    failure is said: the run goes on, and what is not sent stays in its folder. After the run, a
    tracker that fails three times in a row is given up."""
    sender: RunSender | None = None
    pause, deadline, has_warned, failures = _POLL_SECONDS, math.inf, False, 0
    while True:
        try:
            sender = sender or RunSender(run, kind, say)
            if deadline < math.inf:
                if sender.finish(deadline):
                    return True
            else:
                sender.send_new()
            pause, failures = _POLL_SECONDS, 0
        except Exception as error:
            if not has_warned:
                say(
                    "warning",
                    f"{kind} does not take the run, which goes on: {describe_error(error)}",
                )
            has_warned, failures, pause = True, failures + 1, min(2 * pause, _LONGEST_PAUSE)
        if time.monotonic() >= deadline or (deadline < math.inf and failures >= _TRIES):
            return False
        if deadline < math.inf:
            time.sleep(_DRAIN_PAUSE)
        elif has_ended(pause):
            deadline, failures = time.monotonic() + drain_seconds, 0


def describe_error(error: Exception) -> str:
    """The first line of an error of a tracker's client, or its cause, without secrets."""
    first = (str(error) or type(error).__name__).splitlines()[0]
    cause = _CAUSE.search(first)
    return redact_named((cause[1] if cause else first)[:_LONGEST_ERROR])


def describe_missing(run: TrackedTraining, kind: str) -> str:
    """What a tracker lacks of a run, in words; empty if it has everything."""
    lacking = []
    for training in find_trainings(run):
        try:
            cursor = Cursor.read(cursor_path(training.sink_folder, kind))
        except StorageFailed as error:
            return str(error)
        newest = last_step(training.folder.signals)
        if newest > max(cursor.signals, 0):
            lacking.append(f"steps {max(cursor.signals, 0) + 1:,} to {newest:,} of {training.name}")
        elif cursor.sent.get(FINISHED) != training.ended():
            lacking.append(f"the results of {training.name}")
    if len(lacking) > _MOST_NAMED:
        lacking[_MOST_NAMED:] = [f"something of {len(lacking) - _MOST_NAMED} more"]
    return ", ".join(lacking)
