"""Muon over kernels: torch's own over the same numbers as matrices, cut and resumed alike."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.contract.sections.training.optimizer import Muon  # noqa: E402
from trainwright.optim.build_optimizer import (  # noqa: E402
    MultiOptimizer,
    build_optimizer,
)
from trainwright.optim.muon import (  # noqa: E402
    ConvMuon,
    hidden_kernels,
)

pytestmark = pytest.mark.torch

OPTIONS = {"momentum": 0.9, "nesterov": True, "adjust_lr_fn": "match_rms_adamw"}
SECTION = Muon(
    name="muon", convolutions="muon", learning_rate=0.02, adamw_learning_rate=0.01, weight_decay=0.1
)


def network(layout: torch.memory_format = torch.contiguous_format) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.Conv2d(6, 8, 3, bias=False),
        nn.Conv2d(8, 8, 1),
        nn.Conv2d(8, 8, 3, groups=2),
        nn.Flatten(),
        nn.Linear(8, 4),
        nn.Linear(4, 2),
    )
    return model.to(memory_format=layout)  # type: ignore[call-overload]


def draw(model: nn.Module, seed: int, without: str = "") -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        made = torch.randn(parameter.shape, generator=generator)
        parameter.grad = None if name == without else made


def weights(model: nn.Module) -> list[bytes]:
    return [p.detach().contiguous().numpy().tobytes() for p in model.parameters()]


def test_it_takes_the_kernels_but_the_first_and_those_in_groups() -> None:
    model = network()
    assert hidden_kernels(model) == {model[2].weight, model[3].weight}
    optimizer = build_optimizer(SECTION, model, rows_per_step=1)
    assert isinstance(optimizer, MultiOptimizer)
    found = [(len(g["params"]), g["lr"], g["weight_decay"]) for g in optimizer.param_groups]
    assert found == [(1, 0.02, 0.1), (2, 0.02, 0.1), (3, 0.01, 0.1), (7, 0.01, 0.0)]
    default = build_optimizer(SECTION.model_copy(update={"convolutions": "adamw"}), model, 1)
    assert len(default.param_groups) == 3


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_its_updates_are_those_of_the_matrices(layout: torch.memory_format) -> None:
    model = network(layout)
    kernels = [model[2].weight, model[3].weight]
    matrices = [nn.Parameter(kernel.detach().flatten(1).clone()) for kernel in kernels]
    ours = ConvMuon([{"params": kernels, "lr": 0.02, "weight_decay": 0.1}], **OPTIONS)
    theirs = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, **OPTIONS)
    for step in range(6):
        draw(model, step, without="2.weight" if step == 2 else "")
        for kernel, matrix in zip(kernels, matrices, strict=True):
            matrix.grad = None if kernel.grad is None else kernel.grad.flatten(1).clone()
        ours.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = 0.02 / (1 + step)
        ours.step()
        theirs.step()
        for kernel, matrix in zip(kernels, matrices, strict=True):
            assert torch.equal(kernel.detach().flatten(1), matrix.detach()), step
            momentum: Tensor = theirs.state[matrix]["momentum_buffer"]
            assert torch.equal(ours.state[kernel]["momentum_buffer"], momentum)
    assert kernels[0].is_contiguous(memory_format=layout)


def test_cut_and_resumed_it_ends_with_the_same_bits() -> None:
    whole, cut = network(), network()
    first = build_optimizer(SECTION, whole, rows_per_step=1)
    for step in range(4):
        draw(whole, step)
        first.step()
    saved = OptimizerState(first, whole.named_parameters()).snapshot()
    assert "state/2.weight/momentum_buffer" in saved.tensors
    cut.load_state_dict(whole.state_dict())
    second = build_optimizer(SECTION, cut, rows_per_step=1)
    draw(cut, 99)
    # A step that the resume must undo altogether.
    before = {name: one.clone() for name, one in cut.state_dict().items()}
    second.step()
    cut.load_state_dict(before)
    OptimizerState(second, cut.named_parameters()).restore(saved)
    for step in range(4, 8):
        for model, optimizer in ((whole, first), (cut, second)):
            draw(model, step)
            optimizer.step()
        assert weights(whole) == weights(cut), step
