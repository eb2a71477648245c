"""Rules on what saves memory, and on the kernels of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from trainwright.contract.document import Contract
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.memory import EveryNth
from trainwright.contract.sections.training.objective import AutoLoss, CrossEntropy
from trainwright.contract.sections.training.optimizer import Adam, AdamW, Sgd
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem

_PATH = "training.memory.activation_checkpointing"
_COMPUTE = "training.compute"


def check_blocks(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Activations are computed again block by block, so the model must have blocks."""
    chosen = contract.training.memory.activation_checkpointing
    blocks = contract.model.block_count
    if chosen == "off":
        return
    if not blocks:
        of_blocks = ", ".join(kinds_with(lambda traits: traits.has_blocks))
        yield Problem(
            f"a model of kind {contract.model.kind} has no blocks to compute again",
            path=_PATH,
            expected=f"off, or a model of blocks: {of_blocks}",
            fix="remove it; a smaller training.batch_size saves memory too",
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
    if contract.training.memory.update != "in_backward":
        return
    for need in _NEEDS:
        if not need.is_met(contract.training, written):
            yield Problem(
                "update: in_backward does not go with it",
                path=f"training.{need.field}",
                found=need.found(contract.training),
                expected=need.expected,
                fix=f"{need.fix}, or remove training.memory.update",
            )


class _Need(NamedTuple):
    """Required value of a field for an update in the backward pass, and why."""

    field: str
    is_met: Callable[[Training, frozenset[str]], bool]
    expected: str
    fix: str

    def found(self, training: Training) -> str:
        value: object = training
        for name in self.field.split("."):
            value = getattr(value, name)
        return str(value)


def _keeps_half_steps(training: Training, written: frozenset[str]) -> bool:
    """Is the split of steps only a default, which is then dropped?"""
    splits = training.guard.out_of_memory == "split"
    return not (splits and "training.guard.out_of_memory" in written)


_NEEDS = (
    _Need(
        "optimizer.name",
        lambda training, _: isinstance(training.optimizer, Sgd | Adam | AdamW),
        "sgd, adam or adamw: the others are not stepped parameter by parameter",
        "change it",
    ),
    _Need(
        "gradient_clipping",
        lambda training, _: training.gradient_clipping == "off",
        "off: a norm is known when all gradients are there",
        "write gradient_clipping: off",
    ),
    _Need(
        "mixed_precision",
        lambda training, _: training.mixed_precision != "fp16",
        "another format: the scale of fp16 is found by leaving whole updates out",
        "choose bf16 or fp32",
    ),
    _Need(
        "guard.non_finite",
        lambda training, _: training.guard.non_finite == "rollback",
        "rollback: a bad gradient is found when a part of the update is made",
        "write non_finite: rollback",
    ),
    _Need(
        "guard.out_of_memory",
        _keeps_half_steps,
        "raise: a step that is half made cannot be made again",
        "remove it",
    ),
    _Need(
        "gradient_accumulation_steps",
        lambda training, _: training.gradient_accumulation_steps in ("auto", 1),
        "1: the update is made with the first gradient that comes",
        "write gradient_accumulation_steps: 1",
    ),
)


def check_offloaded_optimizer(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Moments come to the device part by part, so each must belong to one parameter alone."""
    training = contract.training
    if not training.memory.offload_optimizer:
        return
    optimizer = training.optimizer
    if not isinstance(optimizer, Sgd | Adam | AdamW):
        yield Problem(
            "offload_optimizer does not go with it",
            path="training.optimizer.name",
            found=optimizer.name,
            expected="sgd, adam or adamw: the others are not stepped parameter by parameter",
            fix="change it, or remove training.memory.offload_optimizer",
        )
    elif isinstance(optimizer, Sgd) and not optimizer.momentum:
        yield Problem(
            "there is nothing to offload: sgd without momentum keeps no state",
            path="training.memory.offload_optimizer",
            found="true",
            expected="an optimizer with moments",
            fix="remove it",
        )
    if training.memory.update == "in_backward":
        yield Problem(
            "offload_optimizer does not go with it",
            path="training.memory.update",
            found="in_backward",
            expected="after_backward: moments are copied for many parameters at once",
            fix="remove one of the two",
        )


def check_fused_head(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A fused head knows the cross-entropy of tokens, and is not compiled."""
    training = contract.training
    if training.memory.head_loss == "separate":
        return
    reasons = (
        (not contract.model.traits.fuses_head, "model.kind", contract.model.kind),
        (contract.data.is_paired, "data.kind", contract.data.kind),
        (
            not isinstance(training.loss, AutoLoss | CrossEntropy),
            "training.loss",
            training.loss.name,
        ),
        (training.teacher != "none", "training.teacher", "a teacher, whose scores need logits"),
        (training.compute.compile == "on", "training.compute.compile", "on"),
        # Gradients of logits are made before the scale of fp16 reaches them.
        (training.mixed_precision == "fp16", "training.mixed_precision", "fp16"),
    )
    for is_so, path, found in reasons:
        if is_so:
            yield Problem(
                "head_loss: fused does not go with it",
                path=path,
                found=found,
                expected="a decoder with cross-entropy, untaught, uncompiled, not fp16",
                fix="change it, or remove training.memory.head_loss",
            )


def check_compiled_bits(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The bits of a base are turned back by kernels that no compiler sees through."""
    if contract.model.is_quantized and contract.training.compute.compile == "on":
        yield Problem(
            "beside a quantised base a step is not compiled",
            path="training.compute.compile",
            found="on, beside model.quantization",
            expected="off, or a base that is not quantised",
            fix="change one of the two",
        )


MEMORY_RULES = (
    check_blocks,
    check_in_backward,
    check_offloaded_optimizer,
    check_fused_head,
    check_compiled_bits,
)
"""All of them, for the list of rules."""


def check_memory_format(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Channels are what convolutions have."""
    chosen = contract.training.compute.memory_format
    if chosen == "channels_last" and not contract.model.traits.has_convolutions:
        yield Problem(
            f"a model of kind {contract.model.kind} has no convolutions",
            path=f"{_COMPUTE}.memory_format",
            found=chosen,
            expected="contiguous, or auto",
            fix="remove it",
        )


def check_matrix_products(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """One switch of torch allows the kernels of both, so that only one of them can be meant."""
    training = contract.training
    if training.mixed_precision == "tf32" and training.compute.matrix_products == "onednn":
        yield Problem(
            "tf32 is for GPUs and onednn for CPUs",
            path=f"{_COMPUTE}.matrix_products",
            found="onednn beside mixed_precision: tf32",
            expected="one of the two",
            fix="write training.mixed_precision: fp32, or remove matrix_products",
        )
