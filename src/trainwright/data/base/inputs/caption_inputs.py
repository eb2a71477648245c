"""Images with the tokens of their captions: what a vision-language model reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.levels import Levels
from trainwright.data.base.permutation import Permutation
from trainwright.data.base.table import ImageInputs, Inputs, Integers, TableInputs

OTHER_IMAGES: Final = "other_images"
"""The model that sees, with each caption, the image of another one."""

_SEED = 0


@dataclass(frozen=True, slots=True)
class CaptionInputs(Inputs):
    """N images, and the caption of each as a segment, before which its question and its prompt
    stand."""

    images: ImageInputs
    texts: TokenInputs

    kind: ClassVar[str] = "captions"
    noun: ClassVar[str] = "captions"

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Integers) -> CaptionInputs:
        """The given captions with their images, in the given order."""
        return CaptionInputs(self.images.take(rows), self.texts.take(rows))

    def pictures(self) -> ImageInputs:
        """`images`."""
        return self.images

    @property
    def segments(self) -> TokenInputs:
        """The captions."""
        return self.texts

    @property
    def levels(self) -> Levels:
        """Bytes of the captions."""
        return self.texts.levels

    def beside_segments(self, segments: Integers, /) -> Mapping[str, npt.NDArray[Any]]:
        """The image of each."""
        return self.images.take(segments).arrays(0, len(segments))

    def counterfactuals(self) -> Mapping[str, CaptionInputs]:
        """Each caption with the image of another one."""
        return {OTHER_IMAGES: CaptionInputs(self.images.take(self.other_images()), self.texts)}

    def other_images(self) -> Integers:
        """For each row another one, int64 [N], a permutation of the rows: rows of equal images are
        moved on together in a random order, so that none gets an equal one back, unless more than
        half of all are equal."""
        hashes = self.images.hashes()
        drawn = Permutation(len(hashes), _SEED).of(0, np.arange(len(hashes)))
        place = {hashes[row]: at for at, row in enumerate(drawn.tolist())}
        codes = np.array([place[one] for one in hashes], dtype=np.int64)
        order = np.argsort(codes, kind="stable")
        most = int(np.bincount(codes, minlength=1).max())
        found = np.empty_like(order)
        found[order] = np.roll(order, -most)
        return found

    def columns(self) -> TableInputs:
        """Captions are no columns: the rules refuse a model of columns."""
        raise AssertionError("the rules refuse a model of columns for captions")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Captions are scored by their segments."""
        raise AssertionError("captions are scored by their segments")
