"""`model` of kind `resnet`: a residual convolutional network for images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import ANY_NUMBER, ModelSection, Traits
from trainwright.contract.sections.section import Count, Fraction
from trainwright.core.errors import Problem


class ResNet(ModelSection):
    """A residual convolutional network (He et al. 2016, arXiv:1603.05027, with the norm before each
    convolution): a stem, stages of blocks of two 3x3 convolutions, means over the places."""

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

    pool_grid: Count = 1
    """Cells in each direction of the grid over which the last stage is averaged: 1 is the mean over
    all places, which forgets where something is; more keep it, for aligned pictures such as icons
    and scans."""

    stochastic_depth: Fraction = 0.0
    """Chance that an image skips the last block in training; earlier blocks are skipped less, in
    proportion to their depth (Huang et al. 2016, arXiv:1603.09382, equation 4)."""

    @property
    def block_count(self) -> int:
        """Residual blocks, and one between two stages."""
        return sum(self.blocks) + len(self.blocks) - 1

    def last_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the last stage, of an image of so many pixels."""
        halvings = len(self.blocks) - 1
        if self.stem == "half":
            height, width = height // 2, width // 2
        return -(-height // 2**halvings), -(-width // 2**halvings)

    def size_problems(
        self, height: int, width: int, path: str = "model.pool_grid"
    ) -> Iterator[Problem]:
        """Each cell of the grid has a place of the last stage. `path` is that of `pool_grid`."""
        last = self.last_size(height, width)
        if self.pool_grid > max(1, min(last)):
            yield Problem(
                "the grid is finer than the last stage of the network",
                path=path,
                found=f"{self.pool_grid} cells in each direction",
                expected=f"at most {max(1, min(last))}, of {height} x {width} pixels",
                fix=f"change it to {max(1, min(last))}",
            )
