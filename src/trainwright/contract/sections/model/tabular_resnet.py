"""`model` of kind `tabular_resnet`: a residual network for tables."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.model.traits import EVERYTHING, ModelSection, Traits
from trainwright.contract.sections.section import Auto, Count, Fraction, Positive


class TabularResNet(ModelSection):
    """A residual network for tables (Gorishniy et al. 2021, arXiv:2106.11959, section 3.2): blocks
    of norm, Linear, ReLU, Dropout, Linear, Dropout around a skip connection. The norm is LayerNorm,
    not the paper's BatchNorm, so that an update does not depend on how its batch is divided."""

    traits: ClassVar[Traits] = Traits(
        reads=("table",),
        ranks=True,
        has_blocks=True,
        predicts=EVERYTHING,
        has_row_state=True,
    )

    kind: Literal["tabular_resnet"]

    width: Count = 192
    """Features that flow along the skip connections (d in the paper)."""

    blocks: Count = 3
    """Residual blocks."""

    hidden_factor: Positive = 2.0
    """Hidden units of a block over `width`."""

    hidden_dropout: Fraction = 0.25
    """Dropout inside a block."""

    residual_dropout: Fraction = 0.1
    """Dropout at the end of a block."""

    stochastic_depth: Fraction = 0.0
    """Chance that a row skips the last block in training; earlier blocks are skipped less, in
    proportion to their depth (Huang et al. 2016, arXiv:1603.09382, equation 4)."""

    embedding_dim: Auto | Count = "auto"
    """Width of each category's embedding. `auto`: min(50, ceil(1.6 * categories ** 0.56))."""

    numeric_embedding: Literal["none", "periodic"] = "periodic"
    """Encoding of a number: unchanged, or by sines and cosines of learned frequencies, which
    lets a network see thresholds and narrow ranges as trees do (Gorishniy et al. 2022,
    arXiv:2203.05556, section 3.3)."""

    @property
    def block_count(self) -> int:
        """Residual blocks."""
        return self.blocks
