"""`model` of kind `gpt`: a decoder-only transformer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import ModelSection, Traits
from trainwright.contract.sections.section import Count, Fraction
from trainwright.core.errors import Problem


class Gpt(ModelSection):
    """A transformer that predicts the next token from those before it (Radford et al. 2019), with
    the norm before each part and the head tied to the embedding."""

    traits: ClassVar[Traits] = Traits(reads=("tokens",), has_blocks=True, has_attention=True)

    kind: Literal["gpt"]

    layers: Count = 4
    """Blocks of attention and feed-forward."""

    heads: Count = 4
    """Attention heads of a block; a divisor of `width`."""

    width: Count = 128
    """Features of each position."""

    context: Annotated[int, Field(ge=2)] = 64
    """Tokens that the model sees at once. A training row is a window of so many tokens."""

    dropout: Fraction = 0.0
    """Share dropped of the embedding, of attention and at the end of each part of a block."""

    positions: Literal["rotary", "learned"] = "rotary"
    """How the model knows the order: `rotary` turns queries and keys by their position (Su et al.
    2021, arXiv:2104.09864), `learned` adds a vector for each position."""

    @property
    def block_count(self) -> int:
        """Blocks of attention and feed-forward."""
        return self.layers

    @property
    def context_length(self) -> int:
        """Tokens of a window."""
        return self.context

    def own_problems(self) -> Iterator[Problem]:
        """Every head gets as many features, and an even number of them."""
        wanted = 2 * self.heads
        if self.width % wanted:
            yield Problem(
                f"model.width {self.width} is not a multiple of twice model.heads",
                path="model.width",
                found=str(self.width),
                expected=f"a multiple of {wanted}",
                fix=f"change it to {max(1, round(self.width / wanted)) * wanted}",
            )
