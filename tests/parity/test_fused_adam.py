"""The fused kernels called straight, against `Optimizer.step` on a twin: bit for bit."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.optim.fused_adam import FusedAdam, stepping_of  # noqa: E402

Bits = list[tuple[bytes, ...]]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.LayerNorm(3))


def adam(of: nn.Module, kind: type = torch.optim.AdamW, **options: object) -> torch.optim.Optimizer:
    first, second, norm = of[0], of[2], of[3]
    groups = [
        {"params": [*first.parameters()], "weight_decay": 0.1, "lr": 0.02},
        {"params": [*second.parameters(), *norm.parameters()], "weight_decay": 0.0},
    ]
    return kind(groups, lr=0.01, betas=(0.8, 0.95), fused=True, **options)


def draw_gradients(of: nn.Module, seed: int, without: frozenset[str] = frozenset()) -> None:
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in of.named_parameters():
        made = torch.randn(parameter.shape, generator=draw)
        parameter.grad = None if name in without else made


def bits(of: nn.Module, optimizer: torch.optim.Optimizer) -> Bits:
    return [
        tuple(
            one.detach().numpy().tobytes()
            for one in (parameter, *(v for v in optimizer.state[parameter].values()))
        )
        for parameter in of.parameters()
    ]


def twins() -> tuple[nn.Module, nn.Module]:
    one = model()
    return one, copy.deepcopy(one)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam])
def test_every_step_leaves_the_bits_of_torch(kind: type) -> None:
    ours, theirs = twins()
    mine, plain = adam(ours, kind), adam(theirs, kind)
    step = stepping_of(mine)
    assert step != mine.step
    for number in range(12):
        # A frozen stretch: parameters come without a gradient, and one enters late.
        without = frozenset({"0.bias"} if number < 5 else {"2.weight"} if number == 8 else ())
        for one in (ours, theirs):
            draw_gradients(one, number, without)
        for optimizer in (mine, plain):
            optimizer.param_groups[0]["lr"] = 0.02 / (1 + number)
        step()
        plain.step()
        assert bits(ours, mine) == bits(theirs, plain), number


@pytest.mark.parametrize("dropped", [0.0, 1.0])
def test_a_step_dropped_or_scaled_on_the_device_is_torch_s(dropped: float) -> None:
    ours, theirs = twins()
    mine, plain = adam(ours), adam(theirs)
    step = stepping_of(mine)
    for number in range(4):
        for one, optimizer in ((ours, mine), (theirs, plain)):
            draw_gradients(one, number)
            optimizer.found_inf = torch.tensor(dropped if number == 2 else 0.0)
            optimizer.grad_scale = torch.tensor(4.0)
        step()
        plain.step()
        assert bits(ours, mine) == bits(theirs, plain), number


def test_a_state_that_was_put_back_is_the_one_that_is_updated() -> None:
    ours, _ = twins()
    mine = adam(ours)
    step = stepping_of(mine)
    state = OptimizerState(mine, ours.named_parameters())
    draw_gradients(ours, 0)
    step()
    snapshot = state.snapshot()
    tensors = {name: one.clone() for name, one in snapshot.tensors.items()}
    saved = Snapshot(tensors=tensors, values=snapshot.values)
    weights = copy.deepcopy(ours.state_dict())
    draw_gradients(ours, 1)
    step()
    after = bits(ours, mine)
    ours.load_state_dict(weights)
    mine.state.clear()  # so that other tensors take the place of those of the last step
    state.restore(saved)
    draw_gradients(ours, 1)
    step()
    assert bits(ours, mine) == after


def is_fast(optimizer: torch.optim.Optimizer) -> bool:
    """Whether Adam's kernel is called without what torch does around it."""
    return isinstance(getattr(stepping_of(optimizer), "__self__", None), FusedAdam)


def test_hooks_and_a_replaced_step_are_still_called() -> None:
    ours, _ = twins()
    mine = adam(ours)
    step = stepping_of(mine)
    draw_gradients(ours, 0)
    step()
    called: list[str] = []
    handle = mine.register_step_post_hook(lambda *_: called.append("hook"))
    step()
    handle.remove()
    torch.optim.lr_scheduler.StepLR(mine, 1)
    mine._opt_called = False
    step()
    assert called == ["hook"]
    assert mine._opt_called


@pytest.mark.parametrize(
    "options", [{"amsgrad": True}, {"maximize": True}, {"lr": torch.tensor(0.1)}]
)
def test_any_other_adam_takes_torch_s_own_way(options: dict[str, object]) -> None:
    ours = model()
    optimizer = torch.optim.AdamW(ours.parameters(), fused=True, **options)
    assert not is_fast(optimizer)


def test_an_optimizer_of_another_kind_takes_its_own_way() -> None:
    class Louder(torch.optim.AdamW):
        def step(self, closure: object = None) -> None:
            raise AssertionError("this one is asked")

    ours = model()
    louder = Louder(ours.parameters(), fused=True)
    assert not is_fast(louder)
    mixed = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.float64))]
    assert not is_fast(torch.optim.AdamW(mixed, fused=True))


def test_a_step_that_is_put_in_later_is_the_one_that_is_called() -> None:
    ours = model()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    step = stepping_of(optimizer)
    called: list[str] = []
    optimizer.step = lambda *_: called.append("later")  # type: ignore[method-assign, assignment]
    step()
    assert called == ["later"]


def test_a_group_that_was_added_later_is_stepped() -> None:
    ours, theirs = twins()
    late: list[Tensor] = []
    optimizers = []
    for one in (ours, theirs):
        optimizer = torch.optim.AdamW(one[0].parameters(), lr=0.01, fused=True)
        optimizers.append(optimizer)
    step = stepping_of(optimizers[0])
    for number in range(3):
        for one, optimizer in zip((ours, theirs), optimizers, strict=True):
            draw_gradients(one, number)
            if number == 1:
                optimizer.add_param_group({"params": list(one[2].parameters())})
        step()
        optimizers[1].step()
        late.append(ours[2].weight.detach().clone())
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)
    assert not torch.equal(late[0], late[2])
