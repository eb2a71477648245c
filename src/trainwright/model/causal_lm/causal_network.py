"""Causal language models of transformers as networks, and their adapters. Needs torch and
transformers.

A network goes from tokens to logits; what such a model can do is found by trying it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.adapter import InLayers
from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.core.errors import Mistake
from trainwright.model.adapters.need_peft import need_peft
from trainwright.model.causal_attention import KeyValueCache, within_documents
from trainwright.model.pretrained.encoder_adapter import inject_into, layers_to_adapt
from trainwright.model.pretrained.hub_files import classifier_class, known_config, unfit
from trainwright.model.pretrained.sequence_classifier import draw, few_layers, quiet, read_weights

_TOKENS = 64
_EQUAL = 1e-5
_LARGE = 100
"""Times the usual weights of a head: a limit of its logits shows."""


@final
class CausalNetwork(nn.Module):
    """A causal language model of transformers, from tokens [B, L] to logits [B, L, V]. `abilities`
    are asked for when a text is written, and when the network is counted."""

    def __init__(self, model: nn.Module, context: int, abilities: Callable[[], Abilities]) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self._abilities = abilities

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Literal["running"] | Int[Tensor, "B L"] = "running",
    ) -> Float[Tensor, "B L V"]:
        """Logits of the next token at each position. In a packed window, `positions` start at 0 in
        each document, and documents do not attend to each other."""
        logits: Tensor = self.model(**self._inputs(tokens, positions)).logits
        return logits

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Literal["running"] | Int[Tensor, "B L"] = "running",
    ) -> Float[Tensor, "B L D"]:
        """What the head reads at each position."""
        model: Any = self.model
        states: Tensor = model.base_model(**self._inputs(tokens, positions)).last_hidden_state
        return states

    @property
    def head_weight(self) -> Float[Tensor, "V D"]:
        """Weights of the head."""
        model: Any = self.model
        weight: Tensor = model.get_output_embeddings().weight
        return weight

    def extend(self, tokens: Int[Tensor, "B L"], cache: KeyValueCache) -> Float[Tensor, "B V"]:
        """Logits of the token after the last of `tokens`, which follow those of the cache; `cache`
        holds that of the model itself, which grows by them. For a model without one it holds the
        tokens, which are all read again."""
        if self._abilities().caches:
            return self.extend_own(tokens, cache)
        earlier = cache.foreign
        read = tokens if earlier is None else torch.cat([earlier, tokens], dim=1)
        cache.foreign, cache.length = read, read.shape[1]
        logits: Tensor = self(read)[:, -1]
        return logits

    def extend_own(self, tokens: Int[Tensor, "B L"], cache: KeyValueCache) -> Float[Tensor, "B V"]:
        """The same by the cache of the model, which has one."""
        given = self.model(input_ids=tokens, past_key_values=cache.foreign, use_cache=True)
        cache.foreign = given.past_key_values
        cache.length += tokens.shape[1]
        logits: Tensor = given.logits[:, -1]
        return logits

    def _inputs(self, tokens: Tensor, positions: Literal["running"] | Tensor) -> dict[str, Any]:
        named: dict[str, Any] = {"input_ids": tokens, "use_cache": False}
        if isinstance(positions, str) and tokens.is_meta and self._abilities().packs:
            # Transformers looks for packed documents in the values of the positions.
            positions = torch.arange(tokens.shape[1], device="meta").expand(tokens.shape)
        if not isinstance(positions, str):
            named |= {"position_ids": positions, "attention_mask": self._mask(positions)}
        return named

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
    documents apart, go on from its own cache, and give its logits as a product of what the head
    reads and its weights."""

    is_causal: bool
    packs: bool
    caches: bool
    fuses: bool


@lru_cache(maxsize=8)
def try_abilities(config: str) -> Abilities:
    """Abilities of an architecture by its `config.json`, tried on a model of random weights with
    few layers and tokens.

    Raises:
        Mistake: it cannot be built.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.no_grad():
        torch.manual_seed(0)
        tokens = torch.arange(3, 11)[None]
        network, whole = _network_to_try(config, tokens)
        other = tokens.clone()
        other[0, -1] = 40
        is_causal = _equal(lambda: network(other)[:, :-1], whole[:, :-1])
        starts = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
        apart = torch.cat([network(one) for one in (tokens[:, :3], tokens[:, 3:])], dim=1)
        packs = _equal(lambda: network(tokens, starts), apart)

        def extended() -> Tensor:
            cache = KeyValueCache()
            network.extend_own(tokens[:, :5], cache)
            for at in (5, 6):
                network.extend_own(tokens[:, at : at + 1], cache)
            return network.extend_own(tokens[:, 7:], cache)

        caches = _equal(extended, whole[:, -1])
        return Abilities(is_causal, packs, caches, _fuses(network, tokens))


def build_causal(section: CausalLm, *, is_new: bool) -> CausalNetwork:
    """Network of a section, with the weights of its base or with new ones.

    Raises:
        Mistake: weights are missing, or no network has the sizes of the base.
    """
    assert section.base != "none", "its files were read"
    config = known_config(json.loads(section.base.config), "tokens")
    with quiet():
        kind = classifier_class("tokens")
        folder = section.base.folder
        model = (
            draw(kind, config) if is_new else read_weights(kind, folder, config, needs_head=True)
        )
    abilities = partial(try_abilities, section.base.config)
    return CausalNetwork(model.train(), section.context, abilities)


def position_count(config: str) -> int:
    """Positions that the base was trained on; 0 where its configuration names none."""
    text = known_config(json.loads(config), "tokens").get_text_config()
    found = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", 0)
    return int(found or 0)


def map_tied_weights(config: str) -> dict[str, str]:
    """Names of weights that are those of another name, as of a head tied to the embedding."""
    values = known_config(json.loads(config), "tokens")
    if not values.get_text_config().tie_word_embeddings:
        return {}
    model = classifier_class("tokens")._model_mapping[type(values)]
    return dict(model._tied_weights_keys or {})


def attention_window(config: str) -> int:
    """Tokens that a layer with a sliding window sees; 0 without one."""
    text = known_config(json.loads(config), "tokens").get_text_config()
    is_used = getattr(text, "use_sliding_window", True)
    return int(getattr(text, "sliding_window", None) or 0) if is_used else 0


def _network_to_try(config: str, tokens: Tensor) -> tuple[CausalNetwork, Tensor]:
    """A network of few layers and tokens, or a whole one where some cannot be left away, and its
    logits.

    Raises:
        Mistake: it cannot be built, or gives none.
    """
    whole, refused = json.loads(config), Exception()
    for values in (few_layers(whole), whole):
        try:
            small = known_config(values, "tokens")
            if values is not whole:
                small.vocab_size, small.pad_token_id = _TOKENS, None
            with quiet():
                model = draw(classifier_class("tokens"), small)
                network = CausalNetwork(model, 8, partial(try_abilities, config)).eval()
                return network, network(tokens)
        # Some shapes have settings for each layer; each has its own way to refuse rows.
        except Exception as error:
            refused = error
    raise refused if isinstance(refused, Mistake) else unfit(whole["model_type"], refused)


def _fuses(network: CausalNetwork, tokens: Tensor) -> bool:
    """Whether logits are the product of features and head, also where they are large. The head of
    the network is changed."""
    model: Any = network.model
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear) or "bias" in head.state_dict():
        return False
    head.weight.mul_(_LARGE)
    whole = network(tokens)
    largest = float(whole.abs().max().clamp(min=1))
    return _equal(
        lambda: functional.linear(network.features(tokens), head.weight) / largest, whole / largest
    )


def _equal(compute: Callable[[], Tensor], wanted: Tensor) -> bool:
    """Whether what is computed is what it should be; an architecture may refuse in any way."""
    try:
        found = compute()
    except Exception:
        return False
    return found.shape == wanted.shape and bool((found - wanted).abs().max() < _EQUAL)


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
