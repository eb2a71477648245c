"""`model` of kinds `mlp`, `tabular_resnet` and `ft_transformer`: networks for tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import EVERYTHING, ModelSection, Traits
from trainwright.contract.sections.section import Auto, Count, Fraction, Positive
from trainwright.core.errors import Problem


class Mlp(ModelSection):
    """A multi-layer perceptron over scaled numbers and embedded categories."""

    traits: ClassVar[Traits] = Traits(
        reads=("table",), ranks=True, predicts=EVERYTHING, has_row_state=True
    )

    kind: Literal["mlp"]

    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (256, 128)
    """Units of each hidden layer."""

    activation: Literal["relu", "gelu", "silu"] = "relu"
    """The non-linearity after each hidden layer."""

    dropout: Fraction = 0.1
    """Share of hidden units dropped in training."""

    embedding_dim: Auto | Count = "auto"
    """Width of each category's embedding. `auto`: min(50, ceil(1.6 * categories ** 0.56))."""

    numeric_embedding: Literal["none", "periodic"] = "periodic"
    """Encoding of a number: unchanged, or by sines and cosines of learned frequencies, which
    lets a network see thresholds and narrow ranges as trees do (Gorishniy et al. 2022,
    arXiv:2203.05556, section 3.3)."""


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


class FtTransformer(ModelSection):
    """A transformer over the columns of a table (FT-Transformer: Gorishniy et al. 2021,
    arXiv:2106.11959, section 3.3): every column becomes a token, and the head reads a token of its
    own that attends to all of them. Sizes and dropout are the paper's defaults (appendix E.2); an
    AdamW rate of 1e-4 and decay of 1e-5 are too, and have to be written under
    `training.optimizer`."""

    traits: ClassVar[Traits] = Traits(
        reads=("table",),
        ranks=True,
        has_blocks=True,
        predicts=EVERYTHING,
        has_row_state=True,
    )

    kind: Literal["ft_transformer"]

    width: Count = 192
    """Features of a token (d in the paper); a multiple of `heads`."""

    layers: Count = 3
    """Blocks of attention and feed-forward."""

    heads: Count = 8
    """Attention heads of a block."""

    activation: Literal["reglu", "gelu"] = "reglu"
    """The non-linearity of the feed-forward part: `reglu` multiplies one half of its units by the
    ReLU of the other (Shazeer 2020, arXiv:2002.05202), with twice the weights of `gelu` in the
    first layer."""

    hidden_factor: Positive = 4 / 3
    """Hidden units of the feed-forward part over `width`."""

    attention_dropout: Fraction = 0.2
    """Share of attention weights dropped in training."""

    hidden_dropout: Fraction = 0.1
    """Dropout inside the feed-forward part."""

    residual_dropout: Fraction = 0.0
    """Dropout at the end of each part of a block."""

    @property
    def block_count(self) -> int:
        """Blocks of attention and feed-forward."""
        return self.layers

    @property
    def hidden_units(self) -> int:
        """Units of the feed-forward part behind its activation."""
        return round(self.width * self.hidden_factor)

    @property
    def wide_units(self) -> int:
        """Units before it, of which a gate takes two for one."""
        return self.hidden_units * (2 if self.activation == "reglu" else 1)

    def own_problems(self) -> Iterator[Problem]:
        """Every head gets as many features."""
        if self.width % self.heads:
            yield Problem(
                f"model.width {self.width} is not a multiple of model.heads",
                path="model.width",
                found=str(self.width),
                expected=f"a multiple of {self.heads}",
                fix=f"change it to {max(1, round(self.width / self.heads)) * self.heads}",
            )
