"""`model` of kind `causal_lm`: a causal language model of transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.adapter import LayerAdapter
from trainwright.contract.sections.model.pretrained import (
    Base,
    DecoderOfBase,
    baseless_adapter,
    count_layers_of,
)
from trainwright.contract.sections.model.traits import Traits
from trainwright.core.errors import Problem


class CausalLm(DecoderOfBase):
    """A model of transformers that predicts the next token, of any architecture: GPT-NeoX, Phi,
    Mistral, Gemma and others. Llama, Qwen2 and GPT-2 are those of `kind: gpt` too, which is faster
    and needs no transformers. Code that comes with a model is never run."""

    traits: ClassVar[Traits] = Traits(
        reads=("tokens",),
        has_blocks=True,
        fuses_head=True,
        writes_text=True,
        files=("base",),
        needs_files=True,
        adapters=frozenset({"lora", "rslora", "dora", "ia3"}),
    )

    kind: Literal["causal_lm"]

    architecture: str
    """Folder with `config.json`, weights as safetensors and a `tokenizer.json`, relative to the
    contract; or the name of a model of the hub. With HF_HUB_OFFLINE=1 only the local cache of the
    hub is read."""

    revision: str = "main"
    """Branch, tag or commit of a model of the hub."""

    weights: Literal["pretrained", "none"] = "pretrained"
    """Initial weights: those of the base; or `none`, random ones as transformers draws them, for
    which only the configuration is read."""

    adapter: Literal["none"] | LayerAdapter = "none"
    """Weights that are trained beside those of the base, which are frozen."""

    context: Annotated[int, Field(ge=2)] = 64
    """Tokens that the model sees at once, at most the positions of the base. A training row is a
    window of so many tokens."""

    base: Literal["none"] | Base = "none"
    """What was found in the files of `architecture`; the plan fills it in."""

    @property
    def block_count(self) -> int:
        """Layers of the decoder."""
        return 1 if self.base == "none" else count_layers_of(json.loads(self.base.config))

    @property
    def context_length(self) -> int:
        """Tokens of a window."""
        return self.context

    @property
    def has_base(self) -> bool:
        """Does it start from the weights of another model?"""
        return self.weights == "pretrained"

    @property
    def has_adapter(self) -> bool:
        """Is an adapter trained, and not the base?"""
        return self.adapter != "none"

    def own_problems(self) -> Iterator[Problem]:
        """An adapter stands beside weights that exist."""
        if self.has_adapter and not self.has_base:
            yield baseless_adapter("model.weights", self.weights)
