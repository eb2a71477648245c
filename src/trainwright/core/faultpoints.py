"""Fault points: named moments of a run at which a test can kill the process, make it fail, or delay
it.

The environment variable `TRAINWRIGHT_FAULT` switches them on: `point:nth:action`, several separated
by commas. `nth` counts the times the point is reached, from 1, or is `*` for every time. The
actions:

    kill          SIGKILL to this process
    raise         an unexpected exception
    enospc        the error of a full disk
    oom           the error of a full memory
    delay=0.5     sleep for this many seconds
    term int usr1 the signal to this process

`rank1:point:nth:action` strikes the process of that rank alone.

Without the variable a point costs one look at an empty tuple, and the points inside a training step
do not exist (`engine.fault_injection`).
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal, final, get_args

FaultPoint = Literal[
    "start",
    "ready",
    "open",
    "plan",
    "data.next",
    "data.worker",
    "step.sched",
    "step.fwd",
    "step.bwd",
    "step.opt",
    "step.done",
    "tree",
    "eval",
    "rollback",
    "ckpt.snapshot",
    "ckpt.open",
    "ckpt.write",
    "ckpt.fsync",
    "ckpt.manifest",
    "ckpt.pre_rename",
    "ckpt.post_rename",
    "ckpt.ledger",
    "ckpt.pointer",
    "ckpt.retain",
    "ckpt.load",
    "ckpt.aside",
    "resume",
    "log.append",
    "file.replace",
    "export",
    "judge",
    "finish",
    "report",
    "copy.file",
    "copy.set",
    "copy.checkpoint",
]

FAULT_POINTS: Mapping[FaultPoint, str] = MappingProxyType(
    {
        "start": "before the contract is read",
        "ready": "data read and prepared, nothing written yet",
        "open": "the run folder is made and locked",
        "plan": "the plan is written, the record is not",
        "data.next": "before the batches of a step are made",
        "data.worker": "in a data worker, before it makes a block",
        "step.sched": "the learning rate of a step is set",
        "step.fwd": "before the forward pass of a micro-batch",
        "step.bwd": "inside the backward pass of a micro-batch",
        "step.opt": "gradients are complete, the weights are not updated",
        "step.done": "the weights are updated, the step is not counted",
        "tree": "a round of boosting is made, its trees are not kept",
        "eval": "before the validation rows are scored",
        "rollback": "an older state is put back and not saved yet",
        "ckpt.snapshot": "the state is copied, nothing of it is written",
        "ckpt.open": "the folder of a checkpoint is made under its temporary name",
        "ckpt.write": "a block of a file is written and not synced",
        "ckpt.fsync": "before a file is forced to the disk",
        "ckpt.manifest": "every file is written, the manifest too",
        "ckpt.pre_rename": "before the checkpoint gets its name",
        "ckpt.post_rename": "the checkpoint has its name, the ledger has no line of it",
        "ckpt.ledger": "the line is in the ledger",
        "ckpt.pointer": "the pointers are moved",
        "ckpt.retain": "old checkpoints are removed",
        "ckpt.load": "before a checkpoint is verified",
        "ckpt.aside": "a damaged checkpoint is renamed, the ledger has no line of that",
        "resume": "one part of the state is restored",
        "log.append": "lines of signals or events are written and not synced",
        "file.replace": "a new version of a file is written beside the old one",
        "export": "the bundle is complete under its temporary name",
        "judge": "before the test rows are scored",
        "finish": "the verdict is written, the record does not say so",
        "report": "the run is finished, its report is not written",
        "copy.file": "a piece of the run's files is copied elsewhere",
        "copy.set": "every file of the run is copied, the list of them is not",
        "copy.checkpoint": "the files and their list are copied, the checkpoint is not",
    }
)
"""Every point, with what has happened when it is reached."""

_SIGNALS = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "int": signal.SIGINT,
    "usr1": signal.SIGUSR1,
}
_VARIABLE = "TRAINWRIGHT_FAULT"


class FaultInjected(Exception):
    """Raised by the action `raise`: an error that no code expects."""


@final
class InjectedFault:
    """Fault armed for a point."""

    def __init__(self, text: str) -> None:
        try:
            self.point, nth, action = text.strip().split(":")
            self._nth = 0 if nth == "*" else int(nth)
            self._action, _, seconds = action.partition("=")
            self._seconds = float(seconds or 0)
        except ValueError:
            raise ValueError(f"{_VARIABLE}: {text!r} is not point:nth:action") from None
        known = self._action in ("raise", "enospc", "oom", "delay", *_SIGNALS)
        if self.point not in get_args(FaultPoint) or not known:
            raise ValueError(f"{_VARIABLE}: {text!r} names no point or action there is")
        self.times = 0

    def strike(self) -> None:
        """The point is reached."""
        self.times += 1
        if self._nth not in (0, self.times):
            return
        match self._action:
            case "raise":
                raise FaultInjected(f"at {self.point}, time {self.times}")
            case "enospc":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "oom":
                raise MemoryError(f"injected at {self.point}")
            case "delay":
                time.sleep(self._seconds)
            case name:
                os.kill(os.getpid(), _SIGNALS[name])


_armed: tuple[InjectedFault, ...] = ()


def arm(text: str) -> None:
    """Arm the faults of `text`, in the syntax of the environment variable, replacing any before.

    Raises:
        ValueError: not a list of faults.
    """
    global _armed
    own = f"rank{os.environ.get('RANK', '0')}"
    faults = []
    for fault in filter(None, map(str.strip, text.split(","))):
        rank, _, rest = fault.partition(":")
        if not rank.startswith("rank"):
            faults.append(InjectedFault(fault))
        elif rank == own:
            faults.append(InjectedFault(rest))
    _armed = tuple(faults)


@contextmanager
def disarmed() -> Iterator[None]:
    """Inside the block no fault strikes or counts: rehearsals are not the run."""
    global _armed
    before, _armed = _armed, ()
    try:
        yield
    finally:
        _armed = before


def is_armed() -> bool:
    """Is any fault armed?"""
    return bool(_armed)


def reached(point: FaultPoint) -> None:
    """Do nothing, unless a fault is armed for this point."""
    for fault in _armed:
        if fault.point == point:
            fault.strike()


arm(os.environ.get(_VARIABLE, ""))
