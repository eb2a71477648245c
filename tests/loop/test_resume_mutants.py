"""A resume that restores something wrongly is seen: each mutant disturbs one component.

Row F-13.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from canary import (  # noqa: E402
    STEPS,
    Canary,
    Setting,
    everything,
    start,
)
from comparing import differences  # noqa: E402
from cuts import (  # noqa: E402
    EARLY,
    EARLY_STEP,
    FULL,
    SPARSE,
    stepwise,
    stop_at,
    unbroken,
)
from stepwise import steps_that_differ  # noqa: E402
from trainwright.checkpoint.state import Snapshot, Stateful  # noqa: E402
from trainwright.core.errors import NoValidCheckpoint  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402

pytestmark = pytest.mark.torch


# A resume that restores something wrongly must be seen: each mutant disturbs one component.

Mutant = Callable[[Canary, MemoryCheckpoints], None]


def not_restored(part: str) -> Mutant:
    return lambda canary, _: canary.change(
        state={**canary.job.state, part: NotRestored(canary.job.state[part])}
    )


def then(part: str, disturb: Callable[[], object]) -> Mutant:
    """Restore it, and disturb it."""
    return lambda canary, _: canary.change(
        state={**canary.job.state, part: Disturbed(canary.job.state[part], disturb)}
    )


def tensor(part: str, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Mutant:
    def mutate(snapshot: Snapshot) -> Snapshot:
        assert name in snapshot.tensors
        changed = {**snapshot.tensors, name: change(snapshot.tensors[name])}
        return Snapshot(tensors=changed, values=snapshot.values)

    return saved(part, mutate)


def value(part: str, name: str, change: Callable[[float], float]) -> Mutant:
    def mutate(snapshot: Snapshot) -> Snapshot:
        values = snapshot.values
        before = values[name]
        number = before if isinstance(before, int | float) else float(str(before))
        changed = {**values, name: change(number)}
        return Snapshot(tensors=snapshot.tensors, values=changed)

    return saved(part, mutate)


def saved(part: str, mutate: Callable[[Snapshot], Snapshot]) -> Mutant:
    """Change what the newest checkpoint holds."""

    def apply(_: Canary, checkpoints: MemoryCheckpoints) -> None:
        newest = checkpoints.kept[-1]
        parts = {**newest.parts, part: mutate(newest.parts[part])}
        checkpoints.kept[-1] = replace(newest, parts=parts)

    return apply


def forget_the_cursor(canary: Canary, _: MemoryCheckpoints) -> None:
    canary.change(feed=NeverMoved(canary.feed))


@dataclass(frozen=True)
class NotRestored:
    inner: Stateful

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Forgotten."""


@dataclass(frozen=True)
class Disturbed:
    inner: Stateful
    disturb: Callable[[], object]

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.inner.restore(snapshot)
        self.disturb()


@dataclass(frozen=True)
class NeverMoved:
    inner: object

    def next_step(self) -> object:
        return self.inner.next_step()

    def seek(self, samples: int) -> None:
        """Forgotten."""


def one_bit(tensor: torch.Tensor) -> torch.Tensor:
    """The next larger number in one place."""
    changed = tensor.clone()
    flat = changed.view(-1)
    flat[0] = torch.nextafter(flat[0], torch.tensor(torch.inf))
    return changed


MUTANTS: dict[str, Mutant] = {
    "model not restored": not_restored("model"),
    "optimizer not restored": not_restored("optimizer"),
    "random not restored": not_restored("random"),
    "patience not restored": not_restored("patience"),
    "cursor not moved": forget_the_cursor,
    "one bit of a weight": tensor("model", "0.weight", one_bit),
    "one bit of a running mean": tensor("model", "1.running_mean", one_bit),
    "running variance from the start": tensor("model", "1.running_var", torch.ones_like),
    "batches counted from the start": tensor("model", "1.num_batches_tracked", torch.zeros_like),
    "first moment from the start": tensor("optimizer", "state/5.bias/exp_avg", torch.zeros_like),
    "one bit of a first moment": tensor("optimizer", "state/0.weight/exp_avg", one_bit),
    "one bit of a second moment": tensor("optimizer", "state/0.weight/exp_avg_sq", one_bit),
    "optimizer's step + 1": tensor("optimizer", "state/0.weight/step", lambda step: step + 1),
    "optimizer's step - 1": tensor("optimizer", "state/4.bias/step", lambda step: step - 1),
    "one draw of torch": then("random", lambda: torch.rand(1)),
    "one draw of numpy": then("random", np.random.rand),
    "one draw of python": then("random", random.random),
    "best value": value("patience", "best", lambda best: best - 1000),
    "best step": value("patience", "best_step", lambda step: step + 1),
    "without gain + 1": value("patience", "without_gain", lambda count: count + 1),
    "without gain from the start": value("patience", "without_gain", lambda count: -1),
    "last told step": value("patience", "told_step", lambda step: -1),
    "samples + 1": value("progress", "samples", lambda samples: samples + 1),
    "samples - a step": value("progress", "samples", lambda samples: samples - 4),
    "step + 1": value("progress", "step", lambda step: step + 1),
    "step - 1": value("progress", "step", lambda step: step - 1),
    "attempted + 1": value("progress", "attempted", lambda step: step + 1),
    "epoch + 1": value("progress", "epoch", lambda epoch: epoch + 1),
}


REFUSED = (ValueError, NoValidCheckpoint)
"""Batch norm refuses a micro-batch of one row, a restore the progress of another step."""

OF_THE_END = "epoch + 1"
"""Each step says its epoch itself: only a run that makes none shows the wrong one."""


def ends_alike(mutate: Mutant, setting: Setting, cut: int, folder: Path) -> bool:
    checkpoints = MemoryCheckpoints()
    first = start(folder, checkpoints, setting)
    stop_at(first, cut)
    first.fit()
    second = start(folder, checkpoints, setting, process=100)
    mutate(second, checkpoints)
    try:
        ended = second.fit()
    except REFUSED:
        return False
    return not differences(everything(second, ended), unbroken(setting)[0])


@pytest.mark.row("F-13")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_resume_that_restores_one_thing_wrongly_is_seen(name: str, tmp_path: Path) -> None:
    cuts = [(SPARSE, 5), (EARLY, 7), (EARLY, EARLY_STEP), (SPARSE, STEPS)]
    assert not all(
        ends_alike(MUTANTS[name], setting, cut, tmp_path / str(number))
        for number, (setting, cut) in enumerate(cuts)
    )


@pytest.mark.row("F-13")
@pytest.mark.parametrize("name", [name for name in MUTANTS if name != OF_THE_END])
def test_the_induction_over_the_steps_sees_it_too(name: str, tmp_path: Path) -> None:
    assert any(
        is_seen(name, tmp_path / title, setting)
        for title, setting in (("full", FULL), ("early", EARLY))
    )


def is_seen(name: str, folder: Path, setting: Setting) -> bool:
    try:
        return bool(steps_that_differ(stepwise(folder, setting, MUTANTS[name])))
    except REFUSED:
        return True


@pytest.mark.row("F-13")
def test_the_same_way_without_a_mutation_is_alike(tmp_path: Path) -> None:
    cuts = [(SPARSE, 5), (EARLY, 7), (EARLY, EARLY_STEP), (SPARSE, STEPS)]
    for number, (setting, cut) in enumerate(cuts):
        assert ends_alike(lambda *_: None, setting, cut, tmp_path / str(number))
