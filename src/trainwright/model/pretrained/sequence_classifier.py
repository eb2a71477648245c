"""Models of transformers with a head for a text or an image. Needs torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.files import Json
from trainwright.data.encoders.text_tokenizer import panics_as_errors, trial_rows
from trainwright.model.model_call import call_model
from trainwright.model.pretrained.hub_files import (
    classifier_class,
    known_config,
    unfit,
    unusable,
)
from trainwright.model.row_state import PROJECTION

_NAMED = 5
_FEW, _EQUAL = 2, 1e-4
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")

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
        config.pad_token_id = config.get_text_config().pad_token_id = base.pad
        if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
            config.decoder_start_token_id = base.pad  # As T5 begins.
    kind = classifier_class(base.reads)
    with quiet():
        network = (
            draw(kind, config)
            if is_new
            else read_weights(kind, base.folder, config, needs_head=False)
        )
    network.register_forward_hook(_logits)
    if is_of_texts and getattr(config, "type_vocab_size", 0) < 2:
        network.register_forward_pre_hook(_without_segments, with_kwargs=True)
    return network.train()  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def try_rows(base: Base) -> None:
    """Check that a model of few layers reads a text of its tokenizer, and gives it the same outputs
    where padding follows it.

    Raises:
        Mistake: it does not, or cannot be built.
    """
    config = json.loads(base.config)
    ids = trial_rows(base.tokenizer_json)[0].ids
    rows = torch.tensor([[*ids, *[base.pad] * len(ids)]])
    mask = (torch.arange(rows.shape[1]) < len(ids)).long()[None]
    inputs = ((rows[:, : len(ids)], mask[:, : len(ids)]), (rows, mask))
    refused: Exception
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.no_grad():
        for values in (few_layers(config), config):
            torch.manual_seed(0)
            small = base.model_copy(update={"config": json.dumps(values)})
            try:
                network = build_classifier(small, _FEW, is_new=True).eval()
                names = ("input_ids", "attention_mask")
                alone, padded = (call_model(network, names, row) for row in inputs)
                break
            # Some shapes have settings for each layer; each has its own way to refuse rows.
            except Exception as error:
                refused = error
        else:
            raise unfit(config["model_type"], refused) from refused
    if not torch.allclose(alone, padded, atol=_EQUAL, rtol=_EQUAL):
        what = "reads the padding of shorter texts, so outputs depend on other rows of a batch"
        found = f"outputs that differ by {float((alone - padded).abs().max()):.2g}"
        expected = "an architecture that masks padding, such as bert, roberta or distilbert"
        raise unusable(f"{config['model_type']} {what}", found, expected, "name another base")


def few_layers(config: Mapping[str, Json]) -> dict[str, Json]:
    """A configuration with two layers, or one of each kind."""
    kinds = list(config.get("layer_types") or ())
    few = list(dict.fromkeys(kinds)) if len(set(kinds)) > 1 else kinds[:_FEW]
    small = dict(config) | ({"layer_types": few} if kinds else {})
    for name in set(_LAYERS) & set(config):
        small[name] = len(few) or min(_FEW, config[name])
    if isinstance(config.get("text_config"), dict):
        small["text_config"] = few_layers(config["text_config"])
    return small


def _without_segments(
    _network: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An architecture without embeddings of segments does without them, or, as GPT-2 does, takes
    them for tokens."""
    named.pop("token_type_ids", None)
    return given, named


def draw(kind: Any, config: Any) -> Any:
    """A model of transformers with new weights.

    Raises:
        Mistake: no network has its sizes.
    """
    try:
        return kind.from_config(config, dtype=torch.float32, trust_remote_code=False)
    # Each architecture has its own way to fail with a size or a name it cannot have.
    except Exception as error:
        raise unfit(config.model_type, error) from error


def read_weights(kind: Any, folder: str, config: Any, *, needs_head: bool) -> Any:
    """A model of transformers with the weights of a folder, all of them or those of its encoder.

    Raises:
        Mistake: they cannot be read, or some are missing.
    """
    try:
        network, loaded = kind.from_pretrained(
            folder,
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
    names = {*loaded["missing_keys"], *(name[0] for name in loaded["mismatched_keys"])}
    prefix = "" if needs_head else encoder_prefix(network)
    lost = sorted(name for name in names if needs_head or is_of_encoder(name, prefix))
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise unusable(
            "the weights of the base are not those of its config.json",
            f"none of this name and size: {', '.join(lost[:_NAMED])}{more}",
            "every weight of the model" if needs_head else "every weight of the encoder",
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
    limit = limit if isinstance(limit, int) and limit > 0 else 0  # XLNet names -1.
    with torch.device("meta"):
        network = build_classifier(base, 2, is_new=True)
    for name, module in network.named_modules():
        if "position_embeddings" in name and isinstance(module, nn.Embedding):
            skipped = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - skipped
    return limit


def vocabulary_size(base: Base, reads: Literal["texts", "tokens"] = "texts") -> int:
    """Tokens that a model has embeddings for; 0 for any, as CANINE reads code points."""
    return int(
        getattr(known_config(json.loads(base.config), reads).get_text_config(), "vocab_size", 0)
    )


def call_texts(network: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    """Outputs for texts, called as in a training."""
    return call_model(network, ("input_ids",), inputs)


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
