"""Job: the objects that `fit` drives, and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, final

from torch import nn

from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot, Stateful
from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, NoCheckpoint, SaveOutcome
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.progress import Progress
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.guards.step_guard import HaltOnNonFinite, StepGuard
from trainwright.engine.save_interval import Due
from trainwright.engine.stopping.stop_rules import Patience, StopRule
from trainwright.engine.update.step import Step
from trainwright.optim.schedule import Knob
from trainwright.tracking.events import Observer, StepOutcome

_UNMEASURED = nullcontext()

Validate = Callable[[], Mapping[str, float]]
"""Scores the model on validation rows. Called in evaluation mode without gradients."""


def read_values(given: object, watched: str) -> Mapping[str, float]:
    """Validation results by name, as floats; 0-d torch and NumPy values are accepted.

    Raises:
        Mistake: not a mapping, or a value is not a number.
    """
    if not isinstance(given, Mapping):
        raise _mistake(f"`validate` returned {_describe(given)}, not a mapping", given, watched)
    values: dict[str, float] = {}
    for name, value in given.items():
        try:
            values[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise _mistake(f"the value {name!r} is not a number", value, watched) from None
    return MappingProxyType(values)


def _describe(given: object) -> str:
    return "nothing" if given is None else "a single value"


def _mistake(message: str, found: object, watched: str) -> Mistake:
    return Mistake(
        Problem(
            message,
            path="Job.validate",
            found=f"{type(found).__name__} {found!r}"[:160] if found is not None else "None",
            expected=f"a mapping of names to numbers, with {watched!r} among them",
            fix=f'end it with: return {{"{watched}": value}}',
        )
    )


@final
class Never:
    """Never due."""

    def due(self, progress: Progress) -> bool:  # noqa: ARG002
        """False."""
        return False


@final
class NoProbes:
    """Measures no step."""

    def around(self, work: StepBatches) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing to measure."""
        return _UNMEASURED


@final
class NoValidation:
    """No validation."""

    def __call__(self) -> Mapping[str, float]:
        """No values."""
        return {}


@final
class NoCheckpoints:
    """Stores no checkpoints: for loops that need not be resumed."""

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],  # noqa: ARG002
        inventory: Json,  # noqa: ARG002
        score: float | NotScored = NOT_SCORED,
    ) -> SaveOutcome:
        """Write nothing; the empty name says so."""
        return SaveOutcome("", 0.0, 0, step, score)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:  # noqa: ARG002
        """Nothing is pending."""
        return ()

    def taking(self) -> AbstractContextManager[None]:
        """Nothing to prepare."""
        return nullcontext()

    def newest_valid(
        self,
        up_to: int | None = None,  # noqa: ARG002
        further: int = 0,  # noqa: ARG002
    ) -> Loaded | NoCheckpoint:
        """No checkpoint."""
        return NoCheckpoint()


class BatchSource(Protocol):
    """Yields the batches of each step; seekable to any position."""

    def next_step(self) -> StepBatches:
        """Batches of the next step; advances the cursor past them."""
        ...

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed."""
        ...


class OutcomeObserver(Protocol):
    """Keeps statistics that the run depends on: weight averages, metric stop rules."""

    def take_outcome(self, outcome: StepOutcome) -> None:
        """Update them with a step, before the guard judges it."""
        ...


class Probes(Protocol):
    """Measures steps from outside."""

    def around(self, work: StepBatches) -> AbstractContextManager[object]:
        """Context of the step on these batches."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Every:
    """Every n applied steps."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise Mistake(
                Problem(
                    "the interval is less than one step",
                    path="Every.steps",
                    found=str(self.steps),
                    fix="for example tw.Every(100)",
                )
            )

    def due(self, progress: Progress) -> bool:
        """Is this step due?"""
        return progress.step % self.steps == 0


@final
@dataclass(frozen=True, slots=True)
class At:
    """At the given applied steps."""

    steps: frozenset[int]

    def due(self, progress: Progress) -> bool:
        """Is this step due?"""
        return progress.step in self.steps


@final
@dataclass(frozen=True, slots=True)
class Job:
    """What `fit` needs.

    `state` names everything in a checkpoint beyond the progress; it is restored once, after all
    objects are built. A rollback restores it too, except for the feed and for each `StatePart` that
    says `keep`. `rank_by` is the validation value that ranks checkpoints; if empty, the one
    patience watches. `inventory` describes the run beyond its state (versions, hashes, threads).
    """

    model: nn.Module
    feed: BatchSource
    step: Step
    stop_rules: tuple[StopRule, ...]
    state: Mapping[str, Stateful] = field(default_factory=dict)
    knobs: tuple[Knob, ...] = ()
    guard: StepGuard = field(default_factory=HaltOnNonFinite)
    outcome_observers: tuple[OutcomeObserver, ...] = ()
    probes: Probes = field(default_factory=NoProbes)
    observers: tuple[Observer, ...] = ()
    validate: Validate = field(default_factory=NoValidation)
    validate_every: Every | At | Never = field(default_factory=Never)
    patience: Patience = field(default_factory=lambda: Patience("val_loss", "min", float("inf")))
    rank_by: str = ""
    checkpoints: CheckpointStore = field(default_factory=NoCheckpoints)
    checkpoint_every: Due = field(default_factory=Never)
    inventory: Json = field(default_factory=dict)
