"""Adapters of causal language models of transformers. Needs torch, transformers and PEFT."""

from __future__ import annotations

from typing import Any

import torch

from trainwright.contract.sections.model.adapter import InLayers
from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.model.adapters.need_peft import need_peft
from trainwright.model.causal_lm.causal_network import CausalNetwork, build_causal
from trainwright.model.pretrained.encoder_adapter import inject_into, layers_to_adapt


def adapt_causal(network: CausalNetwork, adapter: InLayers) -> None:
    """Put an adapter into the layers of the model, of which the head is none.

    Raises:
        Mistake: a target names no layer. MissingExtra: PEFT is not installed.
    """
    model: Any = network.model
    head = model.get_output_embeddings()
    layers = layers_to_adapt(model, adapter)
    inside = [name for name in layers if model.get_submodule(name) is not head]
    inject_into(model, adapter, inside)


def check_causal_targets(section: CausalLm) -> None:
    """Check the targets of an adapter against the layers of the base, without its weights.

    Raises:
        Mistake: a target names no layer. MissingExtra: PEFT is not installed.
    """
    assert section.adapter != "none", "only asked of an adapter"
    need_peft()
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        adapt_causal(build_causal(section, is_new=True), section.adapter)
