"""Losses as (sum, count), so that a step can divide once, by the count of the whole step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.dataset import Batch

SHORT = (torch.bfloat16, torch.float16)


class LossSum(NamedTuple):
    """The loss of a micro-batch, summed over its targets (0-d), and how many targets that were."""

    sum: Tensor
    targets: int


class Objective(Protocol):
    """What training makes small.

    An implementation returns a sum, never a mean: a mean of micro-batches of unequal size is not
    the mean of the step. It must not change the model's mode, and count exactly the targets that
    the feed announced for the batch.
    """

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a micro-batch."""
        ...


class TargetLoss(Protocol):
    """A loss between a model's outputs and targets, without the model.

    `rows` gives the loss of each target, `total` its sum and the number of targets in it; a target
    that does not count has loss 0 in `rows`.
    """

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The loss of each target, in the target's shape."""
        ...

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """The sum of `rows` and the count of targets."""
        ...


@runtime_checkable
class _WithLogits(Protocol):
    """An output of several parts with attributes, as those of transformers."""

    @property
    def logits(self) -> Tensor: ...


def outputs_of(given: object) -> Tensor:
    """The tensor that a loss is computed from, of what a model has given: that tensor, or `logits`
    as an attribute or a key.

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
            "the model gives no outputs that a loss can be computed from",
            found=f"{type(given).__name__}{parts}",
            expected="a tensor, or an output with `logits`",
            fix="return the tensor from the model, or compute the loss in an objective of your "
            "own: a function of (model, batch) that returns tw.LossSum(sum, targets)",
        )
    )


def in_fp32(outputs: Tensor) -> Tensor:
    """Outputs of 16 bits in fp32, others as they are. A loss in 16 bits has two or three digits,
    and so has the 1 / targets that its backward pass starts from."""
    return outputs.float() if outputs.dtype in SHORT else outputs


@final
class Supervised:
    """The loss between the outputs of a model for all tensors of a batch but the last, and the
    last. The outputs are a tensor, or the `logits` of an output of several parts."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of (*inputs, target)."""
        *inputs, target = batch
        return self._loss.total(outputs_of(model(*inputs)), target)


@final
class Packed:
    """The loss of windows that hold several documents, (tokens, positions, counted, target), each
    [B, L]: `positions` run from 0 on in each document, and `counted`, which stays on the host so
    that nothing waits for the device, says which targets there are; the others are negative."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a micro-batch."""
        tokens, positions, counted, target = batch
        rows = self._loss.rows(outputs_of(model(tokens, positions)), target.clamp_min(0))
        return LossSum((rows * (target >= 0)).sum(), int(counted.sum()))


@final
class Padded:
    """The loss of rows that are padded at their end, (tokens [B, L], lengths [B], target [B, L]):
    `lengths`, which stay on the host so that nothing waits for the device, say how many targets a
    row has; those behind them are negative and have no loss. A causal model needs no mask: no token
    sees what comes after it."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a micro-batch."""
        tokens, lengths, target = batch
        rows = self._loss.rows(outputs_of(model(tokens)), target.clamp_min(0))
        return LossSum((rows * (target >= 0)).sum(), int(lengths.sum()))


@final
class Mixed:
    """The loss of blended rows, (*inputs, target, other target, share): share x loss(target) +
    (1 - share) x loss(other target), the soft target of mixup (Zhang et al. 2018,
    arXiv:1710.09412, section 2) and of CutMix (Yun et al. 2019, arXiv:1905.04899, equation 1).

    The count is the number of rows, as without blending.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a blended micro-batch."""
        *inputs, target, other, share = batch
        outputs = outputs_of(model(*inputs))
        first, second = self._loss.rows(outputs, target), self._loss.rows(outputs, other)
        return LossSum((share * first + (1 - share) * second).sum(), len(target))
