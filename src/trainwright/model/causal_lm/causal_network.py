"""Causal language models of transformers as networks from tokens to logits, and what such a model
can do, found by trying it. Needs torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.core.errors import Mistake, Problem
from trainwright.model.attention.causal_attention import within_documents
from trainwright.model.attention.key_value_cache import KeyValueCache
from trainwright.model.pretrained.hub_files import (
    classifier_class,
    known_config,
    unfit,
    unusable,
)
from trainwright.model.pretrained.sequence_classifier import quiet

_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_FEW = 2
_TOKENS = 64
_EQUAL = 1e-5
_NAMED = 5


@final
class CausalNetwork(nn.Module):
    """A causal language model of transformers, from tokens [B, L] to logits [B, L, V]."""

    def __init__(self, model: nn.Module, context: int) -> None:
        super().__init__()
        self.model = model
        self.context = context

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Literal["running"] | Int[Tensor, "B L"] = "running",
    ) -> Float[Tensor, "B L V"]:
        """Logits of the next token at each position. In a packed window, `positions` start at 0 in
        each document, and documents do not attend to each other."""
        named: dict[str, Any] = {"input_ids": tokens, "use_cache": False}
        if isinstance(positions, str) and tokens.is_meta:
            # Transformers looks for packed documents in the values of the positions.
            positions = torch.arange(tokens.shape[1], device="meta").expand(tokens.shape)
        if not isinstance(positions, str):
            named |= {"position_ids": positions, "attention_mask": self._mask(positions)}
        logits: Tensor = self.model(**named).logits
        return logits

    def extend(self, tokens: Int[Tensor, "B L"], cache: KeyValueCache) -> Float[Tensor, "B V"]:
        """Logits of the token after the last of `tokens`, which follow those of the cache; the
        cache of the model itself, which `cache` holds, grows by them.

        Raises:
            Mistake: this architecture has no such cache.
        """
        given = self.model(input_ids=tokens, past_key_values=cache.foreign, use_cache=True)
        grown = getattr(given, "past_key_values", None)
        if grown is None:
            raise Mistake(_no_cache(type(self.model).__name__))
        cache.foreign = grown
        cache.length += tokens.shape[1]
        logits: Tensor = given.logits[:, -1]
        return logits

    def _mask(self, positions: Tensor) -> Tensor:
        """Which tokens see each other, as the attention of the model takes it."""
        seen = within_documents(positions)
        config: Any = self.model.config
        if config._attn_implementation == "sdpa":
            return seen
        kind = next(self.model.parameters()).dtype
        unseen = torch.finfo(kind).min
        return torch.zeros(seen.shape, dtype=kind, device=seen.device).masked_fill(~seen, unseen)


class Abilities(NamedTuple):
    """What a model of an architecture can do: predict without seeing what comes after, keep packed
    documents apart, and go on from its own cache."""

    is_causal: bool
    packs: bool
    caches: bool


@lru_cache(maxsize=8)
def try_abilities(config: str) -> Abilities:
    """Abilities of an architecture by its `config.json`, tried on a model of random weights with
    few layers and tokens.

    Raises:
        Mistake: it cannot be built.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.no_grad():
        torch.manual_seed(0)
        network = CausalNetwork(_few_layers(config), 8).eval()
        tokens = torch.arange(3, 11)[None]
        whole = network(tokens)
        other = tokens.clone()
        other[0, -1] = 40
        is_causal = _equal(lambda: network(other)[:, :-1], whole[:, :-1])
        starts = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
        apart = torch.cat([network(one) for one in (tokens[:, :3], tokens[:, 3:])], dim=1)
        packs = _equal(lambda: network(tokens, starts), apart)

        def extended() -> Tensor:
            cache = KeyValueCache()
            network.extend(tokens[:, :5], cache)
            for at in (5, 6):
                network.extend(tokens[:, at : at + 1], cache)
            return network.extend(tokens[:, 7:], cache)

        return Abilities(is_causal, packs, _equal(extended, whole[:, -1]))


def build_causal(section: CausalLm, *, is_new: bool) -> CausalNetwork:
    """Network of a section, with the weights of its base or with new ones.

    Raises:
        Mistake: weights are missing, or no network has the sizes of the base.
    """
    assert section.base != "none", "its files were read"
    config = known_config(json.loads(section.base.config), "tokens")
    with quiet():
        model = _draw(config) if is_new else _read(section.base.folder, config)
    return CausalNetwork(model.train(), section.context)


def position_count(config: str) -> int:
    """Positions that the base was trained on; 0 where its configuration names none."""
    text = known_config(json.loads(config), "tokens").get_text_config()
    found = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", 0)
    return int(found or 0)


def attention_window(config: str) -> int:
    """Tokens that a layer with a sliding window sees; 0 without one."""
    text = known_config(json.loads(config), "tokens").get_text_config()
    is_used = getattr(text, "use_sliding_window", True)
    return int(getattr(text, "sliding_window", None) or 0) if is_used else 0


def embedding_rows(config: str) -> int:
    """Tokens that the model has embeddings for."""
    return int(known_config(json.loads(config), "tokens").get_text_config().vocab_size)


def _few_layers(config: str) -> nn.Module:
    values = json.loads(config)
    small = known_config(values, "tokens")
    for name in _LAYERS:
        if isinstance(getattr(small, name, None), int):
            setattr(small, name, min(_FEW, getattr(small, name)))
    if isinstance(kinds := getattr(small, "layer_types", None), list):
        small.layer_types = kinds[:_FEW]
    small.vocab_size, small.pad_token_id = _TOKENS, None
    with quiet():
        try:
            return _draw(small)
        except Mistake:
            # Some shapes have settings for each layer.
            return _draw(known_config(values, "tokens"))


def _equal(compute: Callable[[], Tensor], wanted: Tensor) -> bool:
    """Whether what is computed is what it should be; an architecture may refuse in any way."""
    try:
        found = compute()
    except Exception:
        return False
    return found.shape == wanted.shape and bool((found - wanted).abs().max() < _EQUAL)


def _draw(config: Any) -> nn.Module:
    kind = classifier_class("tokens")
    try:
        made: nn.Module = kind.from_config(config, dtype=torch.float32, trust_remote_code=False)
    # Each architecture has its own way to fail with a size or a name it cannot have.
    except Exception as error:
        raise unfit(config.model_type, error) from error
    return made


def _read(folder: str, config: Any) -> nn.Module:
    kind = classifier_class("tokens")
    try:
        model, loaded = kind.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise unusable(
            "the weights of the base cannot be read", str(error), "weights of its config.json"
        ) from error
    if lost := sorted(loaded["missing_keys"]):
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise unusable(
            "the weights of the base are not those of its config.json",
            f"none of this name: {', '.join(lost[:_NAMED])}{more}",
            "every weight of the model",
        )
    found: nn.Module = model
    return found


def _no_cache(kind: str) -> Problem:
    return Problem(
        "the model has no cache of keys and values to write texts with",
        found=kind,
        expected="an architecture with one",
        fix="open its folder in transformers",
    )
