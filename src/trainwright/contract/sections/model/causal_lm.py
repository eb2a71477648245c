"""`model` of kind `causal_lm`: a causal language model of transformers."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.pretrained import Base, DecoderOfBase, count_layers_of
from trainwright.contract.sections.model.traits import Traits


class CausalLm(DecoderOfBase):
    """A model of transformers that predicts the next token, of any architecture: GPT-NeoX, Phi,
    Mistral, Gemma and others. Llama, Qwen2 and GPT-2 are those of `kind: gpt` too, which is faster
    and needs no transformers. Code that comes with a model is never run."""

    traits: ClassVar[Traits] = Traits(
        reads=("tokens",), has_blocks=True, writes_text=True, files=("base",), needs_files=True
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
