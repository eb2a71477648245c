"""Runs that are stopped behind a step, as a signal from outside stops them: in order, with a
checkpoint and without a validation."""

from __future__ import annotations

from pathlib import Path
from typing import final

import pytest

import trainwright as tw
from trainwright.core.errors import Interrupted
from trainwright.core.progress import Progress
from trainwright.engine.stopping.stop_rules import StopReason, StopRequested


@final
class Cut:
    """A stop rule for one step; infinity stops nothing."""

    def __init__(self, step: float) -> None:
        self._step = step

    def reason(self, progress: Progress) -> StopReason | None:
        return StopReason("interrupted", "cut") if progress.step == self._step else None


def run_of(contract: Path, name: str, *overrides: str, resume: bool = False) -> Path:
    """Train in `runs` beside the contract; the run's folder."""
    runs = contract.parent / "runs"
    return tw.train(contract, overrides=overrides, runs=runs, name=name, resume=resume).folder


def cut_run_of(contract: Path, step: int, *overrides: str) -> Path:
    """The run `cut`, stopped behind a step."""
    rule = Cut(step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopRequested, "reason", lambda _, progress: rule.reason(progress))
        with pytest.raises(Interrupted):
            run_of(contract, "cut", *overrides)
    return contract.parent / "runs" / "cut"
