"""A buffer that no checkpoint holds and that the forward pass changes is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from script_jobs import checkpointed_job  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402

pytestmark = pytest.mark.torch


class Centred(nn.Module):
    """Takes a running mean of its outputs off them; `table` never changes."""

    def __init__(self, *, persistent: bool, moving: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.moving = moving
        self.mean: Tensor
        self.register_buffer("mean", torch.zeros(2), persistent=persistent)
        self.register_buffer("table", torch.ones(2), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs)
        if self.moving:
            self.mean = self.mean * 0.9 + outputs.detach().mean(0) * 0.1
        return outputs - self.mean


class KeptMean:
    """A part written by the user."""

    def __init__(self, model: Centred) -> None:
        self.model = model

    def snapshot(self) -> Snapshot:
        return Snapshot(tensors={"mean": self.model.mean})

    def restore(self, snapshot: Snapshot) -> None:
        self.model.mean = snapshot.tensors["mean"].clone()


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
    return tw.LossSum((model(batch[0]) - 1).square().sum(), len(batch[0]))


def make_job(folder: Path, model: Centred, steps: int = 6) -> tw.Job:
    nn.init.constant_(model.layer.weight, 0.5)
    nn.init.constant_(model.layer.bias, 0.1)
    return checkpointed_job(folder, model, objective, steps, lr=0.01)


def test_a_buffer_that_would_be_lost_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.Mistake, match="the first step changed buffers") as refused:
        tw.fit(make_job(tmp_path, Centred(persistent=False)), progress=False)
    (problem,) = refused.value.problems
    assert problem.found == "Centred.mean"
    assert "persistent=True" in problem.fix


def test_a_persistent_buffer_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, first, second = (Centred(persistent=True) for _ in range(3))
    tw.fit(make_job(tmp_path / "whole", whole), progress=False)
    tw.fit(make_job(tmp_path / "cut", first, steps=3), progress=False)
    tw.fit(make_job(tmp_path / "cut", second), progress=False)
    assert torch.equal(second.layer.weight, whole.layer.weight)


def test_a_buffer_that_stands_still_needs_no_state(tmp_path: Path) -> None:
    model = Centred(persistent=False, moving=False)
    assert tw.fit(make_job(tmp_path, model), progress=False).kind == "finished"


def test_a_buffer_that_an_own_part_holds_goes_on(tmp_path: Path) -> None:
    model = Centred(persistent=False)
    job = make_job(tmp_path, model)
    job = replace(job, state={**job.state, "mean": KeptMean(model)})
    assert tw.fit(job, progress=False).kind == "finished"
