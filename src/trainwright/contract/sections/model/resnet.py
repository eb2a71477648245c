"""`model` of kind `resnet`: a residual convolutional network for images."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import ANY_NUMBER, ModelSection, Traits
from trainwright.contract.sections.section import Count, Fraction


class ResNet(ModelSection):
    """A residual convolutional network (He et al. 2016, arXiv:1603.05027, with the norm before each
    convolution): a stem, stages of blocks of two 3x3 convolutions, the mean over the places."""

    traits: ClassVar[Traits] = Traits(
        reads=("images",),
        has_blocks=True,
        has_convolutions=True,
        predicts=ANY_NUMBER | {"labels"},
        has_row_state=True,
    )

    kind: Literal["resnet"]

    width: Count = 32
    """Channels of the first stage; each later stage has twice as many at half the size."""

    blocks: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 1, 1)
    """Residual blocks of each stage."""

    stem: Literal["full", "half"] = "full"
    """Resolution of the first stage: `full`, or `half`, which costs a quarter."""

    norm: Literal["group", "batch"] = "group"
    """`group` (Wu and He 2018, arXiv:1803.08494) treats each image alone, so that an update does
    not depend on how its batch is divided; `batch` often needs fewer epochs, and accumulation then
    changes the update."""

    dropout: Fraction = 0.0
    """Share of the features dropped before the last layer."""

    stochastic_depth: Fraction = 0.0
    """Chance that an image skips the last block in training; earlier blocks are skipped less, in
    proportion to their depth (Huang et al. 2016, arXiv:1603.09382, equation 4)."""

    @property
    def block_count(self) -> int:
        """Residual blocks, and one between two stages."""
        return sum(self.blocks) + len(self.blocks) - 1
