"""Configurations of decoders in the layout of Hugging Face, read and written without its code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from trainwright.contract.sections.model.gpt import Gpt, LinearScaling, Llama3Scaling
from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.model.pretrained.hub_files import check_layers, unusable

KNOWN: Final = ("llama", "qwen2", "gpt2")
"""Architectures whose weights this decoder has a place for."""

_ACTIVATIONS: Final = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}
_KEPT: Final = ("context", "dropout", "rotary_base", "rotary_scaling")
"""Fields that a contract may change."""


def section_of(section: Gpt, config: Json) -> tuple[Gpt, int]:
    """The section with the shape that a `config.json` states, and the most positions.

    Raises:
        Mistake: it is of another architecture, has settings that this decoder lacks, or the
            contract states another shape.
    """
    kind = config["model_type"]
    if kind not in KNOWN:
        raise unusable(
            f"the decoder has no place for the weights of {kind!r}",
            kind,
            ", ".join(KNOWN),
            "change model.kind to causal_lm, which trains other architectures of transformers",
        )
    shape = _shape_of(kind, config)
    known = shape.pop("positions_known")
    _check_context(section, known, is_learned=shape["positions"] == "learned")
    if section.weights == "none":
        # Random weights take the tokens of the data.
        shape["vocabulary"] = section.vocabulary
    for name, value in shape.items():
        written = getattr(section, name)
        stated = name in section.model_fields_set and written != value
        if stated and name not in _KEPT:
            raise unusable(
                f"model.{name} is not that of the base",
                str(written),
                f"{value}, as its config.json says",
                f"remove {name}",
            )
    changed = {k: v for k, v in shape.items() if not (k in _KEPT and k in section.model_fields_set)}
    return _checked({**section.model_dump(exclude={"base"}), **changed}), known


def _shape_of(kind: str, config: Json) -> dict[str, Any]:
    try:
        return _gpt2(config) if kind == "gpt2" else _llama(kind, config)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unusable(
            "the config.json of the base does not fit its architecture", f"{error!r:.200}", kind
        ) from error


def _gpt2(config: Json) -> dict[str, Any]:
    _refuse(config, {"scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False})
    _refuse(config, {"scale_attn_weights": True})
    activation = config.get("activation_function", "gelu_new")
    if activation not in _ACTIVATIONS:
        raise _lacks("activation_function", activation, ", ".join(_ACTIVATIONS))
    return {
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "kv_heads": 0,
        "width": config["n_embd"],
        "inner": config.get("n_inner") or 4 * config["n_embd"],
        "positions": "learned",
        "norm": "layer",
        "norm_epsilon": config.get("layer_norm_epsilon", 1e-5),
        "feed_forward": _ACTIVATIONS[activation],
        "bias": "all",
        "tied": config.get("tie_word_embeddings", True),
        "vocabulary": config["vocab_size"],
        "positions_known": config["n_positions"],
    }


def _llama(kind: str, config: Json) -> dict[str, Any]:
    _refuse(config, {"mlp_bias": False, "use_sliding_window": False, "hidden_act": "silu"})
    heads, width = config["num_attention_heads"], config["hidden_size"]
    if config.get("head_dim") not in (None, width // heads):
        raise _lacks("head_dim", config["head_dim"], f"hidden_size / heads = {width // heads}")
    if kind == "llama":
        _refuse(config, {"attention_bias": False, "pretraining_tp": 1})
    rope = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or rope
    theta = rope.get("rope_theta", config.get("rope_theta", 10_000.0))
    return {
        "layers": config["num_hidden_layers"],
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "width": width,
        "inner": config["intermediate_size"],
        "positions": "rotary",
        "rotary_base": float(theta),
        "rotary_scaling": _scaling(scaling),
        "norm": "rms",
        "norm_epsilon": config.get("rms_norm_eps", 1e-6),
        "feed_forward": "swiglu",
        "bias": "attention" if kind == "qwen2" else "none",
        "tied": config.get("tie_word_embeddings", False),
        "vocabulary": config["vocab_size"],
        "positions_known": config.get("max_position_embeddings", 2048),
    }


def _scaling(found: Mapping[str, Any]) -> Any:
    match found.get("rope_type", found.get("type", "default")):
        case "default":
            return "none"
        case "linear":
            return {"kind": "linear", "factor": float(found["factor"])}
        case "llama3":
            return {
                "kind": "llama3",
                "factor": float(found["factor"]),
                "low_frequency": float(found["low_freq_factor"]),
                "high_frequency": float(found["high_freq_factor"]),
                "original_context": found["original_max_position_embeddings"],
            }
        case other:
            raise _lacks("rope_scaling", other, "default, linear or llama3")


def _refuse(config: Json, usual: Mapping[str, object]) -> None:
    for name, value in usual.items():
        if config.get(name, value) != value:
            raise _lacks(name, config[name], value)


def _lacks(name: str, found: object, expected: object) -> Mistake:
    return unusable(
        f"this decoder has no {name} of {found!r}",
        str(found),
        str(expected),
        "name a base without it",
    )


def _check_context(section: Gpt, known: int, *, is_learned: bool) -> None:
    scaling = section.rotary_scaling
    longest = int(known * (1 if scaling == "none" else scaling.factor))
    wanted, prompt = section.context + section.prompt_length, section.prompt_length
    if wanted > longest:
        beside = f" and {prompt:,} vectors of a prompt" if prompt else ""
        raise unusable(
            "the windows are longer than those that the base was trained on",
            f"model.context {section.context:,}{beside}",
            f"at most {longest:,}",
            "lower model.context: there is no vector for a later position"
            if is_learned
            else "lower model.context, or add model.rotary_scaling: {kind: linear, factor: "
            f"{-(-wanted // known)}}}",
        )


def _checked(values: dict[str, Any]) -> Gpt:
    try:
        found = Gpt.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise unusable(
            "the config.json of the base does not fit its architecture",
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            "sizes that a decoder can have",
        ) from error
    if problems := list(found.own_problems()):
        raise Mistake(problems)
    check_layers(found.layers)
    return found


def config_of(section: Gpt, vocabulary: int) -> dict[str, Json]:
    """`config.json` of a decoder with so many rows of the embedding.

    Raises:
        Mistake: no architecture has its shape.
    """
    is_usual = section.init == "usual"
    if is_usual and section.positions == "learned" and section.norm == "layer":
        return _to_gpt2(section, vocabulary)
    is_llama = section.norm == "rms" and section.feed_forward == "swiglu"
    is_rotary = section.positions == "rotary"
    if not (is_usual and is_rotary and is_llama) or section.bias == "all":
        raise unusable(
            "no architecture of transformers has the shape of this decoder",
            f"{section.positions} positions, {section.norm} norm, {section.feed_forward}, "
            f"bias: {section.bias}{'' if is_usual else ', init: mup'}",
            "positions: learned with norm: layer (GPT-2), or rotary with norm: rms and "
            "feed_forward: swiglu (Llama, Qwen2)",
            "train a decoder of such a shape, or export its weights alone: --to safetensors",
        )
    return _to_llama(section, vocabulary)


def _positions(section: Gpt) -> int:
    """Positions of the base, or those of the windows where it has fewer."""
    return max(section.context, 0 if section.base == "none" else section.base.longest)


def _bounds(section: Gpt) -> dict[str, Json]:
    """Tokens that begin, end and fill a text of the base."""
    base = {} if section.base == "none" else json.loads(section.base.config)
    return {name: base.get(name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}


def _to_gpt2(section: Gpt, vocabulary: int) -> dict[str, Json]:
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    if section.feed_forward not in names or section.key_heads != section.heads:
        raise _lacks("feed_forward or kv_heads", section.feed_forward, "that of GPT-2")
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": section.layers,
        "n_head": section.heads,
        "n_embd": section.width,
        "n_inner": section.inner_width,
        "n_positions": _positions(section),
        "activation_function": names[section.feed_forward],
        "layer_norm_epsilon": section.norm_epsilon,
        "tie_word_embeddings": section.tied,
        "vocab_size": vocabulary,
        **{f"{part}_pdrop": section.dropout for part in ("attn", "embd", "resid")},
        **_bounds(section),
        "dtype": "float32",
    }


def _to_llama(section: Gpt, vocabulary: int) -> dict[str, Json]:
    kind = "qwen2" if section.bias == "attention" else "llama"
    return {
        "architectures": ["Qwen2ForCausalLM" if kind == "qwen2" else "LlamaForCausalLM"],
        "model_type": kind,
        "num_hidden_layers": section.layers,
        "num_attention_heads": section.heads,
        "num_key_value_heads": section.key_heads,
        "hidden_size": section.width,
        "intermediate_size": section.inner_width,
        "max_position_embeddings": _positions(section),
        "hidden_act": "silu",
        "rms_norm_eps": section.norm_epsilon,
        "rope_theta": section.rotary_base,
        "rope_scaling": _scaling_to_json(section),
        "tie_word_embeddings": section.tied,
        "vocab_size": vocabulary,
        **_bounds(section),
        "dtype": "float32",
    }


def _scaling_to_json(section: Gpt) -> Json:
    match section.rotary_scaling:
        case LinearScaling(factor=factor):
            return {"rope_type": "linear", "factor": factor}
        case Llama3Scaling() as scaling:
            return {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_frequency,
                "high_freq_factor": scaling.high_frequency,
                "original_max_position_embeddings": scaling.original_context,
            }
        case _:
            return None
