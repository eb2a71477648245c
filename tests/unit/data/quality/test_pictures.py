"""Images that are blank, stand in the files twice, or have two labels."""

from __future__ import annotations

import numpy as np

from trainwright.data.quality.collect import find_image_faults
from trainwright.data.raw_images import RawImages
from trainwright.data.reading import DataFacts
from trainwright.data.table import ImageInputs
from trainwright.data.target_column import TargetFacts


def test_faults_of_images_have_their_places_in_both_files() -> None:
    random = np.random.default_rng(0)
    train = random.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8)
    test = random.integers(0, 256, (20, 1, 8, 8)).astype(np.uint8)
    labels = {"train": np.arange(60) * 7 % 3, "test": np.arange(20) * 7 % 3}
    train[5], test[4] = 17, 255
    train[9] = train[2]
    labels["train"][9] = labels["train"][2]
    test[7] = train[3]
    labels["test"][7] = (labels["train"][3] + 1) % 3
    target = TargetFacts("classes", {}, 3, 0)
    facts = DataFacts(80, (), target, (), frozenset({"test"}), {"train": 60, "test": 20})
    images = {"train": ImageInputs.of(train), "test": ImageInputs.of(test)}
    found = find_image_faults(RawImages(images, labels, ("a", "b", "c"), facts))
    rows = {one.kind: one.rows for one in found}
    assert rows["blank_image"] == (5, 64)
    assert rows["exact_duplicates"] == (9,)
    assert rows["conflicting_labels"] == (3, 67)
