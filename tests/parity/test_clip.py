"""Contrastive loss and zero-shot probabilities against the CLIP of transformers."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="needs the transformers extra")

from torch import Tensor  # noqa: E402
from transformers import CLIPConfig, CLIPModel  # noqa: E402

from trainwright.objective.contrastive import ContrastiveLoss  # noqa: E402
from trainwright.predictor.zero_shot_classes import average_of_texts  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = 7


@pytest.fixture(scope="module")
def outputs() -> dict[str, Tensor]:
    """Embeddings, logits and loss of a small CLIP on random pairs, and the gradient of the loss by
    the embeddings."""
    torch.manual_seed(0)
    small = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = CLIPConfig(
        text_config={**small, "vocab_size": 50, "max_position_embeddings": 8, "eos_token_id": 49},
        vision_config={**small, "image_size": 16, "patch_size": 8},
        projection_dim=12,
    )
    model = CLIPModel(config).eval()
    found = model(
        input_ids=torch.randint(0, 49, (ROWS, 8)),
        pixel_values=torch.randn(ROWS, 3, 16, 16),
        return_loss=True,
    )
    found.image_embeds.retain_grad()
    (gradient,) = torch.autograd.grad(found.loss, found.image_embeds)
    return {
        "images": found.image_embeds.detach(),
        "texts": found.text_embeds.detach(),
        "logits": found.logits_per_image.detach(),
        "scale": model.logit_scale.exp().detach(),
        "loss": found.loss.detach(),
        "gradient": gradient,
    }


def test_the_loss_and_its_gradient_are_those_of_clip(outputs: dict[str, Tensor]) -> None:
    images = outputs["images"].clone().requires_grad_()
    length = outputs["scale"].sqrt()
    pairs = torch.cat([images, outputs["texts"]], dim=1) * length
    codes = torch.arange(ROWS)[:, None].expand(-1, 2)
    found = ContrastiveLoss().total(pairs, codes)
    mean = found.sum / found.targets
    torch.testing.assert_close(mean.detach(), outputs["loss"], atol=1e-6, rtol=1e-6)
    (gradient,) = torch.autograd.grad(mean, images)
    torch.testing.assert_close(gradient, outputs["gradient"], atol=1e-6, rtol=1e-5)


def test_zero_shot_probabilities_are_those_of_clip(outputs: dict[str, Tensor]) -> None:
    """With one text a class."""
    scale = float(outputs["scale"])
    length = scale**0.5
    images, texts = (outputs[one].double().numpy() * length for one in ("images", "texts"))
    logits = images @ (average_of_texts(texts, [1] * ROWS) * length).T
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = outputs["logits"].softmax(dim=1).numpy()
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, atol=1e-5)


def test_several_texts_are_averaged_at_length_1(outputs: dict[str, Tensor]) -> None:
    """As in the notebook of the authors: mean of unit vectors, and of length 1 again."""
    texts = outputs["texts"].double().numpy() * 3.0
    unit = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    first, second = unit[:4].mean(axis=0), unit[4:].mean(axis=0)
    found = average_of_texts(texts, [4, 3])
    np.testing.assert_allclose(found[0], first / np.linalg.norm(first))
    np.testing.assert_allclose(found[1], second / np.linalg.norm(second))
