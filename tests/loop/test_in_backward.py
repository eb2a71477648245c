"""Updates inside the backward pass: the same bits, and nothing half made is kept."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from objectives import squared_error  # noqa: E402
from trainwright.core.errors import Mistake, NonFinite  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.engine.guards.step_guard import HaltOnNonFinite  # noqa: E402
from trainwright.engine.update.optimizer_in_backward import InBackwardStep, NeverSaveHalf  # noqa: E402
from trainwright.engine.update.step import OptimizerStep, Step  # noqa: E402

pytestmark = pytest.mark.torch


class Net(nn.Module):
    """With a tied weight, dropout, a batch norm, and a parameter that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.2)
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.relu(self.norm(self.first(x)))) @ self.first.weight


def optimizer_of(name: str, model: nn.Module) -> torch.optim.Optimizer:
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim < 2], "lr": 0.003},
    ]
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kinds[name](groups, lr=0.01, fused=True)


def feed(rows: int = 12) -> Feed:
    draw = torch.Generator().manual_seed(2)
    return Feed([torch.randn(rows, 4, generator=draw) for _ in range(2)], 5, seed=1)


def start(name: str, kind: type) -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    torch.manual_seed(0)
    model = Net()
    optimizer = optimizer_of(name, model)
    return model, optimizer, kind(model, squared_error, optimizer)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_an_update_has_the_same_bits(name: str) -> None:
    found = []
    for kind in (OptimizerStep, InBackwardStep):
        model, optimizer, step = start(name, kind)
        rows = feed()
        outcomes = [step(rows.next_step()) for _ in range(9)]
        numbers = [(one.loss, one.gradient_norm, one.found_nonfinite) for one in outcomes]
        state = [optimizer.state[p] for p in model.parameters()]
        found.append((numbers, model.state_dict(), state))
        assert optimizer.param_groups[0]["params"][0] is model.first.weight
    (numbers, weights, state), (others, other_weights, other_state) = found
    assert numbers == others
    for key, tensor in weights.items():
        assert torch.equal(tensor, other_weights[key]), key
    for one, other in zip(state, other_state, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_no_two_gradients_are_kept_at_once() -> None:
    model, _, step = start("adamw", InBackwardStep)
    most = []
    for parameter in model.parameters():
        parameter.register_hook(
            lambda _: most.append(sum(p.grad is not None for p in model.parameters()))
        )
    step(feed().next_step())
    assert len(most) == 4
    assert max(most) == 0
    assert all(p.grad is None for p in model.parameters())


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    model, optimizer, step = start("adamw", InBackwardStep)
    rows = feed()
    step(rows.next_step())
    before = {name: one.clone() for name, one in model.state_dict().items()}
    moments = {k: v.clone() for k, v in optimizer.state[model.first.weight].items()}
    work = rows.next_step()
    work.micro_batches[0][0][0, 0] = math.nan
    outcome = step(work)
    assert outcome.found_nonfinite == 1.0
    assert math.isnan(outcome.loss)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    now = optimizer.state[model.first.weight]
    assert all(torch.equal(now[key], moments[key]) for key in now)


def test_a_gradient_that_is_not_finite_reaches_no_weight() -> None:
    model, optimizer, step = start("adamw", InBackwardStep)
    rows = feed()
    step(rows.next_step())
    handle = model.first.bias.register_hook(lambda gradient: gradient * math.inf)
    outcome = step(rows.next_step())
    handle.remove()
    assert outcome.found_nonfinite == 1.0
    assert not math.isfinite(outcome.gradient_norm)
    for parameter in model.parameters():
        assert bool(torch.isfinite(parameter).all())
        for value in optimizer.state[parameter].values():
            assert bool(torch.isfinite(value).all())
    with pytest.raises(NonFinite, match="gradient norm"):
        NeverSaveHalf(HaltOnNonFinite()).judge(outcome)


def test_a_step_of_several_micro_batches_is_refused() -> None:
    _, _, step = start("adamw", InBackwardStep)
    work = Feed([torch.randn(12, 4), torch.randn(12, 4)], 2, 2).next_step()
    with pytest.raises(Mistake, match="a single micro-batch"):
        step(work)
