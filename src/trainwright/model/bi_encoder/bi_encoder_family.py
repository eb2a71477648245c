"""Family `bi_encoder`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.bi_encoder import BiEncoder
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.data.encoders.text_tokenizer import NO_TOKENIZER, TextTokenizer
from trainwright.model.dual_encoder.dual_encoder_family import (
    OF_BASES,
    captions_that_fit,
    locate_bases,
    names_in_bases,
    read_tower_base,
    usual_rate,
)
from trainwright.model.family import LearningTask, NetworkFamily
from trainwright.model.input_shape import Shape, TextPairShape, TextShape

if TYPE_CHECKING:
    from torch import nn


@final
class BiEncoderFamily(NetworkFamily[BiEncoder]):
    """Bi-encoders of texts. What is known of a base of transformers is asked of its own family."""

    def read_files(self, section: BiEncoder, folder: Path, _form: str = "table") -> BiEncoder:
        """What the files of its base hold."""
        text = section.text
        if not isinstance(text, Pretrained):
            return section
        found = read_tower_base(text, folder, "text", section.width)
        return section.model_copy(update={"text": found})

    def tokenizer(self, section: BiEncoder) -> TextTokenizer:
        """That of the base, if there is one."""
        text = section.text
        return OF_BASES.tokenizer(text) if isinstance(text, Pretrained) else NO_TOKENIZER

    def remarks(self, section: BiEncoder) -> tuple[str, ...]:
        """Of the base."""
        text = section.text
        return tuple(OF_BASES.remarks(text)) if isinstance(text, Pretrained) else ()

    def usual_training(self, section: BiEncoder) -> Mapping[str, tuple[Json, str]]:
        """A base changes little, an adapter more."""
        return usual_rate(section.bases)

    def problems(self, section: BiEncoder, _task: LearningTask) -> Iterator[Problem]:
        """Texts are no longer than a base reads."""
        yield from captions_that_fit(section.text)

    def build(self, section: BiEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`.

        Raises:
            Mistake: a base cannot be used.
        """
        return _build(section, shape, OF_BASES.build)

    def build_empty(self, section: BiEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        return _build(section, shape, OF_BASES.build_empty)

    def build_of_bundle(self, section: BiEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        return _build(section, shape, OF_BASES.build_of_bundle)

    def base_names(self, section: BiEncoder, network: nn.Module) -> frozenset[str]:
        """Of a base that has an adapter."""
        return names_in_bases(section.bases, network)

    def with_base(self, section: BiEncoder, recorded: Mapping[str, str]) -> BiEncoder:
        """See `NetworkFamily`."""
        return section.model_copy(update=locate_bases(section.bases, recorded))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Those of the encoder."""
        from trainwright.model.dual_encoder.dual_encoder_network import own_blocks

        tower = network.get_submodule("text")
        is_own = type(tower).__module__.startswith("trainwright.")
        yield from own_blocks(tower) if is_own else OF_BASES.blocks(tower)

    def undecayed(self, network: nn.Module) -> Iterable[nn.Parameter]:
        """Those of the base."""
        return OF_BASES.undecayed(network)

    def count_layers(self, section: BiEncoder) -> int:
        """Blocks of the encoder."""
        return section.block_count


def _build(
    section: BiEncoder, shape: Shape, build: Callable[[Pretrained, Shape], nn.Module]
) -> nn.Module:
    from trainwright.model.bi_encoder.bi_encoder_network import BiEncoderNetwork
    from trainwright.model.dual_encoder.dual_encoder_network import build_text_tower

    assert isinstance(shape, TextPairShape), "the rules refuse other data"
    text = section.text
    if isinstance(text, Pretrained):
        tower = build(text, TextShape(shape.length, section.width))
    else:
        tower = build_text_tower(text, shape.vocabulary, shape.length, section.width)
    return BiEncoderNetwork(tower, section.temperature)
