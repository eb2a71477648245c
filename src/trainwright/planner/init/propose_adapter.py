"""What `init` proposes beside a base: an adapter, with the memory that it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.training.optimizer import AdamW
from trainwright.core.errors import Mistake, Problem
from trainwright.core.formatting import show_bytes, show_count
from trainwright.core.hashing import hash_bytes
from trainwright.core.optional_dependencies import need_torch
from trainwright.model.families import network_family
from trainwright.model.input_shape import TokenShape
from trainwright.planner.init.yaml_lines import comment, scalar
from trainwright.planner.read_device import read_device
from trainwright.planner.state_memory import state_bytes

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
    found = _read(base, folder, _RANKS[0], 2)
    assert found.base != "none", "its files were read"
    assert found.base.tokenizer == hash_bytes(tokenizer.read_bytes()), "the same file"
    context = min(found.base.longest, _USUAL_CONTEXT)
    sections = {rank: _read(base, folder, rank, context) for rank in _RANKS}
    memory = {rank: _bytes_beside(one) for rank, one in sections.items()}
    whole = _bytes_of_base(sections[_RANKS[0]])
    small = [rank for rank in _RANKS if _checkpoint(sections[rank]) <= _MOST_OF_BASE * whole]
    rank = max(small, default=_RANKS[0])
    each = ", ".join(f"{one}: {show_bytes(memory[one])}" for one in _RANKS)
    quantised = _bytes_of_base(sections[rank].model_copy(update={"quantization": "nf4"}))
    room = read_device(True).memory_bytes
    is_large = bool(room) and whole + memory[rank] > room
    bits = f"nf4  # the base in {show_bytes(quantised)} in place of {show_bytes(whole)}"
    return [
        "  vocabulary: tokenizer",
        f"  tokenizer: {scalar(f'{base}/tokenizer.json')}",
        "model:",
        "  kind: gpt",
        f"  architecture: {scalar(base)}  # {comment(_described(sections[rank]))}",
        f"  context: {context}  # at most {found.base.longest:,}",
        f"  {'' if is_large else '# '}quantization: {bits}",
        "  adapter:",
        "    kind: lora  # or rslora, dora, ia3, prompt_tuning",
        f"    rank: {rank}  # weights, gradients and AdamW take at rank {each}",
        f"    alpha: {2 * rank}  # twice the rank",
        f"    targets: all  # or {_few(sections[rank])}: a part of that",
    ]


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


def _read(base: str, folder: Path, rank: int, context: int) -> Gpt:
    adapter = {"kind": "lora", "rank": rank, "alpha": float(2 * rank)}
    section = Gpt.model_validate(
        {"kind": "gpt", "architecture": base, "context": context, "adapter": adapter}
    )
    found: Gpt = network_family(section).read_files(section, folder)
    return found


def _trained(section: Gpt) -> int:
    return network_family(section).count_parameters(section, TokenShape(section.vocabulary))


def _bytes_beside(section: Gpt) -> int:
    moments = state_bytes(AdamW(name="adamw"))
    return round(_trained(section) * (_WITH_GRADIENT + moments))


def _checkpoint(section: Gpt) -> float:
    return _trained(section) * (_WEIGHT + state_bytes(AdamW(name="adamw")))


def _bytes_of_base(section: Gpt) -> int:
    return network_family(section).frozen_bytes(section, TokenShape(section.vocabulary))


def _described(section: Gpt) -> str:
    frozen = network_family(section).count_frozen(section, TokenShape(section.vocabulary))
    return f"{show_count(frozen)} weights, {show_bytes(4 * frozen)}"


def _few(section: Gpt) -> str:
    return "[c_attn]" if section.positions == "learned" else "[q_proj, v_proj]"
