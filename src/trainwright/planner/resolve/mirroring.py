"""Does mirroring preserve the class of an image? It does for most objects, not for digits and
letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from trainwright.contract.sections.model.linear import Linear
from trainwright.data.base.inputs import Bytes, ImageInputs, Integers, as_columns
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.decode import Header, ImageFault, decode
from trainwright.model.linear.linear_fit import fit_linear

_SIDE = 24
_OF_A_CLASS, _CLASSES, _FEWEST = 60, 20, 10
_MOST_PIXELS = 2**20
"""Of a larger image, which takes long to unpack, nothing is known: it is a photograph."""

_KEPT = 0.5
"""Of handwritten digits 0.28 of what a linear model knows holds in the mirror, of Fashion-MNIST,
whose shoes all point one way, 0.62, of emoji 0.90."""

_KNOWS_ENOUGH = 0.1
_PROBE = Linear(kind="linear", penalty=10.0, max_iterations=60)


@final
@dataclass(frozen=True, slots=True)
class Samples:
    """Small grey copies of the first images of each class, uint8 [1, 24, 24]."""

    of_class: dict[str, list[Bytes]] = field(default_factory=lambda: defaultdict(list))

    def add(self, label: str, data: bytes, header: Header) -> None:
        """Add an image file, unless its class has enough."""
        if header.height * header.width > _MOST_PIXELS or self._is_full(label):
            return
        rule = Rule((_SIDE, _SIDE), "grey", "stretch", "box", _MOST_PIXELS)
        image = decode(data, rule)
        if not isinstance(image, ImageFault):
            self.of_class[label].append(image[0])

    def add_pixels(self, images: ImageInputs, labels: Integers) -> None:
        """Add the first images of each class of an array."""
        for code in range(min(_CLASSES, int(labels.max()) + 1)):
            rows = np.flatnonzero(labels == code)[:_OF_A_CLASS]
            self.of_class[str(code)] += list(images.take(rows).copied())

    def keep_their_class(self) -> bool:
        """Does at least half of a linear model's gain over the commonest class hold for mirrored
        images too? Also true if there is hardly any gain."""
        classes = [images for images in self.of_class.values() if len(images) >= _FEWEST]
        if len(classes) < 2:
            return True
        fitted = _stacked([images[::2] for images in classes])
        asked, truth = _stacked([images[1::2] for images in classes])
        model = fit_linear(
            _PROBE, as_columns(ImageInputs.of(fitted[0])), fitted[1], len(classes), ()
        )

        def right(images: Bytes) -> float:
            scores = model.score(ImageInputs.of(np.ascontiguousarray(images)))
            return float((scores.argmax(axis=1) == truth).mean())

        chance = np.bincount(truth).max() / len(truth)
        known = right(asked) - chance
        return bool(known < _KNOWS_ENOUGH or right(asked[..., ::-1]) - chance >= _KEPT * known)

    def _is_full(self, label: str) -> bool:
        if label not in self.of_class:
            return len(self.of_class) >= _CLASSES
        return len(self.of_class[label]) >= _OF_A_CLASS


def _stacked(classes: Sequence[Sequence[Bytes]]) -> tuple[Bytes, Integers]:
    images = np.stack([image for images in classes for image in images])
    return images, np.repeat(np.arange(len(classes)), [len(images) for images in classes])
