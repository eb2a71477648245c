"""Attention in pieces against torch's, and against the whole matrix."""

from __future__ import annotations

from typing import Literal

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.training.memory import ActivationCheckpointing, ByOp  # noqa: E402
from trainwright.engine.execution.activation_checkpointing import recompute  # noqa: E402
from trainwright.model import causal_attention as attention_cpu  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.causal_attention import (  # noqa: E402  # noqa: E402
    attend_pieces,
    attend_whole,
    takes_pieces,
    within_documents,
)
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads and four positions, where a window has 13."""
    monkeypatch.setattr(attention_cpu, "_PIECE", 110)
    monkeypatch.setattr(attention_cpu, "_ROWS", 4)


def drawn(dtype: torch.dtype) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    parts = torch.randn(3, 3, 13, 2, 8, generator=draw, dtype=torch.float64)
    return [part.to(dtype).transpose(1, 2).requires_grad_() for part in parts]


def documents() -> Tensor:
    """Three windows, whose documents end at other positions."""
    starts = torch.zeros(3, 13, dtype=torch.int64)
    starts[:, 0] = starts[1, 6] = starts[2, 3] = starts[2, 9] = 1
    return within_documents(1 - starts)


def slopes(mixed: Tensor, parts: list[Tensor]) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(mixed.shape, generator=draw, dtype=torch.float64).to(mixed.dtype)
    return torch.autograd.grad((mixed * weight).sum(), parts, create_graph=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-12), (torch.bfloat16, 0.03)])
def test_it_gives_what_the_fused_kernel_gives(
    dtype: torch.dtype, digits: float, masked: bool
) -> None:
    parts = drawn(dtype)
    exact = [part.detach().double().requires_grad_() for part in parts]
    seen: Literal["past"] | Tensor = documents() if masked else "past"
    mask = documents() if masked else torch.ones(13, 13, dtype=torch.bool).tril()
    mixed = attend_pieces(*parts, seen)
    expected = functional.scaled_dot_product_attention(*exact, attn_mask=mask)
    assert mixed.dtype == dtype
    torch.testing.assert_close(mixed.double(), expected, rtol=digits, atol=digits)
    found = torch.autograd.grad(mixed.sum(), parts, retain_graph=True)
    for one, other in zip(found, torch.autograd.grad(expected.sum(), exact), strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=digits, atol=digits)


@pytest.mark.parametrize("masked", [False, True])
def test_it_can_be_differentiated_twice(masked: bool) -> None:
    seen: Literal["past"] | Tensor = documents() if masked else "past"
    found = []
    for mix in (lambda *p: attend_pieces(*p, seen), lambda *p: attend_whole(*p, 0.0, seen)):
        parts = drawn(torch.float32)
        first = slopes(mix(*parts), parts)
        found.append(torch.autograd.grad(sum(one.square().sum() for one in first), parts))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_it_gains_only_where_there_are_several_pieces() -> None:
    assert takes_pieces(torch.zeros(1, 1, 11, 8))
    assert not takes_pieces(torch.zeros(1, 1, 10, 8))


def gradients(how: ActivationCheckpointing) -> list[Tensor]:
    torch.manual_seed(0)
    section = Gpt(kind="gpt", layers=2, heads=2, width=32, context=16)
    model = build_network(section, TokenShape(11))
    assert isinstance(model, GptNetwork)
    recompute(model.blocks, how)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(torch.randint(0, 11, (3, 16)))
    logits.float().square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize(
    "how",
    [
        "full",
        ByOp(kind="by_op", keep=("matmul",)),
        ByOp(kind="by_op", keep=("attention",)),
    ],
)
def test_computed_again_it_gives_the_same_bits(how: ActivationCheckpointing) -> None:
    for one, other in zip(gradients("off"), gradients(how), strict=True):
        assert torch.equal(one, other)
