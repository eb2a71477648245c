"""`data` of `kind: images`: images with a label each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.feeding import Feeding
from trainwright.contract.section import Fraction, NonNegative, Section

Pixels = Annotated[int, Field(ge=0)]


class Augment(Section):
    """Random changes to the training images. What happens to image i in epoch e is a function of
    the seed, e and i alone. Validation and test images are never changed."""

    flip: bool = False
    """Mirror every second image, left to right."""

    crop: Pixels = 0
    """Move the image by up to so many pixels in each direction; what comes in is black."""

    cutout: Pixels = 0
    """Side of a square that is blacked out at a random place, in pixels; 0 blacks out nothing
    (DeVries and Taylor 2017, arXiv:1708.04552)."""

    mixup: NonNegative = 0.0
    """Blend each image and its label with those of another training image, in shares of
    Beta(mixup, mixup); 0 blends nothing (Zhang et al. 2018, arXiv:1710.09412)."""

    cutmix: NonNegative = 0.0
    """Paste a rectangle of another training image, its area a share of Beta(cutmix, cutmix), and
    weigh the labels by area; 0 pastes nothing (Yun et al. 2019, arXiv:1905.04899). Beside `mixup`,
    each image gets the one or the other with equal chances."""

    @property
    def changes(self) -> bool:
        """Whether any image is changed."""
        return bool(self.flip or self.crop or self.cutout or self.mixup or self.cutmix)


class ImageData(Feeding):
    """Images of one size with a label each, in the files of the MNIST family."""

    kind: Literal["images"]

    path: str
    """The folder with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the two `t10k-`
    files of the test images, each also as `.gz`; relative to the contract's folder."""

    classes: tuple[str, ...] = ()
    """Names of the labels 0, 1, 2 and so on; the numbers themselves if left out."""

    validation: Fraction = 0.1
    """Share of the training images, drawn within each class, that steers the training."""

    augment: Augment = Augment()
    """Random changes to the training images."""
