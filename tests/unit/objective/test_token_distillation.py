"""The distance of a decoder from its teacher, against KL divergences by torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.objective.classification_losses import CrossEntropyLoss  # noqa: E402
from trainwright.objective.distillation import DistilledTokens  # noqa: E402
from trainwright.predictor.predicted_tokens import _likeliest  # noqa: E402

pytestmark = pytest.mark.torch

BATCH, LENGTH, TOKENS = 3, 5, 11


class Logits(torch.nn.Module):
    """A model whose outputs are its parameters."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(0)
        self.values = torch.nn.Parameter(torch.randn(BATCH, LENGTH, TOKENS, generator=drawn) * 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        assert tokens.shape == (BATCH, LENGTH)
        return self.values


def teacher_logits() -> torch.Tensor:
    return torch.randn(BATCH, LENGTH, TOKENS, generator=torch.Generator().manual_seed(1)) * 2


def batch(top: int, temperature: float) -> Batch:
    tokens, logs = _likeliest(teacher_logits().flatten(0, 1) / temperature, top)
    target = torch.randint(0, TOKENS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(2))
    return Batch(
        {
            "tokens": torch.zeros(BATCH, LENGTH, dtype=torch.int64),
            "target": target,
            "teacher_tokens": tokens.view(BATCH, LENGTH, top).int(),
            "teacher_logs": logs.view(BATCH, LENGTH, top + 1),
        }
    )


def loss(top: int, temperature: float, weight: float) -> tuple[float, torch.Tensor]:
    model = Logits()
    found = DistilledTokens(CrossEntropyLoss(), weight, temperature)(model, batch(top, temperature))
    assert found.targets == BATCH * LENGTH
    found.sum.backward()
    assert model.values.grad is not None
    return float(found.sum.detach()), model.values.grad


def by_torch(temperature: float, weight: float) -> tuple[float, torch.Tensor]:
    """Over the whole vocabulary, from the logits of both."""
    model = Logits()
    p = torch.softmax(teacher_logits().double() / temperature, dim=-1)
    log_q = functional.log_softmax(model.values.double() / temperature, dim=-1)
    soft = temperature**2 * functional.kl_div(log_q, p, reduction="sum")
    target = batch(1, 1.0)["target"].flatten()
    hard = functional.cross_entropy(model.values.double().flatten(0, 1), target, reduction="sum")
    whole = weight * soft + (1 - weight) * hard
    whole.backward()
    assert model.values.grad is not None
    return float(whole.detach()), model.values.grad


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_all_tokens_give_the_divergence_of_the_vocabulary(
    temperature: float, weight: float
) -> None:
    found, slopes = loss(TOKENS, temperature, weight)
    wanted, expected = by_torch(temperature, weight)
    assert found == pytest.approx(wanted, rel=1e-5)
    torch.testing.assert_close(slopes, expected, atol=2e-6, rtol=1e-4)


def test_some_tokens_and_the_rest_are_classes_of_their_own() -> None:
    top, temperature = 4, 2.0
    p = torch.softmax(teacher_logits().double() / temperature, dim=-1)
    q = torch.softmax(Logits().values.double() / temperature, dim=-1)
    order = p.argsort(dim=-1, descending=True)
    both = [one.gather(-1, order) for one in (p, q)]
    coarse = [torch.cat([x[..., :top], x[..., top:].sum(-1, keepdim=True)], -1) for x in both]
    wanted = temperature**2 * float((coarse[0] * (coarse[0] / coarse[1]).log()).sum().detach())
    found, slopes = loss(top, temperature, 1.0)
    assert found == pytest.approx(wanted, rel=1e-5)
    # No logit is pushed without another being pulled, and the tail is moved as a whole.
    torch.testing.assert_close(slopes.sum(-1), torch.zeros(BATCH, LENGTH), atol=1e-5, rtol=0)


def test_fewer_tokens_see_no_more_of_the_distance() -> None:
    found = [loss(top, 1.0, 1.0)[0] for top in range(1, TOKENS + 1)]
    assert found == sorted(found)
    assert found[0] > 0


def test_a_student_that_agrees_has_no_slope() -> None:
    """Probabilities divided by their sum would teach the tail away; the rest is a class here."""
    model = Logits()
    with torch.no_grad():
        model.values.copy_(teacher_logits())
    DistilledTokens(CrossEntropyLoss(), 1.0, 1.0)(model, batch(3, 1.0)).sum.backward()
    assert model.values.grad is not None
    assert float(model.values.grad.abs().max()) < 1e-6


def test_masked_targets_do_not_count() -> None:
    whole, model = batch(3, 1.0), Logits()
    mask = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    mask[1, 2:] = True
    found = DistilledTokens(CrossEntropyLoss(), 0.5, 1.0)(model, whole.with_mask(mask))
    found.sum.backward()
    assert found.targets == 3
    assert model.values.grad is not None
    touched = model.values.grad.abs().sum(-1) > 0
    assert torch.equal(touched, mask)
    assert torch.allclose(model.values.grad[1, 2:], loss(3, 1.0, 0.5)[1][1, 2:])


def test_a_student_with_more_outputs_gives_them_nothing() -> None:
    """Rows of an embedding that no token of the vocabulary has."""

    class Wider(Logits):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.cat([super().forward(tokens), torch.zeros(BATCH, LENGTH, 2)], dim=-1)

    found = DistilledTokens(CrossEntropyLoss(), 1.0, 1.0)(Wider(), batch(TOKENS, 1.0))
    assert float(found.sum.detach()) > loss(TOKENS, 1.0, 1.0)[0]
