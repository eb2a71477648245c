"""Null objects: the defaults of a job's optional parts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import final

from trainwright.checkpoint.keeping.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Kept, Loaded, NoCheckpoint, SaveOutcome
from trainwright.core.files import Json
from trainwright.core.progress import Progress
from trainwright.data.loading.feed import StepBatches


@final
class Never:
    """Never due."""

    def due(self, progress: Progress) -> bool:  # noqa: ARG002
        """False."""
        return False


_UNMEASURED = nullcontext()


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
