"""`model` of kind `bi_encoder`: one encoder for queries and passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Field

from trainwright.contract.sections.model.dual_encoder import (
    BagOfTokens,
    TextTower,
    TextTransformer,
    dividing_heads,
    labels_are_the_width,
)
from trainwright.contract.sections.model.pretrained import Pretrained, TowerSection
from trainwright.contract.sections.model.traits import Traits
from trainwright.contract.sections.section import Count
from trainwright.core.errors import Problem


class BiEncoder(TowerSection):
    """An encoder of texts whose embeddings of query and passage are compared by their cosine
    (Sentence-BERT: Reimers and Gurevych 2019, arXiv:1908.10084; trained with negatives of the batch
    as in DPR, Karpukhin et al. 2020, arXiv:2004.04906). The loss is over all pairs of a step,
    however the step is divided into micro-batches."""

    traits: ClassVar[Traits] = Traits(
        reads=("text_pairs",), has_blocks=True, weighs_rows=False, files=("text.base",)
    )

    kind: Literal["bi_encoder"]

    width: Count = 128
    """Features of an embedding."""

    text: TextTower = TextTransformer()
    """The encoder of queries and passages: `transformer`, `bag`, the mean of token embeddings, or
    with `kind: pretrained` an encoder of transformers, which has its own tokens."""

    temperature: Annotated[float, Field(ge=0.01, le=1)] = 0.05
    """The cosine is divided by it at the start; it is learned, and never below 0.01."""

    @property
    def block_count(self) -> int:
        """Blocks of the encoder."""
        match self.text:
            case TextTransformer():
                return self.text.layers
            case Pretrained():
                return self.text.block_count
            case BagOfTokens():
                return 0
            case _:
                assert_never(self.text)

    @property
    def bases(self) -> Mapping[str, Pretrained]:
        """See `TowerSection`."""
        return {"text": self.text} if isinstance(self.text, Pretrained) else {}

    @property
    def has_own_tokens(self) -> bool:
        """Those of a base."""
        return isinstance(self.text, Pretrained)

    @property
    def embedding_width(self) -> int:
        """`width`."""
        return self.width

    def own_problems(self) -> Iterator[Problem]:
        """A head gives the embedding, and heads of attention share a width."""
        yield from labels_are_the_width({"text": self.text}, self.width)
        yield from dividing_heads(self.text)
