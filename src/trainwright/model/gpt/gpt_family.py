"""Family `gpt`, and tokens of the data beside those of a base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.adapter import Ia3, PromptTuning
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, hash_bytes
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.model.family import HubLayout, NetworkFamily
from trainwright.model.input_shape import Shape, TokenShape
from trainwright.model.pretrained.hub_files import locate_base

if TYPE_CHECKING:
    from torch import nn


def token_problems(
    architecture: str, rows: int, base: Base | str, tokens: TokenEncoding
) -> Iterator[Problem]:
    """The embedding of so many `rows` (0: any) has one for each token, and weights of a base need
    its own tokenizer."""
    vocabulary = tokens.vocabulary
    if 0 < rows < vocabulary.size:
        yield Problem(
            "the data has tokens that the model does not know",
            path="model.vocabulary",
            found=f"{rows:,} rows of the embedding, {vocabulary.size:,} tokens",
            expected=f"at least {vocabulary.size:,}",
            fix=f"use the tokenizer of {architecture}" if architecture else "remove vocabulary",
        )
    if isinstance(base, str) or not base.weights:
        return
    symbols = hash_bytes(vocabulary.symbols.encode())
    if vocabulary.kind != "subwords" or symbols != base.tokenizer:
        yield _foreign_tokenizer(architecture, base, tokens)


def _foreign_tokenizer(architecture: str, base: Base, tokens: TokenEncoding) -> Problem:
    """The tokens are not those of the base; preferences have no vocabulary to choose, and need the
    weights."""
    own = f"data.tokenizer: {architecture}/tokenizer.json"
    fix = f"write data.vocabulary: tokenizer and {own}, or model.weights: none"
    return Problem(
        "the weights of the base need its own tokenizer",
        path="data.tokenizer" if tokens.has_tokenizer else "data.vocabulary",
        found=f"a vocabulary of {tokens.vocabulary.size:,} {tokens.vocabulary.kind}",
        expected=f"the tokenizer.json of {architecture}"
        if base.tokenizer
        else "a base with a tokenizer.json",
        fix=f"write {own}" if tokens.has_tokenizer else fix,
    )


@final
class GptFamily(NetworkFamily[Gpt]):
    """Decoder-only transformers."""

    def read_files(self, section: Gpt, folder: Path, form: str = "tokens") -> Gpt:  # noqa: ARG002
        """See `Family`."""
        if not section.architecture:
            return section
        from trainwright.model.gpt.decoder_folder import read_decoder

        found = read_decoder(section, folder)
        if found.has_adapter:
            from trainwright.model.gpt.decoder_adapter import check_targets

            check_targets(found)
        return found

    def remarks(self, section: Gpt) -> tuple[str, ...]:
        """Windows that the base has not seen."""
        if section.base == "none" or section.weights == "none":
            return ()
        longest, scaling = section.base.longest, section.rotary_scaling
        if section.context <= longest:
            return ()
        how = "none" if scaling == "none" else f"{scaling.kind} by {scaling.factor:g}"
        return (
            f"windows of {section.context:,} tokens are longer than the {longest:,} positions of "
            f"the base; its rotary positions are scaled: {how}",
        )

    def usual_training(self, section: Gpt) -> Mapping[str, tuple[Json, str]]:
        """An adapter takes ten times the rate of its base (Hu et al. 2021, appendix D), (IA)3 that
        of Liu et al. 2022 (section 3.3), a prompt more still (Lester et al. 2021, appendix A)."""
        if not section.has_adapter:
            return {}
        match section.adapter:
            case PromptTuning():
                return {"learning_rate": (3e-2, "the usual rate of the vectors of a prompt")}
            case Ia3():
                return {"learning_rate": (3e-3, "the usual rate of (IA)3")}
            case _:
                return {"learning_rate": (2e-4, "the usual rate of an adapter")}

    def encoding_problems(self, section: Gpt, encoding: Encoding) -> Iterator[Problem]:
        """The embedding has a row for each token. Weights of a base need its tokenizer."""
        tokens = TokenEncoding.of_kind(encoding)
        yield from token_problems(section.architecture, section.vocabulary, section.base, tokens)

    def build(self, section: Gpt, shape: Shape) -> nn.Module:
        """See `NetworkFamily`.

        Raises:
            Mistake: weights are wanted of a base whose files were not read.
        """
        network = _without_adapter(section, shape)
        if section.base == "none" or section.weights == "none":
            return network
        from trainwright.model.gpt.decoder_adapter import adapt_decoder
        from trainwright.model.gpt.decoder_folder import load_decoder

        load_decoder(network, section)
        return adapt_decoder(network, section)

    def build_empty(self, section: Gpt, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.gpt.decoder_adapter import adapt_decoder

        return adapt_decoder(_without_adapter(section, shape), section)

    def with_base(self, section: Gpt, recorded: Mapping[str, str]) -> Gpt:
        """See `NetworkFamily`."""
        assert section.base != "none", "an adapter has a base"
        base = locate_base(section, section.base, recorded.get("", ""))
        return section.model_copy(update={"base": base})

    def few_targets(self, section: Gpt) -> tuple[str, ...]:
        """Queries and values (Hu et al. 2021, section 7.1)."""
        return ("c_attn",) if section.positions == "learned" else ("q_proj", "v_proj")

    def unmerge(self, network: nn.Module) -> None:
        """The vectors of a prompt too."""
        from trainwright.model.gpt.gpt_network import GptNetwork

        assert isinstance(network, GptNetwork)
        network.prompt, network.prompt_length = None, 0
        super().unmerge(network)

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Blocks of attention and feed-forward."""
        from trainwright.model.gpt.gpt_network import GptNetwork

        assert isinstance(network, GptNetwork)
        return network.blocks

    def count_logits(self, section: Gpt, shape: Shape, /) -> int:
        """See `NetworkFamily`."""
        return 2 * section.context * _vocabulary(section, shape)

    def width_factors(self, section: Gpt, network: nn.Module, /) -> Mapping[nn.Parameter, float]:
        """Under mup matrices inside the blocks learn with 1 / m of the rate (Yang et al. 2022,
        arXiv:2203.03466, table 8, row "Adam LR"); embeddings, the head and vectors with all."""
        if section.width_factor == 1.0:
            return {}
        inside = self.blocks(network)
        matrices = (one for block in inside for one in block.parameters() if one.ndim > 1)
        return dict.fromkeys(matrices, section.width_factor)

    def hub_layout(self, section: Gpt, network: nn.Module) -> HubLayout:
        """A GPT-2, Llama or Qwen2; an adapter is merged into it."""
        from trainwright.model.gpt.decoder_adapter import merge_decoder
        from trainwright.model.gpt.decoder_config import config_of
        from trainwright.model.gpt.decoder_folder import PLACES, add_places, foreign_weights
        from trainwright.model.gpt.gpt_network import GptNetwork

        assert isinstance(network, GptNetwork)
        config = config_of(section, network.embedding.num_embeddings)
        kind = str(config["model_type"])
        weights = foreign_weights(section, kind, merge_decoder(network, section).state_dict())
        places = weights.get(PLACES)
        if places is None or len(places) == config["n_positions"]:
            return HubLayout(config, weights)
        assert section.base != "none", "else it has the positions of its windows"
        try:
            weights[PLACES] = add_places(places, locate_base(section, section.base, ""))
        except Mistake:
            config["n_positions"] = section.context
            doubt = (
                f"the positions end at {section.context:,}: those after it are in the files of "
                f"{section.architecture}, which are not on this machine"
            )
            return HubLayout(config, weights, doubt)
        return HubLayout(config, weights)

    def count_layers(self, section: Gpt) -> int:
        """Blocks."""
        return section.layers

    def count_parameters(self, section: Gpt, shape: Shape) -> int:
        """A head that is tied to the embedding counts once."""
        if section.has_adapter:
            return super().count_parameters(section, shape)
        width = section.width
        ends = _vocabulary(section, shape) * width * (1 if section.tied else 2)
        places = section.context * width if section.positions == "learned" else 0
        norm = width * (2 if section.norm == "layer" and section.bias == "all" else 1)
        block = _projections(section) + 2 * norm
        if section.bias != "none":
            block += _projected(section)
        if section.bias == "all":
            block += 2 * width + _widened(section)
        return ends + places + section.layers * block + norm

    def count_largest(self, section: Gpt, shape: Shape) -> int:
        """See `NetworkFamily`."""
        if section.has_adapter:
            return super().count_largest(section, shape)
        places = section.context if section.positions == "learned" else 0
        wide = max(_projected(section), _widened(section))
        return max(_vocabulary(section, shape), wide, places) * section.width

    def frozen_bytes(self, section: Gpt, shape: Shape) -> int:
        """Matrices of the blocks may be quantised."""
        whole = super().frozen_bytes(section, shape)
        if section.quantization == "none":
            return whole
        from trainwright.model.adapters.quantized_size import quantized_bytes

        shapes = list(_matrices(section))
        each = quantized_bytes(section.quantization, shapes) - 4 * sum(a * b for a, b in shapes)
        return whole + section.layers * each

    def count_products(self, section: Gpt, shape: Shape) -> int:
        """See `NetworkFamily`."""
        if section.has_adapter:
            return super().count_products(section, shape)
        width, context = section.width, section.context
        blocks = section.layers * (_projections(section) + 2 * context * width)
        return context * (blocks + _vocabulary(section, shape) * width)

    def count_activations(self, section: Gpt, shape: Shape) -> int:
        """See `NetworkFamily`."""
        if section.has_adapter:
            return super().count_activations(section, shape)
        width, length = section.width, section.context
        # Norms and their inputs, queries, keys and values as every head of queries has them, what
        # attention gives, and the wide layer before and behind its activation; two numbers of each
        # norm, one of each head's softmax.
        block = 8 * width + section.heads + 5 + 2 * section.inner_width
        if section.feed_forward == "swiglu":
            block += 2 * section.inner_width
        if section.positions == "rotary" or section.dropout:
            block += 3 * width
        ends = 2 * width + 2 * _vocabulary(section, shape)
        if section.dropout:
            # Attention in parts: its weights, their mask and what is left, in the place of the
            # softmax's numbers and fewer copies of queries, keys and values; two masks behind the
            # parts of the block.
            block += 3 * section.heads * length - width - section.heads
            ends += width
        return length * (section.layers * block + ends)


def _without_adapter(section: Gpt, shape: Shape) -> nn.Module:
    from trainwright.model.gpt.gpt_network import GptNetwork

    assert isinstance(shape, TokenShape)
    return GptNetwork(section, shape)


def _matrices(section: Gpt) -> Iterator[tuple[int, int]]:
    """Rows and columns of the matrices of a block, as the architecture of its base has them."""
    width, keys = section.width, section.key_heads * section.head_width
    is_joined = section.positions == "learned"
    yield from (
        [(_projected(section), width)] if is_joined else [(width, width), *[(keys, width)] * 2]
    )
    yield width, width
    gates = 2 if section.feed_forward == "swiglu" else 1
    yield from [(section.inner_width, width)] * gates
    yield width, section.inner_width


def _vocabulary(section: Gpt, shape: Shape) -> int:
    return section.vocabulary or shape.outputs


def _projected(section: Gpt) -> int:
    """Outputs of the projection to queries, keys and values."""
    return (section.heads + 2 * section.key_heads) * section.head_width


def _widened(section: Gpt) -> int:
    """Outputs of the first projection of the feed-forward part."""
    return section.inner_width * (2 if section.feed_forward == "swiglu" else 1)


def _projections(section: Gpt) -> int:
    """Weights of the matrices of a block."""
    width = section.width
    outputs = _projected(section) + width + _widened(section)
    return width * (outputs + section.inner_width)
