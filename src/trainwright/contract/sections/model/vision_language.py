"""`model` of kind `vision_language`: an encoder of images whose states a decoder reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.adapter import PromptTuning
from trainwright.contract.sections.model.dual_encoder import ImageTower
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.traits import ModelSection, Traits
from trainwright.contract.sections.section import Count, Section
from trainwright.core.errors import Problem

_FEWEST = 4
"""Tokens of a prompt and a caption that must have room behind those of the image."""


class Projector(Section):
    """A perceptron from the states of the image encoder to embeddings of the decoder, one for each
    image token (LLaVA: Liu et al. 2023, arXiv:2304.08485, section 4.1)."""

    layers: Annotated[int, Field(ge=1, le=4)] = 2
    """Linear layers, with GELU between them: 1 as in LLaVA, 2 as in LLaVA-1.5 (Liu et al. 2023,
    arXiv:2310.03744, section 3.3)."""

    grid: Annotated[int, Field(ge=1, le=64)] = 4
    """An image becomes `grid` x `grid` tokens, line by line: the states of the encoder at its
    places, averaged over as many equal areas where it has more places."""

    @property
    def tokens(self) -> int:
        """Tokens of an image."""
        return self.grid**2


class Taken(Section):
    """What was found in the bundle of an earlier run. The plan fills it in, and a run goes on with
    the same files only."""

    part: Literal["image", "all"]
    """Whose weights they are: of the image encoder, or of the whole model."""

    weights: str
    """SHA-256 of the file of the weights."""

    tokens: str = ""
    """SHA-256 of the vocabulary and of the text around captions; empty of an image encoder."""

    image_size: tuple[Count, ...] = ()
    """Height and width of the images that it was trained on."""

    folder: str = Field(default="", exclude=True)
    """Where the bundle lies on this machine; not part of the plan."""


class VisionLanguage(ModelSection):
    """A decoder that reads an image before its text: a projector makes the states of an image
    encoder into embeddings, which stand before those of the tokens (LLaVA: Liu et al. 2023,
    arXiv:2304.08485). It is trained in stages, a contract each: `training.freeze` says what of
    `image`, `projector` and `decoder` is frozen, and `start` names the stage before."""

    traits: ClassVar[Traits] = Traits(
        reads=("captions",),
        has_blocks=True,
        has_convolutions=True,
        weighs_rows=False,
        describes_images=True,
        files=("taken", "image.base", "decoder.base"),
    )

    kind: Literal["vision_language"]

    start: str = ""
    """The run or the bundle of an earlier stage, relative to the contract, whose weights the
    training starts from. `image`, `projector` and `decoder` are then its own; of `decoder` only
    `adapter` and `dropout` are read. An adapter of that stage is merged."""

    image: ImageTower = ResNet(kind="resnet")
    """Encoder of images: `resnet`, or with `kind: pretrained` a model of transformers, whose states
    before its head are read, those of patches without a class token."""

    image_from: str = ""
    """The run or the bundle of an image classifier of kind `resnet`, or of a `dual_encoder` with
    such an encoder, relative to the contract: its encoder is taken, with its shape and weights."""

    projector: Projector = Projector()
    """From states of the encoder to image tokens."""

    decoder: Gpt = Gpt(kind="gpt")
    """The decoder, with the keys of `kind: gpt`; `architecture` names one that was trained on
    texts. Its `context` holds the image tokens and the text."""

    taken: Literal["none"] | Taken = "none"
    """What was found in the bundle of `start` or `image_from`; the plan fills it in."""

    @property
    def block_count(self) -> int:
        """Blocks of both."""
        return self.image.block_count + self.decoder.block_count

    @property
    def context_length(self) -> int:
        """Tokens of the text behind those of the image."""
        return self.decoder.context - self.projector.tokens

    @property
    def scales_with_width(self) -> bool:
        """As of the decoder."""
        return self.decoder.scales_with_width

    @property
    def base_weights(self) -> str:
        """SHA-256 of what it starts from, in the order earlier stage, image, decoder."""
        of_image = self.image.base_weights if isinstance(self.image, Pretrained) else ""
        of_stage = "" if self.taken == "none" else self.taken.weights
        return "+".join(filter(None, (of_stage, of_image, self.decoder.base_weights)))

    @property
    def earlier_bundle(self) -> str:
        """That of `start` or `image_from`."""
        return "" if self.taken == "none" else self.taken.folder

    def own_problems(self) -> Iterator[Problem]:
        """One start, no adapter but those of the decoder, and room for a text."""
        if self.start and self.image_from:
            yield Problem(
                "the earlier stage has an image encoder already",
                path="model.image_from",
                found=self.image_from,
                expected="start alone",
                fix="remove image_from",
            )
        yield from self._unsupported()
        if self.start:
            return
        for problem in self.decoder.own_problems():
            yield replace(problem, path=problem.path.replace("model.", "model.decoder.", 1))
        least = self.projector.tokens + _FEWEST
        if self.decoder.context < least:
            yield Problem(
                "the context of the decoder has no room for a text behind the image",
                path="model.decoder.context",
                found=f"{self.decoder.context}, and {self.projector.tokens} image tokens",
                expected=f"at least {least}",
                fix=f"change it to {least + 28}, or write model.projector.grid: 1",
            )

    def _unsupported(self) -> Iterator[Problem]:
        decoder = self.decoder
        if isinstance(self.image, Pretrained) and self.image.has_adapter:
            yield Problem(
                "the image encoder is trained whole or not at all",
                path="model.image.adapter",
                found="an adapter",
                expected="one of the decoder",
                fix="remove adapter",
            )
        if isinstance(decoder.adapter, PromptTuning):
            yield Problem(
                "an image stands where the vectors of a prompt would",
                path="model.decoder.adapter",
                found=f"kind: {decoder.adapter.kind}",
                expected="lora, rslora, dora or ia3",
                fix="write {kind: lora}",
            )
        if decoder.quantization != "none":
            yield Problem(
                "the bundle of such a model holds its decoder, which is not quantised",
                path="model.decoder.quantization",
                found=decoder.quantization,
                expected="none",
                fix="remove quantization",
            )
