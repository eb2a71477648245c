"""Changes of images on a GPU: none waits for it, and the pixels are those of the host."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trainwright.contract.sections.data.images import (  # noqa: E402
    Augment,
    ColorJitter,
    Erasing,
    RandAugment,
)
from trainwright.data.loading.augment import ImageDataset  # noqa: E402
from trainwright.data.loading.pixel_rows import ResidentPixels  # noqa: E402

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda")
ROWS = 256
PIXELS = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (ROWS, 3, 24, 20), np.uint8))
LABELS = torch.arange(ROWS)
WHOLE = {
    "flip": True,
    "crop": 2,
    "randaugment": RandAugment(operations=3, magnitude=7.0),
    "colors": ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
    "cutout": 5,
    "erase": Erasing(probability=0.5),
    "mixup": 0.4,
    "cutmix": 1.0,
}


def store(section: Augment, device: torch.device) -> ImageDataset:
    return ImageDataset(ResidentPixels(PIXELS.to(device)), LABELS.to(device), section, seed=5)


@pytest.mark.parametrize("name", [*WHOLE, "everything"])
def test_no_change_waits_for_the_device(name: str) -> None:
    section = Augment(**(WHOLE if name == "everything" else {name: WHOLE[name]}))
    made = store(section, DEVICE)
    made.take(0, np.arange(64))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        batches = [made.take(epoch, np.arange(64)) for epoch in range(3)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    on_host = store(section, torch.device("cpu"))
    for epoch, batch in enumerate(batches):
        for ours, theirs in zip(batch, on_host.take(epoch, np.arange(64)), strict=True):
            # A place that falls between two pixels may round to the other one.
            near = (ours.cpu().double() - theirs.double()).abs() <= 1
            assert float(near.double().mean()) > (0.97 if ours.ndim == 4 else 0.999)
