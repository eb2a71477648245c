"""Processes to break, and what they leave if they are not broken."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from faults.trials import CANARIES, COUNTING, Reference, Trial, read_journal, state_of
from faults.zygote import Zygote


@pytest.fixture(scope="session")
def reference(
    zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Reference]:
    """The unbroken run of a canary, made once."""

    @cache
    def make(name: str) -> Reference:
        folder = tmp_path_factory.mktemp("unbroken") / name
        points = folder / "points.json"
        trial = Trial(zygote, CANARIES[name], folder, how={"count_points": str(points)})
        began = time.monotonic()
        death = trial.once(COUNTING)
        seconds = time.monotonic() - began
        assert death.code in (0, 3), death.output
        assert not trial.run.report.exists(), "a page that nobody asked for is drawn"
        (attempt,) = read_journal(folder / "journal.txt")
        assert list(attempt.steps) == list(range(1, len(attempt.steps) + 1))
        return Reference(
            state_of(trial.run), attempt.steps, json.loads(points.read_text()), seconds
        )

    return make


@pytest.fixture
def trial(zygote: Zygote, tmp_path: Path) -> Callable[..., Trial]:
    """A new run of a canary."""

    def lay(name: str, number: int = 0, **given: object) -> Trial:
        folder = tmp_path / f"{name}-{number}"
        return Trial(zygote, CANARIES[name], folder, **given)  # type: ignore[arg-type]

    return lay


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A folder with three checkpoints."""
    # Torch is imported where a test has asked for it.
    from faults.three_checkpoints import write_three

    return write_three(tmp_path / "three")
