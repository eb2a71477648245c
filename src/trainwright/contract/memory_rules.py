"""Rules on what saves memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from trainwright.contract.document import Contract
from trainwright.contract.memory import EveryNth
from trainwright.contract.model import (
    Boosting,
    Gpt,
    Linear,
    Mlp,
    Model,
    Pretrained,
    ResNet,
    TabularResNet,
)
from trainwright.contract.optimizer import Adam, AdamW, Sgd
from trainwright.core.errors import Problem

_PATH = "training.memory.activation_checkpointing"


def check_blocks(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Activations are computed again block by block, so the model must have blocks."""
    chosen = contract.training.memory.activation_checkpointing
    blocks = _blocks(contract.model)
    if chosen == "off":
        return
    if not blocks:
        yield Problem(
            f"a model of kind {contract.model.kind} has no blocks to compute again",
            path=_PATH,
            expected="off, or a model of blocks: tabular_resnet, resnet, gpt",
            fix="remove activation_checkpointing, or lower training.batch_size",
        )
    elif isinstance(chosen, EveryNth) and chosen.n > blocks:
        yield Problem(
            f"the model has {blocks} blocks, so no block would be computed again",
            path=f"{_PATH}.n",
            found=str(chosen.n),
            expected=f"at most {blocks}",
            fix="lower n",
        )


def check_in_backward(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """An update inside the backward pass sees one gradient at a time, and cannot be taken back."""
    training = contract.training
    if training.memory.update != "in_backward":
        return
    needs: tuple[tuple[bool, str, str, str, str], ...] = (
        (
            isinstance(training.optimizer, Sgd | Adam | AdamW),
            "training.optimizer.name",
            training.optimizer.name,
            "sgd, adam or adamw: the others are not stepped parameter by parameter",
            "change it",
        ),
        (
            training.gradient_clipping == "off",
            "training.gradient_clipping",
            str(training.gradient_clipping),
            "off: a norm is known when all gradients are there",
            "write gradient_clipping: off",
        ),
        (
            training.mixed_precision != "fp16",
            "training.mixed_precision",
            training.mixed_precision,
            "another format: the scale of fp16 is found by leaving whole updates out",
            "choose bf16 or fp32",
        ),
        (
            training.guard.non_finite == "rollback",
            "training.guard.non_finite",
            training.guard.non_finite,
            "rollback: a bad gradient is found when a part of the update is made",
            "write non_finite: rollback",
        ),
        (
            "training.guard.out_of_memory" not in written
            or training.guard.out_of_memory != "split",
            "training.guard.out_of_memory",
            training.guard.out_of_memory,
            "raise: a step that is half made cannot be made again",
            "remove it",
        ),
        (
            training.gradient_accumulation_steps in ("auto", 1),
            "training.gradient_accumulation_steps",
            str(training.gradient_accumulation_steps),
            "1: the update is made with the first gradient that comes",
            "write gradient_accumulation_steps: 1",
        ),
    )
    for is_met, path, found, expected, fix in needs:
        if not is_met:
            yield Problem(
                "update: in_backward does not go with it",
                path=path,
                found=found,
                expected=expected,
                fix=f"{fix}, or remove training.memory.update",
            )


def _blocks(model: Model) -> int:
    """Blocks of a network; 0 for what has none."""
    match model:
        case TabularResNet():
            return model.blocks
        case ResNet():
            return sum(model.blocks) + len(model.blocks) - 1
        case Gpt():
            return model.layers
        case Mlp() | Boosting() | Linear() | Pretrained():
            return 0
        case _:
            assert_never(model)


MEMORY_RULES = (check_blocks, check_in_backward)
"""All of them, for the list of rules."""
