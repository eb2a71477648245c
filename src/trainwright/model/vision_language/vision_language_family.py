"""Family `vision_language`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.vision_language import VisionLanguage
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.data.captions.caption_encoding import CaptionEncoding
from trainwright.data.encoders.encoding import Encoding
from trainwright.model.dual_encoder.dual_encoder_family import read_tower_base
from trainwright.model.family import MemoryFormat, NetworkFamily
from trainwright.model.gpt.gpt_family import GptFamily
from trainwright.model.input_shape import CaptionShape, Shape
from trainwright.model.pretrained.pretrained_family import PretrainedFamily

if TYPE_CHECKING:
    from torch import nn

    from trainwright.model.vision_language.vision_language_network import VisionLanguageNetwork

_OF_BASES = PretrainedFamily()
_OF_DECODERS = GptFamily()


@final
class VisionLanguageFamily(NetworkFamily[VisionLanguage]):
    """Decoders that read images through a projector. What is known of a decoder or of a base of
    images is asked of its own family."""

    def read_files(
        self, section: VisionLanguage, folder: Path, _form: str = "captions"
    ) -> VisionLanguage:
        """What the files of an earlier stage, or of its bases, hold."""
        if section.start:
            from trainwright.model.vision_language.earlier_run import read_start

            found = read_start(section, folder)
            if found.decoder.has_adapter:
                _check_targets(found.decoder)
            return found
        if section.image_from:
            from trainwright.model.vision_language.earlier_run import read_image_from

            section = read_image_from(section, folder)
        elif isinstance(section.image, Pretrained):
            image = read_tower_base(section.image, folder, "image", 1)
            section = section.model_copy(update={"image": image})
        try:
            decoder = _OF_DECODERS.read_files(section.decoder, folder)
        except Mistake as mistake:
            raise type(mistake)(map(_of_decoder, mistake.problems)) from mistake
        return section.model_copy(update={"decoder": decoder})

    def image_size(self, section: VisionLanguage) -> tuple[int, ...]:
        """That of the base of images, or of the earlier run."""
        image = section.image
        of_base = _OF_BASES.image_size(image) if isinstance(image, Pretrained) else ()
        return of_base or (() if section.taken == "none" else section.taken.image_size)

    def remarks(self, section: VisionLanguage) -> tuple[str, ...]:
        """Of the bases."""
        image = section.image
        of_image = _OF_BASES.remarks(image) if isinstance(image, Pretrained) else ()
        return (*of_image, *_OF_DECODERS.remarks(section.decoder))

    def usual_training(self, section: VisionLanguage) -> Mapping[str, tuple[Json, str]]:
        """A projector alone takes a higher rate than what it stands between (Liu et al. 2023,
        arXiv:2310.03744, table 9)."""
        if section.decoder.has_adapter:
            return _OF_DECODERS.usual_training(section.decoder)
        if section.start:
            return {"learning_rate": (1e-4, "the usual rate beside weights of an earlier stage")}
        return {"learning_rate": (1e-3, "the usual rate of a projector")}

    def encoding_problems(self, section: VisionLanguage, encoding: Encoding) -> Iterator[Problem]:
        """Those of the decoder; and an earlier stage goes on with its own texts."""
        for problem in _OF_DECODERS.encoding_problems(section.decoder, encoding):
            yield _of_decoder(problem)
        text = CaptionEncoding.of_kind(encoding).text
        taken = section.taken
        if taken != "none" and taken.tokens and taken.tokens != text.identity:
            yield Problem(
                "the earlier stage reads other texts",
                path="data.vocabulary",
                found=f"{text.words.kind}, prompt {text.prompt!r}, end {text.end!r}",
                expected=f"data.tokenizer, data.prompt and data.end of {section.start}",
                fix="write them as in the contract of that stage",
            )

    def build(self, section: VisionLanguage, shape: Shape) -> nn.Module:
        """See `NetworkFamily`.

        Raises:
            Mistake: weights are wanted of files that were not read, or have changed.
        """
        import torch

        if torch.get_default_device().type == "meta":
            return self.build_empty(section, shape)
        from trainwright.model.gpt.decoder_folder import load_decoder

        network = _without_adapter(section, shape, is_empty=bool(section.start))
        if section.start:
            self._go_on(network, section, shape)
        else:
            _take_image(network, section)
            if section.decoder.has_base:
                load_decoder(network.decoder, section.decoder)
        return _adapted(network, section.decoder)

    def build_empty(self, section: VisionLanguage, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        network = _without_adapter(section, shape, is_empty=True)
        return _adapted(network, section.decoder)

    def _go_on(self, network: VisionLanguageNetwork, section: VisionLanguage, shape: Shape) -> None:
        """Put the weights of the earlier stage into a network, its adapter merged."""
        from trainwright.model.gpt.decoder_adapter import merge_decoder
        from trainwright.model.vision_language.earlier_run import (
            START,
            fill_weights,
            read_earlier_weights,
            section_of_start,
        )

        assert section.taken != "none", "its files were read"
        weights, before = read_earlier_weights(section.taken), section_of_start(section.taken)
        if before.decoder.has_adapter:
            earlier = self.build_empty(before, shape)
            fill_weights(earlier, weights, START)
            merged = merge_decoder(earlier.get_submodule("decoder"), before.decoder)
            own = {f"decoder.{name}": one for name, one in merged.state_dict().items()}
            kept = {k: one for k, one in weights.items() if not k.startswith("decoder.")}
            weights = {**kept, **own}
        fill_weights(network, weights, START)

    def base_names(self, section: VisionLanguage, network: nn.Module) -> frozenset[str]:
        """Of the decoder, if it has an adapter."""
        names = _OF_DECODERS.base_names(section.decoder, network.get_submodule("decoder"))
        return frozenset(f"decoder.{name}" for name in names)

    def count_frozen(self, section: VisionLanguage, shape: Shape) -> int:
        """Parameters of the decoder beside its adapter."""
        return self._counts(section, shape).frozen if section.decoder.has_adapter else 0

    def width_factors(
        self, section: VisionLanguage, network: nn.Module, /
    ) -> Mapping[nn.Parameter, float]:
        """Those of the decoder."""
        return _OF_DECODERS.width_factors(section.decoder, network.get_submodule("decoder"))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Those of the image encoder, then of the decoder."""
        from trainwright.model.resnet.resnet_network import ImageNetwork

        image = network.get_submodule("image")
        if isinstance(image, ImageNetwork):
            yield from image.blocks
        else:
            yield from _OF_BASES.blocks(image.get_submodule("encoder"))
        yield from _OF_DECODERS.blocks(network.get_submodule("decoder"))

    def undecayed(self, network: nn.Module) -> Iterable[nn.Parameter]:
        """Those of a base of images."""
        return _OF_BASES.undecayed(network)

    def lay_out(self, network: nn.Module, memory_format: MemoryFormat) -> None:
        """Set the layout of images and convolutions."""
        import torch

        from trainwright.model.vision_language.vision_language_network import lay_out_states

        is_last = memory_format == "channels_last"
        lay_out_states(network, torch.channels_last if is_last else torch.contiguous_format)

    def count_layers(self, section: VisionLanguage) -> int:
        """Blocks of both."""
        return section.block_count


def _without_adapter(
    section: VisionLanguage, shape: Shape, *, is_empty: bool
) -> VisionLanguageNetwork:
    from trainwright.model.vision_language.vision_language_network import build_vision_language

    assert isinstance(shape, CaptionShape), "the rules refuse other data"
    return build_vision_language(section, shape, is_empty=is_empty)


def _take_image(network: VisionLanguageNetwork, section: VisionLanguage) -> None:
    """Put the weights of the image encoder of an earlier run into a network."""
    if section.taken == "none":
        return
    from trainwright.model.vision_language.earlier_run import (
        IMAGE_FROM,
        fill_weights,
        read_earlier_weights,
    )

    fill_weights(network.image, read_earlier_weights(section.taken), IMAGE_FROM)


def _adapted(network: VisionLanguageNetwork, decoder: Gpt) -> VisionLanguageNetwork:
    """The network with the adapter of its decoder, if it has one."""
    if decoder.has_adapter:
        from trainwright.model.gpt.decoder_adapter import adapt_decoder

        adapt_decoder(network.decoder, decoder)
    return network


def _check_targets(decoder: Gpt) -> None:
    from trainwright.model.gpt.decoder_adapter import check_targets

    try:
        check_targets(decoder)
    except Mistake as mistake:
        raise type(mistake)(map(_of_decoder, mistake.problems)) from mistake


def _of_decoder(problem: Problem) -> Problem:
    """A problem of the decoder, at its path."""
    path, fix = (
        text.replace("model.", "model.decoder.", 1) for text in (problem.path, problem.fix)
    )
    return replace(problem, path=path, fix=fix)
