"""Writes images of stripes, whose direction is their class, and the configuration of a small ResNet
for them, without weights.

    python make_images.py IMAGES BASE [COUNT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from transformers import ResNetConfig

SIDE = 32
DIRECTIONS = {"falling": (1, 1), "level": (1, 0), "upright": (0, 1)}


def draw_stripes(draw: np.random.Generator, down: int, right: int) -> np.ndarray:
    """Stripes of two colours across a direction, with noise, uint8 [32, 32, 3]."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    along = (down * rows + right * columns) / np.hypot(down, right)
    waves = np.sin(2 * np.pi * (along / draw.uniform(5, 9) + draw.uniform()))
    first, second = draw.uniform(40, 215, (2, 3))
    pixels = np.where(waves[..., None] > 0, first, second) + draw.normal(0, 30, (SIDE, SIDE, 3))
    return pixels.clip(0, 255).astype(np.uint8)


def write_images(folder: Path, count: int) -> None:
    """A folder for each class."""
    draw = np.random.default_rng(0)
    for number in range(count):
        name = list(DIRECTIONS)[number % len(DIRECTIONS)]
        path = folder / name / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw_stripes(draw, *DIRECTIONS[name])).save(path)


def write_base(folder: Path) -> None:
    """The configuration, and how its images are prepared."""
    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic"
    )
    config.save_pretrained(folder)
    settings = {
        "size": {"height": SIDE, "width": SIDE},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.25, 0.25, 0.25],
        "rescale_factor": 1 / 255,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2))


if __name__ == "__main__":
    images, base, *count = sys.argv[1:]
    write_images(Path(images), int(count[0]) if count else 300)
    write_base(Path(base))
    print(f"images in {images}, a base in {base}")
