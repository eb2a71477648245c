"""Losses of preferences by hand, where the margin is not 0."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from trainwright.data.loading.document_dataset import NO_TARGET
from trainwright.objective.preference_losses import ByPair, DpoLoss

pytestmark = pytest.mark.torch


class _Halves(nn.Module):
    """Logits whose softmax is 3/4 and 1/4 after token 0, 1/2 and 1/2 after token 1."""

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.tensor([[math.log(3), 0.0], [0.0, 0.0]])[tokens]


@pytest.mark.parametrize(
    ("margin", "loss", "slope"), [(0.3, 4.0, -40.0), (0.5, 0.0, 0.0), (-0.1, 36.0, -120.0)]
)
def test_ipo_pulls_margins_to_one_half(margin: float, loss: float, slope: float) -> None:
    """With beta 0.1 the difference h = margin / 0.1 is to be 1 / 0.2 = 5: (h - 5)^2."""
    margins = torch.tensor([margin], dtype=torch.float64, requires_grad=True)
    found = DpoLoss(0.1, "ipo").total(margins, torch.zeros(1))
    (found_slope,) = torch.autograd.grad(found.sum, margins)
    assert float(found.sum.detach()) == pytest.approx(loss, abs=1e-9)
    assert float(found_slope) == pytest.approx(slope, abs=1e-9)
    assert found.targets == 1


def test_a_pair_is_scored_by_the_tokens_of_its_answers() -> None:
    """Chosen: 3/4 * 1/2 against 1/8 of the base; rejected: 1/4 against 1/4. h = ln 3."""
    batch = {
        "tokens": torch.tensor([[[1, 0, 1], [1, 0, 1]]]),
        "target": torch.tensor([[[NO_TARGET, 0, 1], [NO_TARGET, 1, NO_TARGET]]]),
        "reference": torch.log(torch.tensor([[1 / 8, 1 / 4]])),
        "scale": torch.full((1, 2), 0.5),
    }
    ipo = ByPair(DpoLoss(0.5, "ipo"))(_Halves(), batch)
    assert float(ipo.sum) == pytest.approx((math.log(3) - 1) ** 2, rel=1e-5)
    sigmoid = ByPair(DpoLoss(0.5, "sigmoid"))(_Halves(), batch)
    assert float(sigmoid.sum) == pytest.approx(math.log(1 + 1 / math.sqrt(3)), rel=1e-5)
