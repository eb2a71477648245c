"""Losses of pairs of answers against the formulas of their papers, on the same batch."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.contract.sections.metric import Metric
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_dataset import NO_TARGET
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.objective.preference_losses import ByPair, DpoLoss

pytestmark = pytest.mark.torch

PAIRS, LENGTH, TOKENS = 5, 9, 11


class Bigram(nn.Module):
    """Logits of the next token by the last."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(TOKENS, TOKENS, generator=draw, dtype=torch.float64))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]


def made_batch(base: nn.Module, beta: float, *, normalised: bool) -> tuple[Batch, Tensor]:
    """Pairs with prompts and answers of many lengths, and the length of each answer [B, 2]."""
    draw = torch.Generator().manual_seed(1)
    whole = torch.randint(0, TOKENS, (PAIRS, 2, LENGTH + 1), generator=draw)
    tokens, target = whole[..., :-1], whole[..., 1:].clone()
    lengths = torch.randint(1, LENGTH - 2, (PAIRS, 2), generator=draw)
    begins = torch.randint(0, 3, (PAIRS, 2), generator=draw)
    places = torch.arange(LENGTH)
    counted = (places >= begins[..., None]) & (places < (begins + lengths)[..., None])
    target[~counted] = NO_TARGET
    reference = by_hand(base, tokens, target).detach()
    scale = (
        beta / lengths.double() if normalised else torch.full((PAIRS, 2), beta, dtype=torch.float64)
    )
    tensors = {"tokens": tokens, "target": target, "reference": reference, "scale": scale}
    return Batch(tensors, target="target"), lengths


def by_hand(model: nn.Module, tokens: Tensor, target: Tensor) -> Tensor:
    """log p of each answer, token by token."""
    found = torch.zeros(PAIRS, 2, dtype=torch.float64)
    for pair in range(PAIRS):
        for side in range(2):
            logits = model(tokens[pair, side])
            terms = [
                logits[at][target[pair, side, at]] - torch.logsumexp(logits[at], 0)
                for at in range(LENGTH)
                if target[pair, side, at] != NO_TARGET
            ]
            found[pair, side] = torch.stack(terms).sum()
    return found


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("form", ["sigmoid", "ipo"])
@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_the_loss_and_its_gradient_are_those_of_the_paper(
    form: str, beta: float, normalised: bool
) -> None:
    base, model = Bigram(7), Bigram(8)
    batch, lengths = made_batch(base, beta, normalised=normalised)
    ours = ByPair(DpoLoss(beta, "sigmoid" if form == "sigmoid" else "ipo"))(model, batch)
    policy, reference = by_hand(model, batch["tokens"], batch["target"]), batch["reference"]
    if normalised:
        policy, reference = policy / lengths, reference / lengths.double()
    ratios = policy - reference
    wanted = torch.zeros((), dtype=torch.float64)
    for chosen, rejected in ratios:
        if form == "sigmoid":
            # Rafailov et al. 2023, equation 7.
            wanted = wanted - torch.log(1 / (1 + torch.exp(-(beta * chosen - beta * rejected))))
        else:
            # Azar et al. 2023, equation 17: h = log(pi(w) ref(l) / (pi(l) ref(w))).
            wanted = wanted + (chosen - rejected - 1 / (2 * beta)) ** 2
    assert ours.targets == PAIRS
    torch.testing.assert_close(ours.sum, wanted, rtol=1e-9, atol=1e-9)
    (found,) = torch.autograd.grad(ours.sum, model.parameters())
    (hand,) = torch.autograd.grad(wanted, model.parameters())
    torch.testing.assert_close(found, hand, rtol=1e-8, atol=1e-9)


def test_a_model_that_is_its_base_has_no_margin() -> None:
    batch, _ = made_batch(Bigram(7), 0.1, normalised=False)
    same = Bigram(7)
    with torch.no_grad():
        sums = [float(ByPair(DpoLoss(0.1, one))(same, batch).sum) for one in ("sigmoid", "ipo")]
    assert sums == pytest.approx([PAIRS * math.log(2), PAIRS * 25.0])


def test_metrics_of_pairs_count_a_tie_half() -> None:
    margins = np.array([0.4, -0.2, 0.0, 1.5, -0.1, 0.7])
    answers = answers_of(np.zeros(6), margins[:, None])
    section = Metric()
    assert measure("preference_accuracy", answers, section) == pytest.approx(3.5 / 6)
    assert measure("reward_margin", answers, section) == pytest.approx(margins.mean())
    draw = np.random.default_rng(0)
    chosen = draw.integers(0, 6, 20)
    again = answers_of(np.zeros(20), margins[chosen][:, None])
    ties = (margins[chosen] > 0).mean() + 0.5 * (margins[chosen] == 0).mean()
    assert measure("preference_accuracy", again, section) == pytest.approx(ties)
