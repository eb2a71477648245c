"""Adapters of a decoder, whose layers are named as in the architecture of its base. Needs torch.

In our decoder queries, keys and values stand in one matrix, and so do the two halves of SwiGLU. A
Llama or a Qwen2 has a matrix for each, with factors of their own; so these are taken apart where an
adapter adapts them. A GPT-2 has one matrix for queries, keys and values itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, assert_never, final

import torch
from torch import Tensor, nn

from trainwright.contract.sections.model.adapter import (
    Adapter,
    Dora,
    Ia3,
    Lora,
    PromptTuning,
    RsLora,
    Targets,
)
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.core.errors import Mistake, Problem
from trainwright.model.adapters.inject_adapter import choose_layers, inject_adapter
from trainwright.model.adapters.merge_adapter import merged
from trainwright.model.adapters.need_bitsandbytes import need_bitsandbytes
from trainwright.model.adapters.need_peft import ADAPTER_PATH, need_peft
from trainwright.model.adapters.soft_prompt import build_prompt
from trainwright.model.gpt.gpt_network import GptNetwork

_QUERIES_KEYS_VALUES, _WIDE = "queries_keys_values", "wide"
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    _QUERIES_KEYS_VALUES: ("queries", "keys", "values"),
    _WIDE: ("gate", "up"),
}
_OF_LLAMA: Final[Mapping[str, str]] = {
    "q_proj": f"{_QUERIES_KEYS_VALUES}.queries",
    "k_proj": f"{_QUERIES_KEYS_VALUES}.keys",
    "v_proj": f"{_QUERIES_KEYS_VALUES}.values",
    "o_proj": "attended",
    "gate_proj": f"{_WIDE}.gate",
    "up_proj": f"{_WIDE}.up",
    "down_proj": "narrow",
}
_OF_GPT2: Final[Mapping[str, str]] = {
    "attn.c_attn": _QUERIES_KEYS_VALUES,
    "attn.c_proj": "attended",
    "mlp.c_fc": _WIDE,
    "mlp.c_proj": "narrow",
}
_FACTORED: Final = ("k_proj", "v_proj", "down_proj")
_FACTORED_OF_GPT2: Final = ("c_attn", "mlp.c_proj")
_OF_INPUTS: Final = "narrow"
"""The second layer of the feed-forward part, of which (IA)3 has factors of the inputs."""


@final
class SeparateLinear(nn.Module):
    """Linear layers of the same inputs, whose outputs are joined."""

    def __init__(self, joined: nn.Linear, sizes: Sequence[int], names: Sequence[str]) -> None:
        super().__init__()
        values = {key: torch.split(one, list(sizes)) for key, one in joined.state_dict().items()}
        for number, name in enumerate(names):
            width = joined.in_features
            layer = nn.Linear(width, sizes[number], "bias" in values, device="meta")
            for key, parts in values.items():
                layer.register_parameter(key, nn.Parameter(parts[number].clone()))
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of all layers, one after another."""
        return torch.cat([layer(x) for layer in self.children()], dim=-1)

    def joined(self) -> nn.Linear:
        """One layer with the same outputs."""
        states = [one.state_dict() for one in self.children()]
        values = {key: torch.cat([state[key] for state in states]) for key in states[0]}
        outputs, inputs = values["weight"].shape
        whole = nn.Linear(inputs, outputs, "bias" in values, device="meta")
        for key, value in values.items():
            whole.register_parameter(key, nn.Parameter(value))
        return whole


def check_targets(section: Gpt) -> None:
    """Check the targets of an adapter against the architecture of the base.

    Raises:
        Mistake: a target names no layer, or this device cannot quantise. MissingExtra: PEFT or
            bitsandbytes is not installed.
    """
    if section.adapter != "none":
        need_peft()
        if section.quantization != "none":
            need_bitsandbytes(section.quantization)
        choose_layers(list(_layers(section)), _targets(section.adapter, _layers(section)))


def adapt_decoder(network: nn.Module, section: Gpt) -> nn.Module:
    """The network with the adapter of its section, if it has one.

    Raises:
        Mistake: a target names no layer. MissingExtra: PEFT is not installed.
    """
    adapter = section.adapter
    if section.quantization != "none":
        quantize_decoder(network, section)
    if adapter == "none":
        return network
    if isinstance(adapter, PromptTuning):
        assert isinstance(network, GptNetwork)
        network.requires_grad_(False)
        network.prompt = build_prompt(adapter, network.embedding)
        return network
    layers = _layers(section)
    ours = [layers[name] for name in choose_layers(list(layers), _targets(adapter, layers))]
    _take_apart(network, section, {one.partition(".")[0] for one in ours if "." in one})
    blocks = range(section.layers)
    paths = [f"blocks.{number}.{layer}" for number in blocks for layer in ours]
    of_inputs = [one for one in paths if one.endswith(f".{_OF_INPUTS}")]
    return inject_adapter(network, adapter, paths, of_inputs)


def merge_decoder(network: nn.Module, section: Gpt) -> nn.Module:
    """The network without its adapter, in the shape of the decoder; itself if it has none.

    Raises:
        Mistake: its adapter changes no weight.
    """
    if section.adapter == "none":
        return network
    if isinstance(section.adapter, PromptTuning):
        raise Mistake(
            Problem(
                "the vectors of a prompt cannot be merged: they change no weight of the base",
                path=ADAPTER_PATH,
                found=section.adapter.kind,
                expected="lora, rslora, dora or ia3",
                fix="use the run itself, or train one of these",
            )
        )
    whole = merged(network)
    for path, module in list(whole.named_modules()):
        if isinstance(module, SeparateLinear):
            parent, _, name = path.rpartition(".")
            setattr(whole.get_submodule(parent), name, module.joined())
    return whole


def _targets(adapter: Adapter, layers: Mapping[str, str]) -> Targets:
    """Names of the layers that an adapter adapts."""
    match adapter:
        case PromptTuning():
            return "all"
        case Lora() | RsLora() | Dora():
            return adapter.targets
        case Ia3() if adapter.targets != "usual":
            return adapter.targets
        case Ia3():
            return _FACTORED_OF_GPT2 if layers is _OF_GPT2 else _FACTORED
        case _:
            assert_never(adapter)


def quantize_decoder(network: nn.Module, section: Gpt) -> None:
    """Quantise the matrices of the blocks, each as the architecture of the base has it."""
    from trainwright.model.adapters.quantized_linear import quantize_layers

    assert section.quantization != "none", "only asked of a quantised decoder"
    ours = list(_layers(section).values())
    _take_apart(network, section, {one.partition(".")[0] for one in ours if "." in one})
    paths = [f"blocks.{number}.{one}" for number in range(section.layers) for one in ours]
    quantize_layers(network, section.quantization, paths)


def _take_apart(network: nn.Module, section: Gpt, names: set[str]) -> None:
    keys = section.key_heads * section.head_width
    sizes = {
        _QUERIES_KEYS_VALUES: [section.heads * section.head_width, keys, keys],
        _WIDE: [section.inner_width] * 2,
    }
    for number in range(section.layers):
        block = network.get_submodule(f"blocks.{number}")
        for name in sorted(names):
            joined = block.get_submodule(name)
            if isinstance(joined, SeparateLinear):
                continue
            assert isinstance(joined, nn.Linear)
            setattr(block, name, SeparateLinear(joined, sizes[name], _PARTS[name]))


def _layers(section: Gpt) -> Mapping[str, str]:
    """Layers of a block by their names in the architecture of the base."""
    assert section.base != "none", "only asked of a decoder with a base"
    return _OF_GPT2 if json.loads(section.base.config)["model_type"] == "gpt2" else _OF_LLAMA
