"""What can happen in a run, as frozen values. Observers get them and cannot steer by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from trainwright.core.files import Json
from trainwright.core.progress import Progress


class Scalar(Protocol):
    """One number that may still be on its way from the device; `item` waits for it."""

    def item(self) -> float:
        """The number."""
        ...


Number = float | Scalar
"""A number that is here already, or one that is still on the device."""


def read_number(number: Number) -> float:
    """The number as a float; waits for the device if it is still there."""
    return float(number) if isinstance(number, float | int) else float(number.item())


class OwnNumbers(NamedTuple):
    """What a user named in a step: names, totals, and over how many things each is a total. Of
    totals that are still on a device, `versions` says how often each was changed in place."""

    names: tuple[str, ...] = ()
    totals: tuple[Number, ...] = ()
    counts: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()


NO_OWN = OwnNumbers()


class StepOutcome(NamedTuple):
    """What one optimizer step gave.

    `loss` is the mean over the targets of the step, `gradient_norm` the L2 norm before clipping,
    `found_nonfinite` 0 or, where the update was dropped on the device, more. `step_seconds` and
    `data_seconds` are wall time of the host, `rows` the training rows of the step over all ranks,
    `samples` the cursor of the feed after it, `epoch` the epoch it belongs to, `clipped` 1 where
    clipping made the gradient smaller, `targets` what the loss is the mean over, `own` what a user
    named in it, `places` those of a text's rows with their padding.
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
    """A step is part of the run. Made once a step, so a tuple and not a dataclass."""

    progress: Progress
    outcome: StepOutcome


@dataclass(frozen=True, slots=True)
class StepDropped:
    """The update of a step was not applied. `rows` are the training rows it had."""

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

    What is buffered must reach its file first: a crash between the checkpoint and `Saved` would
    otherwise lose the numbers of steps that are never executed again.
    """

    progress: Progress

    def to_json(self) -> Json:
        """Strict JSON."""
        return {"event": "saving", **_progress(self.progress)}


@dataclass(frozen=True, slots=True)
class SaveBegun:
    """The state is being copied and written, and the training goes on."""

    progress: Progress

    def to_json(self) -> Json:
        """Strict JSON."""
        return {"event": "save_begun", **_progress(self.progress)}


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is on the disk. `score` is `NaN` where the state was not scored.

    `seconds` is what writing it took, `stall_seconds` how long the training stood still for it.
    """

    progress: Progress
    checkpoint: str
    seconds: float
    size_bytes: int
    score: float
    stall_seconds: float = 0.0

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
    """A checkpoint could not be written, and the contract lets the run go on; `missed` so far in
    this process, this one included."""

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
    """The run goes on from a checkpoint; `rejected` says which newer ones did not verify."""

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
    """The guard put the state of an earlier step back; `progress` is where the run is now."""

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
    """The loop is over. `kind` is one word of the stop rule or guard that ended it."""

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
    """Something a person may want to know later; `kind` is one word to search for."""

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

_NONFINITE: Mapping[str, float] = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def number_to_json(value: float) -> float | Literal["nan", "inf", "-inf"]:
    """A number as strict JSON; what is not finite becomes its name instead of going missing."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def number_from_json(value: Json) -> float:
    """Undo `number_to_json`.

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
