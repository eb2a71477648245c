"""Models of transformers with a head for a text or an image. Needs torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from trainwright.contract.sections.model.pretrained import Base
from trainwright.data.encoders.text_tokenizer import panics_as_errors
from trainwright.model.pretrained.hub_files import (
    classifier_class,
    known_config,
    unfit,
    unusable,
)
from trainwright.model.row_state import PROJECTION

_NAMED = 5

_TOKENS_READ = "score"
"""How transformers calls a head that reads every token."""


def build_classifier(base: Base, outputs: int, *, is_new: bool) -> nn.Module:
    """Encoder with a head of so many outputs, whose forward pass gives the outputs themselves.

    The weights are those of the base, and what it lacks is drawn from torch's global generator;
    all are drawn if it `is_new`.

    Raises:
        Mistake: the base lacks weights of the encoder, or no network has its sizes.
    """
    config = known_config(json.loads(base.config), base.reads)
    config.num_labels = outputs
    is_of_texts = base.reads == "texts"
    if is_of_texts:
        config.pad_token_id = base.pad
    kind = classifier_class(base.reads)
    with quiet():
        network = _draw(kind, config) if is_new else _read(kind, base, config)
    network.register_forward_hook(_logits)
    if is_of_texts and getattr(config, "type_vocab_size", 0) < 2:
        network.register_forward_pre_hook(_without_segments, with_kwargs=True)
    return network.train()  # type: ignore[no-any-return]


def _without_segments(
    _network: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An architecture without embeddings of segments does without them, or, as GPT-2 does, takes
    them for tokens."""
    named.pop("token_type_ids", None)
    return given, named


def _draw(kind: Any, config: Any) -> Any:
    try:
        return kind.from_config(config, dtype=torch.float32, trust_remote_code=False)
    # Each architecture has its own way to fail with a size or a name it cannot have.
    except Exception as error:
        raise unfit(config.model_type, error) from error


def _read(kind: Any, base: Base, config: Any) -> Any:
    try:
        network, loaded = kind.from_pretrained(
            base.folder,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise unusable(
            "the weights of the base cannot be read", str(error), "weights of its config.json"
        ) from error
    prefix = encoder_prefix(network)
    other = (name[0] for name in loaded["mismatched_keys"])
    lost = sorted(name for name in {*loaded["missing_keys"], *other} if is_of_encoder(name, prefix))
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise unusable(
            "the weights of the base are not those of its config.json",
            f"none of this name and size: {', '.join(lost[:_NAMED])}{more}",
            "every weight of the encoder",
        )
    return network


def encoder_prefix(network: nn.Module) -> str:
    """How the names of the encoder's weights begin: with `base_model_prefix`, or, where no part is
    called that (the encoders of images of CLIP and SigLIP), with the name of the largest part."""
    name = str(network.base_model_prefix)
    parts = dict(network.named_children())
    if name not in parts:
        sizes = {part: sum(p.numel() for p in one.parameters()) for part, one in parts.items()}
        name = max(sizes, key=sizes.__getitem__)
    return f"{name}."


def is_of_encoder(name: str, prefix: str) -> bool:
    """Is a weight one of the encoder? Its pooler belongs to the head: many bases have none. Counts
    of batches are no weights, and earlier bases have none."""
    is_other = ".pooler." in name or name.endswith(".num_batches_tracked")
    return name.startswith(prefix) and not is_other


def output_layer(network: nn.Module) -> nn.Linear | None:
    """The last linear layer beside the encoder, which gives the outputs from one vector of a row;
    None where there is no such layer."""
    prefix, outputs = encoder_prefix(network), cast(Any, network).config.num_labels
    found = {
        name: layer
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear) and layer.out_features == outputs
    }
    beside = [name for name in found if not name.startswith((prefix, PROJECTION))]
    return found[beside[-1]] if beside and _TOKENS_READ not in beside else None


def _logits(_module: nn.Module, _inputs: object, given: Any) -> Tensor:
    outputs: Tensor = given.logits
    return outputs


def position_limit(base: Base) -> int:
    """The most tokens that the learned positions of an encoder allow; 0 where it has none."""
    config = known_config(json.loads(base.config), "texts")
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", 0)
    with torch.device("meta"):
        network = build_classifier(base, 2, is_new=True)
    for name, module in network.named_modules():
        if "position_embeddings" in name and isinstance(module, nn.Embedding):
            skipped = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - skipped
    return int(limit or 0)


def vocabulary_size(base: Base) -> int:
    """Tokens that the encoder has embeddings for."""
    return int(known_config(json.loads(base.config), "texts").get_text_config().vocab_size)


def read_tokenizer(folder: str) -> tuple[str, int, int]:
    """A tokenizer as the tokenizers library writes it, the token of its padding (0 without one),
    and the most tokens of a row (0 if it does not say).

    Raises:
        Mistake: there is none that this library reads.
    """
    from transformers import AutoTokenizer

    expected = "tokenizer.json, or files that transformers makes it of"
    try:
        with quiet(), panics_as_errors():
            found = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_fast=True
            )
    # Each tokenizer has its own way to fail without its files.
    except Exception as error:
        said = (str(error).splitlines() or [repr(error)])[0]
        raise unusable(
            "the tokenizer of the base cannot be read", f"{said:.200}", expected
        ) from error
    backend = getattr(found, "backend_tokenizer", None)
    if backend is None:
        raise unusable("the tokenizer of the base has no fast form", type(found).__name__, expected)
    backend.no_padding()
    backend.no_truncation()
    longest = found.model_max_length
    pad = found.pad_token_id if found.pad_token_id is not None else found.eos_token_id
    return str(backend.to_str()), pad or 0, longest if longest < 2**30 else 0


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and reports of transformers."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
