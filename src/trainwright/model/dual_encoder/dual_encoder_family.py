"""Family `dual_encoder`, and bases of the encoders of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from trainwright.contract.sections.model.dual_encoder import DualEncoder, TextTower
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.text_tokenizer import NO_TOKENIZER, TextTokenizer
from trainwright.model.family import LearningTask, MemoryFormat, NetworkFamily
from trainwright.model.input_shape import ImageShape, PairShape, Shape, TextShape, shape_from_json
from trainwright.model.pretrained.pretrained_family import PretrainedFamily

if TYPE_CHECKING:
    from torch import nn

OF_BASES: Final = PretrainedFamily()
_USUAL_LENGTH = 64


def names_in_bases(bases: Mapping[str, Pretrained], network: nn.Module) -> frozenset[str]:
    """Parameters that the files of the bases hold, of each base that has an adapter."""
    return frozenset(
        f"{side}.{name}"
        for side, tower in bases.items()
        for name in OF_BASES.base_names(tower, network.get_submodule(side))
    )


def locate_bases(
    bases: Mapping[str, Pretrained], recorded: Mapping[str, str]
) -> dict[str, Pretrained]:
    """The bases that have an adapter, each with the folder of its files.

    Raises:
        Mistake: one is not on this machine, or is another one.
    """
    return {
        side: OF_BASES.with_base(tower, {"": recorded.get(side, "")})
        for side, tower in bases.items()
        if tower.has_adapter
    }


def usual_rate(bases: Mapping[str, Pretrained]) -> Mapping[str, tuple[Json, str]]:
    """The learning rate beside bases, of which an adapter takes a higher one."""
    started = [base for base in bases.values() if base.weights == "pretrained"]
    if not started:
        return {}
    if all(base.has_adapter for base in started):
        return {"learning_rate": (5e-4, "the usual rate of an adapter")}
    return {"learning_rate": (1e-4, "the usual rate beside a base")}


@final
class DualEncoderFamily(NetworkFamily[DualEncoder]):
    """Dual encoders of images and texts. What is known of a base of transformers is asked of its
    own family."""

    def read_files(self, section: DualEncoder, folder: Path, _form: str = "table") -> DualEncoder:
        """What the files of its bases hold."""
        changed: dict[str, Pretrained] = {
            side: read_tower_base(tower, folder, side, section.width)
            for side, tower in section.bases.items()
        }
        return section.model_copy(update=changed)

    def tokenizer(self, section: DualEncoder) -> TextTokenizer:
        """That of the base of texts, if there is one."""
        text = section.text
        return OF_BASES.tokenizer(text) if isinstance(text, Pretrained) else NO_TOKENIZER

    def image_size(self, section: DualEncoder) -> tuple[int, ...]:
        """What the base of images reads."""
        image = section.image
        return OF_BASES.image_size(image) if isinstance(image, Pretrained) else ()

    def remarks(self, section: DualEncoder) -> tuple[str, ...]:
        """Of the bases."""
        return tuple(one for base in section.bases.values() for one in OF_BASES.remarks(base))

    def usual_training(self, section: DualEncoder) -> Mapping[str, tuple[Json, str]]:
        """A base changes little, an adapter more."""
        return usual_rate(section.bases)

    def problems(self, section: DualEncoder, _task: LearningTask) -> Iterator[Problem]:
        """Captions are no longer than a base reads."""
        yield from captions_that_fit(section.text)

    def encoding_problems(self, section: DualEncoder, encoding: Encoding) -> Iterator[Problem]:
        """Those of an encoder of images of ours."""
        if isinstance(section.image, ResNet):
            shape = shape_from_json(encoding.shape_json(outputs=1))
            assert isinstance(shape, PairShape)
            _, height, width = shape.size
            yield from section.image.size_problems(height, width, "model.image.pool_grid")

    def build(self, section: DualEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`.

        Raises:
            Mistake: a base has batch norm, or cannot be used.
        """
        return _build(section, shape, OF_BASES.build)

    def build_empty(self, section: DualEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        return _build(section, shape, OF_BASES.build_empty)

    def build_of_bundle(self, section: DualEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        return _build(section, shape, OF_BASES.build_of_bundle)

    def base_names(self, section: DualEncoder, network: nn.Module) -> frozenset[str]:
        """Of each base that has an adapter."""
        return names_in_bases(section.bases, network)

    def with_base(self, section: DualEncoder, recorded: Mapping[str, str]) -> DualEncoder:
        """See `NetworkFamily`."""
        return section.model_copy(update=locate_bases(section.bases, recorded))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Those of the image encoder, then of the text encoder."""
        from trainwright.model.dual_encoder.dual_encoder_network import own_blocks

        for tower in (network.get_submodule("image"), network.get_submodule("text")):
            own = tower if type(tower).__module__.startswith("trainwright.") else None
            yield from OF_BASES.blocks(tower) if own is None else own_blocks(own)

    def undecayed(self, network: nn.Module) -> Iterable[nn.Parameter]:
        """Those of the bases."""
        return OF_BASES.undecayed(network)

    def lay_out(self, network: nn.Module, memory_format: MemoryFormat) -> None:
        """Set the layout of images and convolutions."""
        import torch

        from trainwright.model.dual_encoder.dual_encoder_network import lay_out_images

        is_last = memory_format == "channels_last"
        lay_out_images(network, torch.channels_last if is_last else torch.contiguous_format)

    def count_layers(self, section: DualEncoder) -> int:
        """Blocks of both encoders."""
        return section.block_count


def captions_that_fit(text: TextTower) -> Iterator[Problem]:
    """Texts are no longer than a base reads."""
    if not isinstance(text, Pretrained) or "auto" in (text.base, text.max_length):
        return
    assert text.base != "auto"
    if text.max_length != "auto" and text.max_length > text.base.longest:
        yield Problem(
            "the texts are longer than the base reads",
            path="model.text.max_length",
            found=f"{text.max_length:,}",
            expected=f"at most {text.base.longest:,} tokens",
            fix=f"change it to {text.base.longest}, or remove it",
        )


def read_tower_base(tower: Pretrained, folder: Path, side: str, width: int) -> Pretrained:
    """A base with what its files hold, whose head gives embeddings."""
    form = "images" if side == "image" else "table"
    try:
        found = OF_BASES.read_files(tower, folder, form)
    except Mistake as mistake:
        raise type(mistake)(_of_tower(one, side) for one in mistake.problems) from mistake
    assert found.base != "auto", "its files were read"
    update: dict[str, Json] = {"num_labels": width}
    if side == "text" and found.max_length == "auto":
        update["max_length"] = min(found.base.longest, _USUAL_LENGTH)
    return found.model_copy(update=update)


def _of_tower(problem: Problem, side: str) -> Problem:
    """A problem of a base, at the path of its encoder."""
    return replace(problem, path=problem.path.replace("model.", f"model.{side}.", 1))


def _build(
    section: DualEncoder, shape: Shape, build: Callable[[Pretrained, Shape], nn.Module]
) -> nn.Module:
    from trainwright.model.dual_encoder.dual_encoder_network import (
        DualEncoderNetwork,
        build_own_towers,
    )

    assert isinstance(shape, PairShape), "the rules refuse other data"
    image, text = build_own_towers(section, shape)
    if image is None:
        of_images = ImageShape(shape.size, shape.mean, shape.deviation, section.width)
        image = build(section.bases["image"], of_images)
        _check_norms(image)
    if text is None:
        text = build(section.bases["text"], TextShape(shape.length, section.width))
    return DualEncoderNetwork(image, text, section.temperature)


def _check_norms(network: nn.Module) -> None:
    """Check that an embedding does not depend on its micro-batch."""
    from torch.nn.modules.batchnorm import _BatchNorm

    if any(isinstance(module, _BatchNorm) for module in network.modules()):
        raise Mistake(
            Problem(
                "with batch norm an embedding depends on the rest of its micro-batch",
                path="model.image.architecture",
                found=f"{type(network).__name__} with batch norm",
                expected="a base with layer norm, such as a ViT or a ConvNeXt",
                fix="name another base",
            )
        )
