"""The contrastive loss of pairs against cross-entropies by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from trainwright.objective.contrastive import (  # noqa: E402
    ContrastiveLoss,
    shared_pairs,
    symmetric_info_nce,
)

pytestmark = pytest.mark.torch

CODES = torch.arange(6)[:, None].expand(-1, 2)


def test_it_is_symmetric_info_nce_where_nothing_is_shared() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(6, 4), torch.randn(6, 4)
    scale = (1 / 0.07) ** 0.5
    unit = [functional.normalize(one, dim=1) * scale for one in (first, second)]
    found = ContrastiveLoss().total(torch.cat(unit, dim=1), CODES)
    expected = symmetric_info_nce(first, second, 0.07)
    torch.testing.assert_close(found.sum, expected.sum)
    assert found.targets == 6


def test_pairs_that_share_an_image_or_a_text_are_no_negatives() -> None:
    torch.manual_seed(1)
    outputs = torch.randn(4, 6)
    target = torch.tensor([[0, 0], [0, 1], [2, 1], [3, 3]])
    found = ContrastiveLoss().rows(outputs, target)
    images, texts = outputs.chunk(2, dim=1)
    logits = images @ texts.T
    negatives = {0: [2, 3], 1: [3], 2: [0, 3], 3: [0, 1, 2]}
    for row, others in negatives.items():
        kept = torch.tensor([row, *others])
        there = torch.logsumexp(logits[row, kept], 0) - logits[row, row]
        back = torch.logsumexp(logits[kept, row], 0) - logits[row, row]
        torch.testing.assert_close(found[row], (there + back) / 2)
    assert shared_pairs(target).sum() == 4
