"""The lean gate: the numbers of the usual one, with fewer of them kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from trainwright.model.gpt.gpt_network import lean_swish_gate, swish_gate

pytestmark = pytest.mark.torch


def joined(dtype: torch.dtype) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(3, 5, 16, generator=draw).mul(3).to(dtype).requires_grad_()


def kept(gate: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Numbers that are saved for the backward pass, those of one storage once."""
    found: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        gate(x * 1)
    return sum(found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_have_the_same_bits(dtype: torch.dtype) -> None:
    found = []
    for gate in (swish_gate, lean_swish_gate):
        x = joined(dtype)
        out = gate(x * 1)
        (gradient,) = torch.autograd.grad(
            out, x, torch.linspace(-1, 1, 8, dtype=dtype).expand_as(out)
        )
        found.append((out.detach(), gradient))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_it_can_be_differentiated_twice() -> None:
    x = joined(torch.float64)
    assert torch.autograd.gradgradcheck(lean_swish_gate, (x,))


def test_the_inputs_alone_are_kept() -> None:
    x = joined(torch.float32)
    assert kept(lean_swish_gate, x) == x.numel()
    assert kept(swish_gate, x) > x.numel()
