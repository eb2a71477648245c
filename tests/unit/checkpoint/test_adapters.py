"""The state of modules, optimizers and generators goes out and comes back."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from trainwright.checkpoint.state import Snapshot, merge_state
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.checkpoint.states.random_state import RandomState
from trainwright.core.errors import Mistake

pytestmark = pytest.mark.torch


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 5)
        self.head.weight = self.embed.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.embed(codes)))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randint(0, 5, (8,))).square().sum().backward()
        optimizer.step()


def adamw(model: nn.Module, **more: object) -> torch.optim.Optimizer:
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-2, **more)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


@pytest.mark.parametrize(
    "build",
    [adamw, sgd, lambda model: adamw(model, fused=True), lambda model: adamw(model, amsgrad=True)],
)
@pytest.mark.parametrize("used", [False, True])
def test_training_goes_on_with_the_same_bits(
    build: Callable[[nn.Module], torch.optim.Optimizer], used: bool
) -> None:
    torch.manual_seed(0)
    model = Tied()
    optimizer = build(model)
    train(model, optimizer, 3)
    optimizer.param_groups[0]["lr"] = 0.003
    named = list(model.named_parameters())
    shots = [
        ModuleState(model).snapshot(),
        OptimizerState(optimizer, named).snapshot(),
        RandomState().snapshot(),
    ]
    train(model, optimizer, 4)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    other = Tied()
    again = build(other)
    if used:
        train(other, again, 2)
    states = [ModuleState(other), OptimizerState(again, other.named_parameters()), RandomState()]
    for state, shot in zip(states, shots, strict=True):
        state.restore(shot)
    train(other, again, 4)
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    assert other.head.weight is other.embed.weight
    # The snapshot was not written to by the training after it.
    restored = OptimizerState(again, other.named_parameters())
    restored.restore(shots[1])
    fresh = restored.snapshot()
    assert all(torch.equal(fresh.tensors[k], v) for k, v in shots[1].tensors.items())


def test_tied_tensors_are_stored_once() -> None:
    snapshot = ModuleState(Tied()).snapshot()
    assert "head.weight" not in snapshot.tensors
    assert snapshot.values == {"tied": {"head.weight": "embed.weight"}}


def test_another_module_is_refused_and_left_alone() -> None:
    model = Tied()
    before = model.embed.weight.clone()
    snapshot = ModuleState(nn.Sequential(nn.Linear(2, 2))).snapshot()
    with pytest.raises(Mistake, match="another model"):
        ModuleState(model).restore(snapshot)
    tensors = {name: tensor + 1 for name, tensor in ModuleState(model).snapshot().tensors.items()}
    tensors["head.bias"] = torch.zeros(6)
    with pytest.raises(Mistake, match=r"head\.bias"):
        ModuleState(model).restore(
            Snapshot(tensors=tensors, values={"tied": {"head.weight": "embed.weight"}})
        )
    assert torch.equal(model.embed.weight, before)


def test_a_lost_tie_is_refused() -> None:
    snapshot = ModuleState(Tied()).snapshot()
    with pytest.raises(Mistake, match=r"head\.weight = embed\.weight"):
        ModuleState(Tied()).restore(Snapshot(tensors=snapshot.tensors, values={"tied": {}}))


def test_moments_follow_names_and_not_positions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(4, 3)).sum().backward()
    optimizer.step()
    snapshot = OptimizerState(optimizer, model.named_parameters()).snapshot()
    turned = torch.optim.Adam(list(model.parameters())[::-1])
    OptimizerState(turned, model.named_parameters()).restore(snapshot)
    for parameter in model.parameters():
        wanted = optimizer.state[parameter]["exp_avg"]
        assert torch.equal(turned.state[parameter]["exp_avg"], wanted)
        assert turned.state[parameter]["exp_avg"].data_ptr() != wanted.data_ptr()


def test_another_grouping_is_refused() -> None:
    model = Tied()
    snapshot = OptimizerState(sgd(model), model.named_parameters()).snapshot()
    with pytest.raises(Mistake, match="another optimizer"):
        OptimizerState(adamw(model), model.named_parameters()).restore(snapshot)


def test_every_generator_comes_back() -> None:
    random.gauss(0, 1)
    np.random.standard_normal()
    snapshot = RandomState().snapshot()

    def draw() -> tuple[float, float, float, float]:
        return (
            random.gauss(0, 1),
            random.random(),
            np.random.standard_normal(),
            torch.rand(()).item(),
        )

    first = draw()
    assert draw() != first
    RandomState().restore(snapshot)
    assert draw() == first


def test_parameters_that_share_memory_come_back_from_a_checkpoint_that_calls_them_tied() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(3, 3, bias=False)
            self.other = nn.Linear(3, 3, bias=False)
            self.other.weight.data = self.one.weight.data

    model = Shared()
    assert ModuleState(model).snapshot().values == {"tied": {}}
    kept = torch.full((3, 3), 2.0)
    tied = {"tied": {"other.weight": "one.weight"}}
    ModuleState(model).restore(Snapshot(tensors={"one.weight": kept}, values=tied))
    assert torch.equal(model.other.weight, kept)
    apart = nn.ModuleDict(
        {"one": nn.Linear(3, 3, bias=False), "other": nn.Linear(3, 3, bias=False)}
    )
    with pytest.raises(Mistake, match=r"lacks other\.weight"):
        ModuleState(apart).restore(Snapshot(tensors={"one.weight": kept}, values=tied))


def test_two_parts_of_one_name_are_refused() -> None:
    one, other = RandomState(), RandomState()
    assert merge_state({"random": one}, {"other": other}) == {"random": one, "other": other}
    with pytest.raises(AssertionError, match="two parts of the state are called random"):
        merge_state({"random": one, "a": one}, {"random": other})
