"""Flip is proposed for images whose mirrored copies keep their class, and for no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits

from trainwright.planner.init.first_contract import propose_contract


def _write(folder: Path, images: np.ndarray, labels: np.ndarray) -> str:
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        (folder / "images" / f"c{label}").mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(pixels.astype(np.uint8))
        image.save(folder / "images" / f"c{label}" / f"{number}.png")
    return propose_contract(str(folder / "images"), "", folder)


def test_digits_are_not_flipped(tmp_path: Path) -> None:
    digits = load_digits()
    text = _write(tmp_path, digits.images[:600] * 15, digits.target[:600])
    assert "augment: {crop: 1}  # no flip: mirrored images look like other classes" in text


@pytest.mark.parametrize("sided", [True, False])
def test_shapes_are_flipped_unless_their_side_is_their_class(tmp_path: Path, sided: bool) -> None:
    """A bar to the left or to the right, or a bar or a dot on either side."""
    random = np.random.default_rng(0)
    images, labels = [], []
    for number in range(160):
        image = Image.new("L", (16, 16))
        label, left = number % 2, number % 4 < 2
        if sided:
            left = not label
        at = int(random.integers(1, 4)) if left else int(random.integers(10, 13))
        height = 12 if sided or label else 3
        ImageDraw.Draw(image).rectangle((at, 2, at + 2, 2 + height), fill=255)
        images.append(np.asarray(image))
        labels.append(label)
    text = _write(tmp_path, np.stack(images), np.array(labels))
    assert ("flip: true" in text) != sided
