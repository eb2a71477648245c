"""Documents in one window give what each alone gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.model.causal_attention import attend, attend_whole, within_documents  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.objective.classification_losses import CrossEntropyLoss  # noqa: E402
from trainwright.objective.losses import Supervised  # noqa: E402

pytestmark = pytest.mark.torch

CONTEXT = 24


def network(positions: str) -> GptNetwork:
    torch.manual_seed(3)
    section = Gpt(kind="gpt", layers=2, heads=2, width=16, context=CONTEXT, positions=positions)
    made = GptNetwork(section, TokenShape(11)).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return made


def packed(sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    length = sum(sizes) + 2
    tokens = torch.randint(0, 11, (1, length))
    positions = torch.cat([*(torch.arange(size) for size in sizes), torch.zeros(2)])
    return tokens, positions.long()[None]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.sampled_from(["rotary", "learned"]))
@settings(deadline=None, max_examples=20)
def test_logits_of_packed_documents_are_those_of_each_alone(sizes: list[int], kind: str) -> None:
    made = network(kind)
    tokens, positions = packed(sizes)
    with torch.no_grad():
        together = made(tokens, positions)[0]
        start = 0
        for size in sizes:
            alone = made(tokens[:, start : start + size])[0]
            torch.testing.assert_close(together[start : start + size], alone, rtol=0.0, atol=1e-10)
            start += size
    assert torch.isfinite(together).all()


def test_loss_and_gradients_are_the_sum_of_each_alone() -> None:
    made = network("rotary")
    sizes = [5, 9, 1, 6]
    tokens, positions = packed(sizes)
    target = torch.randint(0, 11, tokens.shape)
    counted = torch.ones_like(tokens, dtype=torch.bool)
    counted[:, -2:] = False
    target[:, -2:] = -100
    loss = CrossEntropyLoss(z_loss=0.01, label_smoothing=0.1)
    named = {"tokens": tokens, "positions": positions, "target": target}
    found = Supervised(loss)(made, Batch(named, mask=counted))
    assert found.targets == sum(sizes)
    found.sum.backward()
    together = [parameter.grad.clone() for parameter in made.parameters()]
    made.zero_grad()
    alone = torch.zeros((), dtype=torch.float64)
    start = 0
    for size in sizes:
        piece = slice(start, start + size)
        alone = alone + Supervised(loss)(made, (tokens[:, piece], target[:, piece])).sum
        start += size
    alone.backward()
    torch.testing.assert_close(found.sum, alone, rtol=1e-12, atol=1e-12)
    for one, parameter in zip(together, made.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-9, atol=1e-10)


def test_the_whole_matrix_sees_the_same() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 2, 12, 8, dtype=torch.float64).unbind(0)
    _, positions = packed([4, 6])
    seen = within_documents(positions.expand(2, -1))
    torch.testing.assert_close(
        attend_whole(queries, keys, values, 0.0, seen).float(),
        attend(queries, keys, values, 0.0, seen).float(),
    )
    assert not torch.allclose(
        attend(queries, keys, values, 0.0), attend(queries, keys, values, 0.0, seen)
    )
