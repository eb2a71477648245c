from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.model import causal_attention  # noqa: E402
from trainwright.model import causal_attention as attention_cpu  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.causal_attention import attend, attend_whole  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402

pytestmark = pytest.mark.torch


def drawn(dtype: torch.dtype, length: int = 13) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(3, 2, 3, length, 8, generator=generator, dtype=torch.float64)
    return [part.to(dtype).requires_grad_() for part in parts]


def test_the_whole_matrix_gives_what_the_fused_kernel_gives() -> None:
    ours, theirs = drawn(torch.float64), drawn(torch.float64)
    # The softmax is taken in fp32.
    close = {"rtol": 1e-6, "atol": 1e-6}
    mixed = attend_whole(*ours, 0.0)
    expected = functional.scaled_dot_product_attention(*theirs, is_causal=True)
    torch.testing.assert_close(mixed, expected, **close)
    weight = torch.randn(mixed.shape, dtype=torch.float64)
    (mixed * weight).sum().backward()
    (expected * weight).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, **close)


def test_in_bf16_it_is_as_exact_as_bf16_is() -> None:
    exact = attend(*drawn(torch.float32), 0.0)
    short = attend(*drawn(torch.bfloat16), 0.0)
    assert short.dtype == torch.bfloat16
    torch.testing.assert_close(short.float(), exact, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("dtype", "length", "dropout", "used"),
    [
        (torch.bfloat16, 300, 0.0, "pieces"),
        (torch.bfloat16, 512, 0.0, "pieces"),
        (torch.bfloat16, 513, 0.0, "fused"),
        (torch.bfloat16, 300, 0.1, "whole"),
        (torch.bfloat16, 290, 0.0, "whole"),
        (torch.float32, 300, 0.0, "fused"),
    ],
)
def test_each_window_takes_the_form_that_is_fastest(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, length: int, dropout: float, used: str
) -> None:
    taken: list[str] = ["fused"]
    for form in ("whole", "pieces"):

        def spying(queries: Tensor, *rest: object, form: str = form) -> Tensor:
            taken.append(form)
            return queries

        monkeypatch.setattr(causal_attention, f"attend_{form}", spying)
    # 6 heads of 296 x 296 weights are more than a piece.
    attend(*drawn(dtype, length), dropout)
    assert taken[-1] == used


def test_dropped_weights_keep_the_mean() -> None:
    queries, keys, values = (torch.zeros(200, 1, 50, 4) for _ in range(3))
    mixed = attend_whole(queries, keys, values + 1, 0.25)
    assert float(mixed.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(mixed.std()) > 0.05


@pytest.mark.parametrize("piece", [2**19, 110])
def test_a_gpt_in_bf16_never_looks_ahead_and_is_near_fp32(
    monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """Whether the weights are computed at once, or in pieces of four positions."""
    monkeypatch.setattr(attention_cpu, "_PIECE", piece)
    monkeypatch.setattr(attention_cpu, "_ROWS", 4)
    torch.manual_seed(0)
    section = Gpt(kind="gpt", layers=2, heads=2, width=32, context=16)
    model = build_network(section, TokenShape(11)).eval()
    tokens = torch.randint(0, 11, (3, 16))
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 11
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, again = model(tokens), model(changed)
    assert torch.equal(out[:, :9], again[:, :9])
    assert not torch.equal(out[:, 9:], again[:, 9:])
    torch.testing.assert_close(out.float(), model(tokens), rtol=0.05, atol=0.01)
