"""An optimizer whose state waits in the host's memory makes the same bits, and holds one part of
it near the parameters at a time. Here both memories are the host's; the copies are real."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from objectives import squared_error  # noqa: E402
from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.checkpoint.states.random_state import RandomState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.contract.sections.training.optimizer import Adam, AdamW, AnyOptimizer, Sgd  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import StepLimit  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.optim.build_optimizer import build_optimizer  # noqa: E402
from trainwright.optim.optimizer_protocol import Optimizer, drops_on_device  # noqa: E402
from trainwright.optim.state_offload import OffloadedOptimizer  # noqa: E402

pytestmark = pytest.mark.torch

SECTIONS: dict[str, AnyOptimizer] = {
    "adam": Adam(name="adam", learning_rate=0.01),
    "adamw": AdamW(name="adamw", learning_rate=0.01, weight_decay=0.1),
    "sgd": Sgd(name="sgd", learning_rate=0.01),
    "nesterov": Sgd(name="sgd", learning_rate=0.01, nesterov=True, weight_decay=0.1),
}
Offload = Callable[[Optimizer], Optimizer]


def plain(optimizer: Optimizer) -> Optimizer:
    return optimizer


def offloaded(part_bytes: int) -> Offload:
    def offload(optimizer: Optimizer) -> Optimizer:
        assert isinstance(optimizer, torch.optim.Optimizer)
        return OffloadedOptimizer(optimizer, part_bytes)

    return offload


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
    )


class Run:
    """A run of eleven steps of two micro-batches."""

    def __init__(self, section: AnyOptimizer, offload: Offload) -> None:
        self.model = network()
        self.optimizer = offload(build_optimizer(section, self.model, 8))
        draw = torch.Generator().manual_seed(2)
        x = torch.randn(40, 4, generator=draw)
        self.job = Job(
            model=self.model,
            feed=Feed([x, x.sum(dim=1, keepdim=True)], 4, 2, seed=5),
            step=OptimizerStep(self.model, squared_error, self.optimizer, max_norm=1.0),
            stop_rules=(StepLimit(11),),
            state={
                "model": ModuleState(self.model),
                "optimizer": OptimizerState(self.optimizer, self.model.named_parameters()),
                "random": RandomState(),
            },
        )
        torch.manual_seed(7)

    def bits(self) -> dict[str, bytes]:
        return {
            f"{part} {name}": tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
            for part, one in self.job.state.items()
            for name, tensor in one.snapshot().tensors.items()
            if tensor.ndim
        }


@pytest.mark.parametrize("part_bytes", [1, 300, 2**26])
@pytest.mark.parametrize("name", SECTIONS)
def test_the_bits_are_those_without_it(name: str, part_bytes: int) -> None:
    """Parameters, moments and counters, however the parameters are cut into parts."""
    whole = Run(SECTIONS[name], plain)
    fit(whole.job)
    parted = Run(SECTIONS[name], offloaded(part_bytes))
    fit(parted.job)
    assert parted.bits() == whole.bits()
    counters = [
        {
            key: float(value)
            for key, value in run.job.state["optimizer"].snapshot().tensors.items()
            if not value.ndim
        }
        for run in (whole, parted)
    ]
    assert counters[0] == counters[1]


def test_one_part_at_a_time_lies_near_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(SECTIONS["adamw"], offloaded(300))
    assert isinstance(run.optimizer, OffloadedOptimizer)
    inner = run.optimizer.inner
    homes = {p: dict(state) for p, state in inner.state.items()}
    seen: list[set[Tensor]] = []
    update = type(inner).step

    def step(optimizer: torch.optim.Optimizer) -> object:
        near = {p for p, home in homes.items() if inner.state[p]["exp_avg"] is not home["exp_avg"]}
        assert near == {p for p in optimizer.param_groups[0]["params"] if p.grad is not None}
        seen.append(near)
        return update(optimizer)

    monkeypatch.setattr(inner, "step", lambda: step(inner))
    run.job.step(run.job.feed.next_step())
    assert len(seen) > 2
    assert set().union(*seen) == set(run.model.parameters())
    assert sum(map(len, seen)) == len(homes), "each once"
    for parameter, home in homes.items():
        for name, tensor in home.items():
            assert inner.state[parameter][name] is tensor, "and goes back to where it was"
    assert [len(group["params"]) for group in inner.param_groups] == [2, 4]


def test_the_place_beside_the_parameters_is_there_from_the_start() -> None:
    """An update asks the device for no memory that could be missing."""
    run = Run(SECTIONS["adamw"], offloaded(300))
    assert isinstance(run.optimizer, OffloadedOptimizer)
    inner = run.optimizer.inner
    update, places = type(inner).step, set()

    def step() -> object:
        for parameter in inner.param_groups[0]["params"]:
            for tensor in inner.state[parameter].values():
                places.update({tensor.untyped_storage().data_ptr()} if tensor.ndim else {})
        return update(inner)

    with mock.patch.object(inner, "step", step):
        for _ in range(3):
            run.job.step(run.job.feed.next_step())
    assert len(places) == 1


def test_a_parameter_without_gradient_is_left_alone() -> None:
    whole, parted = (Run(SECTIONS["adamw"], how) for how in (plain, offloaded(1)))
    for run in (whole, parted):
        torch.manual_seed(7)
        run.model[0].weight.requires_grad_(False)
        for _ in range(3):
            run.job.step(run.job.feed.next_step())
        run.model[0].weight.requires_grad_(True)
        fit(run.job)
    for ours, theirs in zip(parted.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_an_update_that_is_dropped_on_the_device_changes_nothing() -> None:
    run = Run(SECTIONS["adamw"], offloaded(1))
    assert isinstance(run.optimizer, OffloadedOptimizer)
    assert drops_on_device(run.optimizer)
    run.job.step(run.job.feed.next_step())
    before = copy.deepcopy(run.bits())
    for parameter in run.model.parameters():
        parameter.grad = torch.full_like(parameter, float("nan"))
    run.optimizer.found_inf = torch.tensor(1.0)
    run.optimizer.step()
    assert run.bits() == before
    run.optimizer.found_inf = torch.tensor(0.0)
    run.optimizer.grad_scale = torch.tensor(2.0)
    for parameter in run.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    run.optimizer.step()
    assert run.bits() != before


def test_an_error_in_an_update_leaves_the_optimizer_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(SECTIONS["adamw"], offloaded(1))
    assert isinstance(run.optimizer, OffloadedOptimizer)

    def fail() -> None:
        raise RuntimeError("lost")

    groups = [list(group["params"]) for group in run.optimizer.param_groups]
    with monkeypatch.context() as patched:
        patched.setattr(run.optimizer.inner, "step", fail)
        with pytest.raises(RuntimeError, match="lost"):
            run.job.step(run.job.feed.next_step())
    assert [list(group["params"]) for group in run.optimizer.param_groups] == groups
    run.job.step(run.job.feed.next_step())


@pytest.mark.parametrize("second", ["plain", "offloaded"])
@pytest.mark.parametrize("cut", [0, 1, 4, 6, 11])
@pytest.mark.parametrize("name", ["adamw", "nesterov"])
def test_a_resumed_run_has_the_same_bits(name: str, cut: int, second: str, tmp_path: Path) -> None:
    """A checkpoint is the same with and without, so either goes on from it."""
    whole = Run(SECTIONS[name], plain)
    fit(whole.job)
    for steps, offload in (
        (cut, offloaded(300)),
        (11, plain if second == "plain" else offloaded(1)),
    ):
        run = Run(SECTIONS[name], offload)
        fit(
            replace(
                run.job,
                stop_rules=(StepLimit(steps),),
                checkpoints=Checkpoints(tmp_path, 1),
                checkpoint_every=Every(4),
            )
        )
    assert run.bits() == whole.bits()


def test_what_is_restored_goes_to_the_host_at_once() -> None:
    """A process that goes on must not need more memory than the one that was lost."""
    first, second = (Run(SECTIONS["adamw"], offloaded(300)) for _ in range(2))
    fit(first.job)
    homes = {p: dict(state) for p, state in second.optimizer.state.items()}
    assert len(homes) == len(list(second.model.parameters()))
    second.job.state["optimizer"].restore(first.job.state["optimizer"].snapshot())
    for parameter, home in homes.items():
        for name, tensor in home.items():
            assert second.optimizer.state[parameter][name] is tensor
