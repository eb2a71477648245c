"""Images with their tokenised captions: what a dual encoder reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs.text_inputs import TextInputs
from trainwright.data.base.table import ImageInputs, Inputs, Integers, TableInputs


@dataclass(frozen=True, slots=True)
class PairInputs(Inputs):
    """N images, and the caption of each."""

    images: ImageInputs
    texts: TextInputs

    kind: ClassVar[str] = "pairs"
    noun: ClassVar[str] = "pairs"
    rows_at_once: ClassVar[int] = 256

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Integers) -> PairInputs:
        """The given pairs, in the given order."""
        return PairInputs(self.images.take(rows), self.texts.take(rows))

    def pictures(self) -> ImageInputs:
        """`images`."""
        return self.images

    def columns(self) -> TableInputs:
        """Captions are no columns: the linear baseline encodes the pairs itself."""
        raise AssertionError("the rules refuse a model of columns for pairs")

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Pixels, and the tokens of the captions."""
        return {**self.images.arrays(start, stop), **self.texts.arrays(start, stop)}

    def scoring_order(self) -> Integers:
        """Their own."""
        return np.zeros(0, dtype=np.int64)
