"""`model` of kind `dual_encoder`: an encoder of images beside one of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Field, Tag

from trainwright.contract.sections.model.pretrained import Pretrained, TowerSection
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.traits import Traits
from trainwright.contract.sections.section import Count, Fraction, Section, tagged_by
from trainwright.core.errors import Problem

ImageTower = Annotated[
    Annotated[ResNet, Tag("resnet")] | Annotated[Pretrained, Tag("pretrained")],
    tagged_by("kind", default="resnet"),
]


class TextTransformer(Section):
    """A transformer encoder of captions (Vaswani et al. 2017, arXiv:1706.03762; norm before each
    part) whose token states are averaged."""

    kind: Literal["transformer"] = "transformer"

    width: Count = 128
    """Features of a token; a multiple of `heads`."""

    layers: Count = 2
    """Blocks of attention and feed-forward."""

    heads: Count = 4
    """Attention heads of a block."""

    dropout: Fraction = 0.1
    """Share of embeddings and block outputs dropped in training."""


class BagOfTokens(Section):
    """The mean of the embeddings of a caption's tokens, whatever their order."""

    kind: Literal["bag"]

    width: Count = 256
    """Features of a token."""

    dropout: Fraction = 0.1
    """Share of the features of a caption dropped in training."""


TextTower = Annotated[
    Annotated[TextTransformer, Tag("transformer")]
    | Annotated[BagOfTokens, Tag("bag")]
    | Annotated[Pretrained, Tag("pretrained")],
    tagged_by("kind", default="transformer"),
]


class DualEncoder(TowerSection):
    """An encoder of images and one of texts whose outputs are compared by their cosine (CLIP:
    Radford et al. 2021, arXiv:2103.00020). The loss is over all pairs of a step, however the step
    is divided into micro-batches."""

    traits: ClassVar[Traits] = Traits(
        reads=("pairs",),
        has_blocks=True,
        has_convolutions=True,
        weighs_rows=False,
        files=("image.base", "text.base"),
    )

    kind: Literal["dual_encoder"]

    width: Count = 128
    """Features of an embedding, shared by images and texts."""

    image: ImageTower = ResNet(kind="resnet")
    """Encoder of images: `resnet`, or with `kind: pretrained` a model of transformers, whose head
    is the projection to `width`."""

    text: TextTower = TextTransformer()
    """Encoder of texts: `transformer`, `bag`, the mean of token embeddings, or with `kind:
    pretrained` an encoder of transformers, which has its own tokens."""

    temperature: Annotated[float, Field(ge=0.01, le=1)] = 0.07
    """The cosine is divided by it at the start; it is learned, and never below 0.01 (a factor of at
    most 100, section 2.5)."""

    @property
    def block_count(self) -> int:
        """Blocks of both encoders."""
        match self.text:
            case TextTransformer():
                layers = self.text.layers
            case Pretrained():
                layers = self.text.block_count
            case BagOfTokens():
                layers = 0
            case _:
                assert_never(self.text)
        return self.image.block_count + layers

    @property
    def bases(self) -> Mapping[str, Pretrained]:
        """See `TowerSection`."""
        towers: dict[str, object] = {"image": self.image, "text": self.text}
        return {side: one for side, one in towers.items() if isinstance(one, Pretrained)}

    @property
    def has_own_tokens(self) -> bool:
        """Those of a base of texts."""
        return isinstance(self.text, Pretrained)

    @property
    def embedding_width(self) -> int:
        """`width`."""
        return self.width

    def own_problems(self) -> Iterator[Problem]:
        """Batch norm would make an embedding depend on its micro-batch, and heads share a width."""
        if isinstance(self.image, ResNet) and self.image.norm == "batch":
            yield Problem(
                "with batch norm an embedding depends on the rest of its micro-batch",
                path="model.image.norm",
                found="batch",
                expected="group: the loss is over the whole step, however it is divided",
                fix="write norm: group",
            )
        yield from labels_are_the_width({"image": self.image, "text": self.text}, self.width)
        yield from dividing_heads(self.text)


def labels_are_the_width(
    towers: Mapping[str, ImageTower | TextTower], width: int
) -> Iterator[Problem]:
    """The head of a base has as many outputs as an embedding features."""
    for name, tower in towers.items():
        if isinstance(tower, Pretrained) and tower.num_labels not in ("auto", width):
            yield Problem(
                "the head of an encoder gives the embedding",
                path=f"model.{name}.num_labels",
                found=str(tower.num_labels),
                expected=f"{width}, as model.width",
                fix="remove num_labels",
            )


def dividing_heads(text: TextTower) -> Iterator[Problem]:
    """The heads of an encoder of ours divide its width."""
    if isinstance(text, TextTransformer) and text.width % text.heads:
        yield Problem(
            "the width of the text encoder is no multiple of its heads",
            path="model.text.heads",
            found=f"width {text.width}, {text.heads} heads",
            expected="heads that divide the width",
            fix=f"change heads to {_divisor(text.width, text.heads)}",
        )


def _divisor(whole: int, most: int) -> int:
    return next(one for one in range(most, 0, -1) if whole % one == 0)
