"""Losses as (sum, count), so that a step divides once, by the number of targets of the whole
step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.dataset import Batch

SHORT = (torch.bfloat16, torch.float16)


class LossSum(NamedTuple):
    """Loss of a micro-batch summed over its targets (0-d), and their number."""

    sum: Tensor
    targets: int


class Objective(Protocol):
    """Training loss.

    An implementation returns a sum, never a mean: the mean over micro-batches of unequal size is
    not the mean over the step. It must not change the model's mode, and must count exactly the
    targets that the feed announced for the batch.
    """

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        ...


class TargetLoss(Protocol):
    """Loss between a model's outputs and targets, without the model.

    `rows` returns the loss of each target, `total` its sum and the number of targets; a target that
    does not count has loss 0 in `rows`.
    """

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target, in the target's shape."""
        ...

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Sum of `rows` and the number of targets."""
        ...


@runtime_checkable
class _WithLogits(Protocol):
    """Output with several attributes, as those of transformers."""

    @property
    def logits(self) -> Tensor: ...


def outputs_of(given: object) -> Tensor:
    """Tensor of a model's output from which the loss is computed: the output itself, or its
    `logits` attribute or key.

    Raises:
        Mistake: there is no such tensor.
    """
    if isinstance(given, Tensor):
        return given
    found = given.logits if isinstance(given, _WithLogits) else None
    if found is None and isinstance(given, Mapping):
        found = given.get("logits")
    if isinstance(found, Tensor):
        return found
    parts = f" with {', '.join(map(str, given))}" if isinstance(given, Mapping) else ""
    raise Mistake(
        Problem(
            "the model's output has no tensor for the loss",
            found=f"{type(given).__name__}{parts}",
            expected="a tensor, or an output with `logits`",
            fix="return the tensor from the model, or use a custom objective, "
            "a function of (model, batch) that returns tw.LossSum(sum, targets)",
        )
    )


def in_fp32(outputs: Tensor) -> Tensor:
    """Cast 16-bit outputs to fp32; others are unchanged. A 16-bit loss has two or three digits, and
    so would the 1 / targets that its backward pass starts from."""
    return outputs.float() if outputs.dtype in SHORT else outputs


@final
class Supervised:
    """Loss between the model's output for all tensors of a batch but the last, and the last as
    target. The output is a tensor, or has `logits`."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of (*inputs, target)."""
        *inputs, target = batch
        return self._loss.total(outputs_of(model(*inputs)), target)


@final
class Packed:
    """Loss of packed windows with several documents, (tokens, positions, counted, target), each [B,
    L]: `positions` start at 0 in each document, and `counted`, kept on the host to avoid a
    synchronisation, marks the targets that count; the others are negative."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        tokens, positions, counted, target = batch
        rows = self._loss.rows(outputs_of(model(tokens, positions)), target.clamp_min(0))
        return LossSum((rows * (target >= 0)).sum(), int(counted.sum()))


@final
class Padded:
    """Loss of right-padded rows, (tokens [B, L], lengths [B], target [B, L]): `lengths`, kept on
    the host to avoid a synchronisation, are the numbers of targets per row; targets beyond them are
    negative and have no loss. A causal model needs no mask: no token attends to later ones."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        tokens, lengths, target = batch
        rows = self._loss.rows(outputs_of(model(tokens)), target.clamp_min(0))
        return LossSum((rows * (target >= 0)).sum(), int(lengths.sum()))


@final
class Mixed:
    """Loss of blended rows, (*inputs, target, other target, share): share x loss(target) + (1 -
    share) x loss(other target), the soft target of mixup (Zhang et al. 2018, arXiv:1710.09412,
    section 2) and of CutMix (Yun et al. 2019, arXiv:1905.04899, equation 1).

    The count is the number of rows, as without blending.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a blended micro-batch."""
        *inputs, target, other, share = batch
        outputs = outputs_of(model(*inputs))
        first, second = self._loss.rows(outputs, target), self._loss.rows(outputs, other)
        return LossSum((share * first + (1 - share) * second).sum(), len(target))
