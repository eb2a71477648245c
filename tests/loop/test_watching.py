"""Invariant 7: observers cannot steer, and a validation leaves everything as found."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from canary import STEPS, Setting, everything, start  # noqa: E402
from trainwright.checkpoint.states.random_state import RandomState  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.job import Every  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Ended,
    Event,
    Saved,
    Saving,
    StepKept,
    StepOutcome,
    Validated,
)

pytestmark = pytest.mark.torch


# 7. Observers cannot steer; validation leaves everything as found.


def test_nothing_in_an_event_can_be_set(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())
    canary.fit()
    resumed = start(tmp_path, MemoryCheckpoints())
    kinds = {type(event) for event in canary.seen.events + resumed.seen.events}
    assert kinds >= {StepKept, Saving, Saved, Validated, Ended}
    for event in canary.seen.events:
        names = (
            event._fields
            if isinstance(event, StepKept)
            else [field.name for field in dataclasses.fields(event)]
        )
        for name in names:
            with pytest.raises(AttributeError):
                setattr(event, name, 0)
        for inner in (getattr(event, name) for name in names):
            if isinstance(inner, Progress | StepOutcome):
                with pytest.raises(AttributeError):
                    setattr(inner, inner._fields[0], 0)
            if isinstance(inner, Mapping):
                with pytest.raises(TypeError):
                    inner["val_loss"] = 0.0


class Meddler:
    """Tries every way that an observer has to steer."""

    def observe(self, event: Event) -> None:
        for change in (
            lambda: setattr(event, "progress", Progress(10**6)),
            lambda: event.values.update(val_loss=-1.0),
            lambda: event.values.clear(),
            lambda: setattr(event.outcome, "loss", math.nan),
        ):
            with pytest.raises((AttributeError, TypeError)):
                change()


def test_a_meddling_observer_changes_nothing(tmp_path: Path) -> None:
    alone = start(tmp_path / "alone", MemoryCheckpoints())
    expected = everything(alone, alone.fit())
    canary = start(tmp_path / "meddled", MemoryCheckpoints())
    canary.change(observers=(Meddler(), *canary.job.observers))
    assert everything(canary, canary.fit()) == expected


def test_validation_leaves_modes_random_numbers_and_cursor_as_found(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())
    inner, seen = canary.job.validate, []

    def validate() -> Mapping[str, float]:
        seen.append((torch.is_grad_enabled(), [m.training for m in canary.model.modules()]))
        torch.rand(3)
        random.random()
        np.random.rand()
        canary.model[3].train()
        return inner()

    found: list[tuple[object, ...]] = []

    def state() -> tuple[object, ...]:
        shot = RandomState().snapshot()
        modes = [module.training for module in canary.model.modules()]
        return (
            shot.packed_values,
            shot.tensors["torch_cpu"].tolist(),
            modes,
            canary.feed.samples,
            torch.is_grad_enabled(),
        )

    class Watch:
        def due(self, progress: Progress) -> bool:
            if progress.step == 2:
                canary.model[1].eval()  # a part that is kept out of training stays out of it
            found.append(state())
            return True

    def after(event: Event) -> None:
        if isinstance(event, Validated):
            assert state() == found[-1]

    canary.on_event.append(after)
    canary.change(validate=validate, validate_every=Watch())
    canary.fit()
    assert len(seen) == STEPS
    assert not any(grad for grad, _ in seen)
    assert not any(training for _, modes in seen for training in modes)
    assert not canary.model[1].training
    assert canary.model[3].training


def test_a_validation_that_fails_leaves_the_modes_as_found(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())

    def fail() -> Mapping[str, float]:
        raise OSError("no validation rows")

    canary.change(validate=fail)
    with pytest.raises(OSError, match="no validation rows"):
        canary.fit()
    assert all(module.training for module in canary.model.modules())


@pytest.mark.parametrize("every", [1, 3, 5])
def test_how_often_is_validated_changes_no_weight(every: int, tmp_path: Path) -> None:
    weights = []
    for name, setting in (("often", Setting(validate_every=every)), ("never", Setting(1000))):
        canary = start(tmp_path / name, MemoryCheckpoints(), setting)
        if name == "never":
            canary.change(validate_every=Every(1000))
        canary.fit()
        weights.append(canary.model.state_dict())
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name])
