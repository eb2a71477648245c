"""The loss of a fused head: that of a separate one, without its logits."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.data.loading.batch import Batch, TargetMask
from trainwright.model.gpt.gpt_network import GptNetwork
from trainwright.model.input_shape import TokenShape
from trainwright.objective.classification_losses import CrossEntropyLoss
from trainwright.objective.fused_head_loss import FusedHeadLoss
from trainwright.objective.losses import Supervised

pytestmark = pytest.mark.torch

VOCABULARY = 1009


def network(**fields: Any) -> GptNetwork:
    torch.manual_seed(1)
    section = Gpt(kind="gpt", layers=1, heads=2, width=16, context=12, **fields)
    return GptNetwork(section, TokenShape(VOCABULARY))


def batch(*, packed: bool = False, masked: bool = False) -> Batch:
    draw = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, VOCABULARY, (5, 13), generator=draw)
    tensors = {"input": tokens[:, :-1], "target": tokens[:, 1:]}
    if packed:
        starts = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]).expand(5, -1)
        tensors = {"input": tokens[:, :-1], "input_1": starts, "target": tokens[:, 1:]}
    counted = torch.rand(5, 12, generator=draw) < 0.6
    mask: Any = TargetMask(counted, counted) if masked else "all"
    return Batch(tensors, target="target", mask=mask)


def gradients(model: GptNetwork, loss: Any, given: Batch) -> tuple[float, int, dict[str, Tensor]]:
    model.zero_grad()
    total, count = loss(model, given)
    (total / count).backward()
    kept = {
        name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None
    }
    return float(total.detach()), count, kept


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({}, {}),
        ({}, {"packed": True, "masked": True}),
        ({"label_smoothing": 0.1, "z_loss": 1e-2}, {"masked": True}),
    ],
)
def test_loss_and_gradients_are_those_of_a_separate_head(
    tied: bool, settings: dict[str, float], given: dict[str, bool]
) -> None:
    model = network(tied=tied)
    rows = batch(**given)
    plain = gradients(model, Supervised(CrossEntropyLoss(**settings)), rows)
    # Pieces of 7 rows, the last of which is short.
    fused = gradients(model, FusedHeadLoss(**settings, piece=7 * VOCABULARY), rows)
    assert fused[0] == pytest.approx(plain[0], rel=1e-6)
    assert fused[1] == plain[1]
    assert set(fused[2]) == set(plain[2])
    for name, gradient in plain[2].items():
        assert torch.allclose(fused[2][name], gradient, rtol=1e-4, atol=1e-8), name


def test_a_frozen_head_has_no_gradient() -> None:
    model = network(tied=False)
    assert model.head is not None
    model.head.weight.requires_grad_(requires_grad=False)
    found = gradients(model, FusedHeadLoss(), batch())
    assert "head.weight" not in found[2]
    assert "embedding.weight" in found[2]


class _Largest(TorchDispatchMode):
    """The most elements of any tensor of logits that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else [found]:
            of_logits = isinstance(one, Tensor) and one.ndim and one.shape[-1] == VOCABULARY
            # The weight of the head is read as a matrix of 16 inputs.
            if of_logits and one.shape[0] != 16:
                self.elements = max(self.elements, one.numel())
        return found


def test_whole_logits_are_never_there() -> None:
    model, rows = network(), batch()
    elements = {}
    for name, loss in (
        ("separate", Supervised(CrossEntropyLoss())),
        ("fused", FusedHeadLoss(piece=7 * VOCABULARY)),
    ):
        with _Largest() as largest:
            gradients(model, loss, rows)
        elements[name] = largest.elements
    assert elements == {"separate": 60 * VOCABULARY, "fused": 7 * VOCABULARY}


def test_bf16_is_computed_in_fp32_behind_the_head() -> None:
    model, rows = network(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        plain = gradients(model, Supervised(CrossEntropyLoss()), rows)
        fused = gradients(model, FusedHeadLoss(piece=7 * VOCABULARY), rows)
    assert fused[0] == pytest.approx(plain[0], rel=1e-5)
    for name, gradient in plain[2].items():
        scale = gradient.abs().max()
        assert (fused[2][name] - gradient).abs().max() < 0.02 * scale, name
