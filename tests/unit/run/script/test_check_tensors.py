"""What a checkpoint cannot hold of a model is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from script_jobs import checkpointed_job  # noqa: E402

pytestmark = pytest.mark.torch


class Counting(nn.Module):
    """Its output grows with the number of its calls, which is its extra state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        scaled: Tensor = self.layer(inputs) * (1 + 0.1 * self.calls)
        return scaled

    def get_extra_state(self) -> Any:
        return {"calls": self.calls}

    def set_extra_state(self, state: Any) -> None:
        self.calls = int(state["calls"])


class AsTensor(Counting):
    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.calls)

    def set_extra_state(self, state: Tensor) -> None:
        self.calls = int(state)


class Unplain(Counting):
    def get_extra_state(self) -> object:
        return {"calls": (self.calls,)}


class OneWay(nn.Linear):
    def get_extra_state(self) -> object:
        return {}


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 1, dtype=torch.cfloat))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs.to(torch.cfloat) @ self.weight).abs()


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
    return tw.LossSum(model(batch[0]).square().sum(), len(batch[0]))


def make_job(folder: Path, inner: nn.Module, steps: int = 4) -> tw.Job:
    model = nn.Sequential(inner)
    if not isinstance(inner, nn.LazyLinear | Complex):
        for one in model.parameters():
            nn.init.constant_(one, 0.5)
    return checkpointed_job(folder, model, objective, steps, lr=0.1)


@pytest.mark.parametrize("kind", [Counting, AsTensor])
def test_extra_state_goes_on(kind: type[Counting], tmp_path: Path) -> None:
    whole, first, second = kind(), kind(), kind()
    tw.fit(make_job(tmp_path / "whole", whole), progress=False)
    tw.fit(make_job(tmp_path / "cut", first, steps=2), progress=False)
    tw.fit(make_job(tmp_path / "cut", second), progress=False)
    assert second.calls == whole.calls == 4
    assert torch.equal(second.layer.weight, whole.layer.weight)


@pytest.mark.parametrize(
    ("make", "path", "fix"),
    [
        (Unplain, "Unplain.get_extra_state", "make what you need of it in set_extra_state"),
        (lambda: OneWay(3, 1), "OneWay.set_extra_state", "write set_extra_state(self, state)"),
        (Complex, "Job.state", "torch.view_as_real"),
        (lambda: nn.LazyLinear(1), "Job.model", "call the model once with a batch"),
    ],
)
def test_what_no_checkpoint_can_hold_is_refused(
    make: Any, path: str, fix: str, tmp_path: Path
) -> None:
    with pytest.raises(tw.Mistake) as refused:
        tw.fit(make_job(tmp_path / "job", make()), progress=False)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert fix in problem.fix
    assert not (tmp_path / "job").exists()


def test_a_lazy_module_that_has_seen_a_batch_is_trained(tmp_path: Path) -> None:
    layer = nn.LazyLinear(1)
    layer(torch.zeros(1, 3))
    assert tw.fit(make_job(tmp_path, layer), progress=False).progress.step == 4
