"""Losses as (sum, count), so that a step divides once, by the number of targets of the whole
step."""

from __future__ import annotations

from typing import NamedTuple, Protocol, final

import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.batch import Batch, TargetMask, as_batch
from trainwright.model.model_call import call_model

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


def in_fp32(outputs: Tensor) -> Tensor:
    """Cast 16-bit outputs to fp32; others are unchanged. A 16-bit loss has two or three digits, and
    so would the 1 / targets that its backward pass starts from."""
    return outputs.float() if outputs.dtype in SHORT else outputs


@final
class Supervised:
    """Loss between the model's output and the target of a batch. The model gets the other tensors
    of the batch, see `call_model`; targets that are masked have no loss and do not count.

    Output and target are compared position by position: `labels` that are the `input_ids`
    themselves, as transformers takes them and shifts them within, are refused at the first batch.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss
        self._is_checked = False

    def __call__(self, model: nn.Module, batch: Batch | tuple[Tensor, ...]) -> LossSum:
        """Summed loss of a micro-batch; a tuple is (*inputs, target)."""
        if type(batch) is not Batch:
            batch = as_batch(batch)
        names, inputs, target, mask = batch.supervised()
        # In this order compiled code does not depend on the flag, and is compiled once.
        if "input_ids" in names and not torch.compiler.is_compiling() and not self._is_checked:
            check_shifted(batch)
            self._is_checked = True
        outputs = call_model(model, names, inputs)
        if isinstance(mask, str):
            return self._loss.total(outputs, target)
        return masked_total(self._loss, outputs, target, mask)


def check_shifted(batch: Batch) -> None:
    """Refuse labels that are the inputs themselves: their loss falls to 0 by copying.

    Raises:
        Mistake: they are.
    """
    if batch.target_name != "labels" or "input_ids" not in batch:
        return
    labels, inputs = batch["labels"], batch["input_ids"]
    if labels.shape == inputs.shape and torch.equal(
        torch.where(labels < 0, inputs, labels), inputs
    ):
        raise Mistake(
            Problem(
                "the labels are the input tokens themselves, not the tokens after them",
                found="labels = input_ids",
                expected="at each position the next token: tw.Supervised does not shift",
                fix="input_ids = tokens[:, :-1] and labels = tokens[:, 1:]",
            )
        )


def masked_total(loss: TargetLoss, outputs: Tensor, target: Tensor, mask: TargetMask) -> LossSum:
    """Summed loss of the targets that count, and their number. What stands in the place of the
    others does not matter."""
    rows = loss.rows(outputs, torch.where(mask.tensor, target, 0))
    return LossSum((rows * mask.tensor).sum(), mask.targets)


@final
class RowWeighted:
    """Loss of rows that count differently: the sum of weight x loss, for batches whose tensor
    `weight` [B] is no input of the model.

    A row still counts as one target, as with class weights: weights whose mean over the training
    rows is 1 make the mean of a step an unbiased estimate of the weighted mean over all rows, where
    a division by the weights of the step itself would favour the steps of light rows.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Weighted sum of the losses of a micro-batch."""
        names, inputs, target, _ = batch.supervised()
        at = names.index("weight")
        outputs = call_model(model, names[:at] + names[at + 1 :], inputs[:at] + inputs[at + 1 :])
        return LossSum((batch["weight"] * self._loss.rows(outputs, target)).sum(), len(target))


@final
class Padded:
    """Loss of right-padded rows: a batch with a mask, or (tokens [B, L], lengths [B], target [B,
    L]), where `lengths` are the numbers of targets per row; on a GPU reading them synchronises. A
    causal model needs no mask of its own: no token attends to later ones."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss
        self._masked = Supervised(loss)

    def __call__(self, model: nn.Module, batch: Batch | tuple[Tensor, ...]) -> LossSum:
        """Summed loss of a micro-batch."""
        if isinstance(batch, Batch) and not isinstance(batch.mask, str):
            return self._masked(model, batch)
        tokens, lengths, target = batch
        host = torch.arange(target.shape[1]) < lengths.cpu()[:, None]
        outputs = call_model(model, ("input",), (tokens,))
        return masked_total(self._loss, outputs, target, TargetMask.of(host, target.device))


@final
class Mixed:
    """Loss of blended rows, (*inputs, target, other target, share): share x loss(target) + (1 -
    share) x loss(other target), the soft target of mixup (Zhang et al. 2018, arXiv:1710.09412,
    section 2) and of CutMix (Yun et al. 2019, arXiv:1905.04899, equation 1).

    The count is the number of rows, as without blending.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch | tuple[Tensor, ...]) -> LossSum:
        """Summed loss of a blended micro-batch."""
        batch = as_batch(batch)
        *inputs, target, other, share = batch
        outputs = call_model(model, batch.names[:-3], inputs)
        first, second = self._loss.rows(outputs, target), self._loss.rows(outputs, other)
        return LossSum((share * first + (1 - share) * second).sum(), len(target))
