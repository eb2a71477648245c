"""The loss of passages against cross-entropies by hand, and in micro-batches."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from trainwright.contract.sections.model.bi_encoder import BiEncoder  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.engine.update.gradient_cache import GradientCache, outputs_for  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.model.bi_encoder.bi_encoder_family import BiEncoderFamily  # noqa: E402
from trainwright.model.input_shape import TextPairShape  # noqa: E402
from trainwright.objective.contrastive import PassageLoss, info_nce  # noqa: E402

pytestmark = pytest.mark.torch

WIDTH, ROWS = 8, 6
CODES = torch.tensor(
    # query, passage, two hard negatives, right passages
    [
        [0, 0, 10, 11, 0, 1],
        [0, 1, 12, -1, 0, 1],
        [2, 2, 0, 10, 2, -1],
        [3, 3, 13, 2, 3, -1],
        [4, 3, -1, -1, 3, -1],
        [5, 5, 14, 15, 5, 10],
    ]
)


def by_hand(outputs: Tensor) -> Tensor:
    """Each different text that is not right is one negative of a query."""
    parts = outputs.view(ROWS, 4, WIDTH)
    losses = []
    for row in range(ROWS):
        right = {int(code) for code in CODES[row, 4:] if code >= 0}
        logits, seen = [parts[row, 0] @ parts[row, 1]], set(right)
        for slot in (1, 2, 3):
            for other in range(ROWS):
                code = int(CODES[other, slot])
                if code >= 0 and code not in seen:
                    seen.add(code)
                    logits.append(parts[row, 0] @ parts[other, slot])
        losses.append(torch.logsumexp(torch.stack(logits), 0) - logits[0])
    return torch.stack(losses)


def test_it_is_the_cross_entropy_among_different_negatives() -> None:
    torch.manual_seed(0)
    outputs = torch.randn(ROWS, 4 * WIDTH)
    torch.testing.assert_close(PassageLoss(WIDTH).rows(outputs, CODES), by_hand(outputs))


def test_it_is_info_nce_where_nothing_is_shared() -> None:
    torch.manual_seed(1)
    queries, passages = torch.randn(2, ROWS, WIDTH).unbind(0)
    unit = [torch.nn.functional.normalize(one, dim=1) * 20**0.5 for one in (queries, passages)]
    own = torch.arange(ROWS)
    codes = torch.stack([own, own, own], dim=1)
    found = PassageLoss(WIDTH).total(torch.cat(unit, dim=1), codes)
    expected = info_nce(queries, passages, 1 / 20)
    torch.testing.assert_close(found.sum, expected.sum)
    assert found.targets == ROWS


def batch() -> Batch:
    draw = torch.Generator().manual_seed(2)

    def tokens(*size: int) -> Tensor:
        return torch.randint(1, 11, size, generator=draw)

    texts = {
        "query_ids": tokens(ROWS, 4),
        "query_mask": torch.ones(ROWS, 4, dtype=torch.int64),
        "passage_ids": tokens(ROWS, 5),
        "passage_mask": torch.ones(ROWS, 5, dtype=torch.int64),
        "negative_ids": tokens(ROWS, 2, 5),
        "negative_mask": torch.ones(ROWS, 2, 5, dtype=torch.int64),
    }
    texts["passage_mask"][::2, 3:] = 0
    return Batch({**texts, "target": CODES})


@pytest.mark.parametrize("sizes", [[3, 3], [4, 2], [1] * 6])
def test_micro_batches_give_the_gradient_of_the_whole_step(sizes: list[int]) -> None:
    torch.manual_seed(0)
    section = BiEncoder.model_validate(
        {
            "kind": "bi_encoder",
            "width": WIDTH,
            "text": {
                "kind": "transformer",
                "width": 16,
                "layers": 1,
                "heads": 2,
                "dropout": 0.0,
            },
        }
    )
    model = BiEncoderFamily().build(section, TextPairShape(11, 5, 2, 2 * WIDTH))
    whole = copy.deepcopy(model)
    loss = PassageLoss(WIDTH).total(outputs_for(whole, batch()), CODES).sum / ROWS
    loss.backward()
    cache = GradientCache(PassageLoss(WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = OptimizerStep(model, cache, optimizer).looking_ahead(cache.look_ahead)
    outcome = step(StepBatches(batch().split(sizes), ROWS, ROWS, ROWS, 0, 0.0))
    assert float(outcome.loss) == pytest.approx(float(loss.detach()), abs=1e-6)
    expected = {name: one.grad for name, one in whole.named_parameters()}
    norm = sum(float(one.square().sum()) for one in expected.values() if one is not None) ** 0.5
    for name, one in model.named_parameters():
        assert one.grad is not None, name
        assert expected[name] is not None, name
        assert float((one.grad - expected[name]).abs().max()) <= 1e-6 * norm, name
