"""Events of a run, as frozen values, and the observers that receive them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, final

from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json
from trainwright.core.progress import Progress

_NONFINITE: Mapping[str, float] = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Scalar(Protocol):
    """Number that may still be on the device; `item` waits for it."""

    def item(self) -> float:
        """The number."""
        ...


Number = float | Scalar
"""Number on the host, or still on the device."""


def read_number(number: Number) -> float:
    """The number as a float; waits for the device if it is still there."""
    return float(number) if isinstance(number, float | int) else float(number.item())


class OwnNumbers(NamedTuple):
    """User-defined signals of a step: names, totals, and the count of each total. For totals that
    are still on a device, `versions` are their in-place version counters."""

    names: tuple[str, ...] = ()
    totals: tuple[Number, ...] = ()
    counts: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()


NO_OWN = OwnNumbers()


class StepOutcome(NamedTuple):
    """Outcome of one optimizer step.

    `loss` is the mean over the targets of the step, `gradient_norm` the L2 norm before clipping,
    `found_nonfinite` is 0, or positive if the update was dropped on the device. `step_seconds` and
    `data_seconds` are host wall time, `rows` the training rows of the step over all ranks,
    `samples` the feed's cursor after it, `epoch` its epoch, `clipped` 1 if the gradient was
    clipped, `targets` the denominator of the loss, `own` the user-defined signals, `places` the
    positions of a text's rows including padding.
    """

    loss: Number
    learning_rate: float
    gradient_norm: Number
    found_nonfinite: Number
    step_seconds: float
    data_seconds: float
    rows: int
    samples: int
    epoch: int
    clipped: Number = 0.0
    targets: int = 0
    own: OwnNumbers = NO_OWN
    places: int = 0


class StepKept(NamedTuple):
    """A step was applied. Created at every step, so a tuple and not a dataclass."""

    progress: Progress
    outcome: StepOutcome


@dataclass(frozen=True, slots=True)
class StepDropped:
    """The update of a step was dropped. `rows` are its training rows."""

    progress: Progress
    why: str
    rows: tuple[int, ...] = ()
    loss: float = math.nan
    gradient_norm: float = math.nan

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "step_dropped",
            **_progress(self.progress),
            "why": self.why,
            "rows": list(self.rows),
            "loss": number_to_json(self.loss),
            "gradient_norm": number_to_json(self.gradient_norm),
        }


@dataclass(frozen=True, slots=True)
class Validated:
    """The validation rows were scored."""

    progress: Progress
    values: Mapping[str, float]
    seconds: float
    improved: bool

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "validated",
            **_progress(self.progress),
            "values": numbers_to_json(self.values),
            "seconds": number_to_json(self.seconds),
            "improved": self.improved,
        }


@dataclass(frozen=True, slots=True)
class Saving:
    """A checkpoint is about to be written.

    Buffered output must reach its file first: a crash between the checkpoint and `Saved` would
    otherwise lose the numbers of steps that are never repeated.
    """

    progress: Progress

    def to_json(self) -> Json:
        """Strict JSON."""
        return {"event": "saving", **_progress(self.progress)}


@dataclass(frozen=True, slots=True)
class SaveBegun:
    """A background save has started, and training continues."""

    progress: Progress

    def to_json(self) -> Json:
        """Strict JSON."""
        return {"event": "save_begun", **_progress(self.progress)}


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is durable. `score` is `NaN` if the state was not scored.

    `seconds` is the time to write it, `stall_seconds` how long training stalled for it;
    `held_seconds` of these it waited for late copies.
    """

    progress: Progress
    checkpoint: str
    seconds: float
    size_bytes: int
    score: float
    stall_seconds: float = 0.0
    held_seconds: float = 0.0

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "saved",
            **_progress(self.progress),
            "checkpoint": self.checkpoint,
            "seconds": number_to_json(self.seconds),
            "size_bytes": self.size_bytes,
            "score": number_to_json(self.score),
            "stall_seconds": number_to_json(self.stall_seconds),
        }


@dataclass(frozen=True, slots=True)
class SaveMissed:
    """A checkpoint could not be written, and the contract lets the run continue; `missed` counts
    such failures in this process, this one included."""

    progress: Progress
    why: str
    missed: int

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "save_missed",
            **_progress(self.progress),
            "why": self.why,
            "missed": self.missed,
        }


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run resumed from a checkpoint; `rejected` lists newer ones that did not verify."""

    progress: Progress
    checkpoint: str
    rejected: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "resumed",
            **_progress(self.progress),
            "checkpoint": self.checkpoint,
            "rejected": list(self.rejected),
        }


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The guard restored an earlier state; `progress` is the current one."""

    progress: Progress
    from_step: int
    why: str

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "rolled_back",
            **_progress(self.progress),
            "from_step": self.from_step,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Ended:
    """The loop has ended. `kind` is the stop reason."""

    progress: Progress
    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    reason: str

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "ended",
            **_progress(self.progress),
            "kind": self.kind,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Noted:
    """Note for the user; `kind` is a keyword to search for."""

    kind: str
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "event": "noted",
            "kind": self.kind,
            "message": self.message,
            "numbers": numbers_to_json(self.numbers),
        }


RareEvent = (
    StepDropped
    | Validated
    | Saving
    | SaveBegun
    | Saved
    | SaveMissed
    | Resumed
    | RolledBack
    | Ended
    | Noted
)
Event = StepKept | RareEvent


def number_to_json(value: float) -> float | Literal["nan", "inf", "-inf"]:
    """Number as strict JSON; a non-finite one becomes its name instead of disappearing."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def number_from_json(value: Json) -> float:
    """Inverse of `number_to_json`.

    Raises:
        ValueError: neither a number nor one of the three names.
    """
    if isinstance(value, str) and value in _NONFINITE:
        return _NONFINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004  one error for one bad file
    return float(value)


def numbers_to_json(values: Mapping[str, float]) -> Json:
    """`number_to_json` of every value."""
    return {name: number_to_json(value) for name, value in values.items()}


def _progress(progress: Progress) -> dict[str, int]:
    return {
        "step": progress.step,
        "attempted": progress.attempted,
        "samples": progress.samples,
        "epoch": progress.epoch,
    }


class Observer(Protocol):
    """Watches a run and cannot steer it.

    An implementation ignores events that it does not know, so that a new one needs no change here.
    It must not modify an event, must not synchronise with the device at every step, and raises
    `StorageFailed` or `OSError`, and nothing else, if it cannot record.
    """

    def observe(self, event: Event) -> None:
        """Receive one event."""
        ...


@final
class Observers:
    """Forwards events to several observers, in order.

    One that cannot record does not stop the run: its failures are counted, and the first of each is
    reported. Any other error is a bug and ends the run, unless `survived` says otherwise.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        announce: Callable[[str], None],
        survived: tuple[type[Exception], ...] = (StorageFailed, OSError),
    ) -> None:
        self._observers = tuple(observers)
        self._announce = announce
        self._survived = survived
        self._failures = [0] * len(self._observers)

    @property
    def failures(self) -> int:
        """Number of times an observer could not record."""
        return sum(self._failures)

    def observe(self, event: Event) -> None:
        """Forward to every observer."""
        for index, observer in enumerate(self._observers):
            try:
                observer.observe(event)
            except self._survived as error:
                self._count(index, error)

    def _count(self, index: int, error: Exception) -> None:
        self._failures[index] += 1
        if self._failures[index] == 1:
            name = type(self._observers[index]).__name__
            why = str(error) or type(error).__name__
            self._announce(f"{name} cannot record and the training goes on: {why}")
