"""`model` of kind `ft_transformer`: a transformer over the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from trainwright.contract.sections.model.traits import EVERYTHING, ModelSection, Traits
from trainwright.contract.sections.section import Count, Fraction, Positive
from trainwright.core.errors import Problem


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
