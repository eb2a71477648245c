"""Tiny models of images with random weights, as transformers saves them, and images whose class is
told by their colour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

SIDE = 16
MEAN, DEVIATION = [0.5, 0.4, 0.45], [0.25, 0.3, 0.2]

TINY: dict[str, dict[str, Any]] = {
    "vit": {
        "image_size": SIDE,
        "patch_size": 4,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    },
    "convnext": {
        "image_size": SIDE,
        "patch_size": 2,
        "hidden_sizes": [8, 16],
        "num_stages": 2,
        "depths": [2, 1],
    },
    "resnet": {
        "embedding_size": 8,
        "hidden_sizes": [16, 32],
        "depths": [2, 1],
        "layer_type": "basic",
    },
}


def write_image_base(
    folder: Path, kind: str = "vit", *, weights: bool = True, **changes: Any
) -> Path:
    """A base as transformers saves it, without a head."""
    config = transformers.AutoConfig.for_model(kind, **{**TINY[kind], **changes})
    if weights:
        torch.manual_seed(0)
        transformers.AutoModel.from_config(config).save_pretrained(folder)
    else:
        config.save_pretrained(folder)
    settings = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "rescale_factor": 1 / 255,
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "size": {"height": SIDE, "width": SIDE},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A base\n")
    return folder


def write_coloured(folder: Path, count: int = 96, side: int = 20, seed: int = 0) -> Path:
    """A folder of images for each of three classes: noise with more of one colour."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        channel = number % 3
        pixels = draw.integers(0, 160, (side, side, 3), dtype=np.uint8)
        pixels[..., channel] += np.uint8(70)
        path = folder / ("red", "green", "blue")[channel] / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder


CONTRACT = """\
name: images
data: {kind: images, path: images, num_workers: 0}
model: {architecture: base}
training:
  num_epochs: 3
  batch_size: 16
  optimizer: {learning_rate: 0.005}
  early_stopping: "off"
  gradient_clipping: "off"
  mixed_precision: fp32
metric: {name: accuracy, target: 0.4, resamples: 200}
"""


def write_image_project(
    folder: Path, kind: str = "vit", contract: str = CONTRACT, **changes: Any
) -> Path:
    """A contract with its images and its base."""
    write_image_base(folder / "base", kind, **changes)
    write_coloured(folder / "images")
    path = folder / "contract.yaml"
    path.write_text(contract)
    return path
