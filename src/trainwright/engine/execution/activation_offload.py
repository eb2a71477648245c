"""Activation offloading to host memory."""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from trainwright.data.loading.batch import Batch
from trainwright.objective.losses import LossSum, Objective

_FEWEST_BYTES = 2**20


class _Away(NamedTuple):
    """Tensor in host memory and its original device."""

    copy: Tensor
    device: torch.device


@final
class Offloading:
    """Objective whose activations are offloaded to host memory between forward and backward pass.

    Copies go through page-locked memory on the compute stream: the host waits for none of them and
    they stay ordered, but they do not overlap with computation. Small tensors, parameters and
    buffers stay on the device. Values and gradients are bit-identical.

    Args:
        objective: summed loss of a micro-batch.
        model: its parameters and buffers are not offloaded.
        fewest_bytes: smaller tensors stay, because the copy would cost more than it saves.
    """

    def __init__(
        self, objective: Objective, model: nn.Module, fewest_bytes: int = _FEWEST_BYTES
    ) -> None:
        self._objective = objective
        self._owner = model
        self._fewest_bytes = fewest_bytes
        self._own: frozenset[int] = frozenset()

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        if not torch.is_grad_enabled():
            return self._objective(model, batch)
        owned = [*self._owner.parameters(), *self._owner.buffers()]
        self._own = frozenset(one.untyped_storage().data_ptr() for one in owned)
        with saved_tensors_hooks(self._send, self._fetch):
            return self._objective(model, batch)

    def _send(self, tensor: Tensor) -> Tensor | _Away:
        storage = tensor.untyped_storage()
        if tensor.nbytes < self._fewest_bytes or storage.data_ptr() in self._own:
            return tensor
        copy = torch.empty_like(tensor.detach(), device="cpu", pin_memory=tensor.is_cuda)
        return _Away(copy.copy_(tensor.detach(), non_blocking=True), tensor.device)

    def _fetch(self, saved: Tensor | _Away) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        return saved.copy.to(saved.device, non_blocking=True)
