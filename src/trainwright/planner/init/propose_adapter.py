"""What `init` proposes beside a base: an adapter, with the memory that it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.training.optimizer import AdamW
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import hash_bytes
from trainwright.core.formatting import show_bytes, show_count
from trainwright.core.lazy_imports import need_torch
from trainwright.model.causal_lm.decoder_section import base_of_decoder, decoder_section
from trainwright.model.families import network_family
from trainwright.model.input_shape import TokenShape
from trainwright.planner.init.yaml_lines import comment, scalar
from trainwright.planner.micro_batch_memory import state_bytes
from trainwright.planner.plan_facts import read_device

_RANKS: Final = (4, 8, 16, 32, 64)
_MOST_OF_BASE: Final = 0.02
"""Of the base, what a checkpoint of an adapter with AdamW takes at most."""
_USUAL_CONTEXT: Final = 512
_WEIGHT, _WITH_GRADIENT = 4, 8
_PATH: Final = "--base"


def propose_adapter(base: str, folder: Path) -> list[str]:
    """Lines of `data` and `model` of a contract in `folder` that trains an adapter of a decoder.

    The rank is the highest of 4 to 64 with which a checkpoint takes at most 2% of the base; alpha
    is twice the rank, so that another rank learns about as fast (Hu et al. 2021, section 4.1). The
    base is proposed in 4 bits where it and its adapter do not fit into the memory otherwise.

    Raises:
        Mistake: the base cannot be used, or has no tokenizer. MissingExtra: torch or PEFT is not
            installed.
    """
    need_torch(_PATH, "an adapter")
    tokenizer = _find_tokenizer(folder / base)
    found = base_of_decoder(_read(base, folder, _RANKS[0], 2))
    assert found.tokenizer == hash_bytes(tokenizer.read_bytes()), "the same file"
    context = min(found.longest or _USUAL_CONTEXT, _USUAL_CONTEXT)
    sections = {rank: _read(base, folder, rank, context) for rank in _RANKS}
    memory = {rank: _bytes_beside(one) for rank, one in sections.items()}
    whole = _bytes_of_base(sections[_RANKS[0]])
    small = [rank for rank in _RANKS if _checkpoint(sections[rank]) <= _MOST_OF_BASE * whole]
    rank = max(small, default=_RANKS[0])
    each = ", ".join(f"{one}: {show_bytes(memory[one])}" for one in _RANKS)
    is_large = bool(room := read_device(True).memory_bytes) and whole + memory[rank] > room
    chosen = sections[rank]
    few = ", ".join(network_family(chosen).few_targets(chosen))
    return [
        "  vocabulary: tokenizer",
        f"  tokenizer: {scalar(f'{base}/tokenizer.json')}",
        "model:",
        f"  kind: {chosen.kind}",
        f"  architecture: {scalar(base)}  # {comment(_described(chosen))}",
        f"  context: {context}  # at most {found.longest or context:,}",
        *_quantised(chosen, whole, is_large=is_large),
        "  adapter:",
        f"    kind: lora  # or {', '.join(_others(chosen))}",
        f"    rank: {rank}  # weights, gradients and AdamW take at rank {each}",
        f"    alpha: {2 * rank}  # twice the rank",
        f"    targets: all  # every linear layer but the head{few and f'; or a part: [{few}]'}",
    ]


_KINDS: Final = ("rslora", "dora", "ia3", "prompt_tuning")
_SHAPE: Final = TokenShape(1)
"""The base says how many tokens there are."""


def _others(section: ModelSection) -> list[str]:
    """Kinds of adapters beside `lora`, in the order of the contract's."""
    return [one for one in _KINDS if one in section.traits.adapters]


def _quantised(section: ModelSection, whole: int, *, is_large: bool) -> list[str]:
    """The line that holds the base in 4 bits, where its kind can."""
    if not section.traits.quantizes:
        return []
    quantised = _bytes_of_base(section.model_copy(update={"quantization": "nf4"}))
    bits = f"nf4  # the base in {show_bytes(quantised)} in place of {show_bytes(whole)}"
    return [f"  {'' if is_large else '# '}quantization: {bits}"]


def _find_tokenizer(base: Path) -> Path:
    tokenizer = base / "tokenizer.json"
    if tokenizer.is_file():
        return tokenizer
    raise Mistake(
        Problem(
            "the base has no tokenizer beside it",
            path=_PATH,
            found=str(tokenizer),
            expected="a folder with config.json, model.safetensors and tokenizer.json",
            fix="name such a folder",
        )
    )


def _read(base: str, folder: Path, rank: int, context: int) -> ModelSection:
    adapter = {"kind": "lora", "rank": rank, "alpha": float(2 * rank)}
    return decoder_section(base, folder, {"context": context, "adapter": adapter})


def _trained(section: ModelSection) -> int:
    return network_family(section).count_parameters(section, _SHAPE)


def _bytes_beside(section: ModelSection) -> int:
    moments = state_bytes(AdamW(name="adamw"))
    return round(_trained(section) * (_WITH_GRADIENT + moments))


def _checkpoint(section: ModelSection) -> float:
    return _trained(section) * (_WEIGHT + state_bytes(AdamW(name="adamw")))


def _bytes_of_base(section: ModelSection) -> int:
    return network_family(section).frozen_bytes(section, _SHAPE)


def _described(section: ModelSection) -> str:
    frozen = network_family(section).count_frozen(section, _SHAPE)
    return f"{show_count(frozen)} weights, {show_bytes(4 * frozen)}"
