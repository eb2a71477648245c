"""Activations that wait in the host's memory for the backward pass."""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from trainwright.data.loading.dataset import Batch
from trainwright.objective.losses import LossSum, Objective

_FEWEST_BYTES = 2**20


class _Away(NamedTuple):
    """A tensor in the host's memory, and where it belongs."""

    copy: Tensor
    device: torch.device


@final
class Offloading:
    """An objective whose activations are copied to the host in the forward pass and back in the
    backward pass.

    Copies go through page-locked memory in the stream of the computing, so the host waits for none
    of them and their order is right; they take turns with the computing. Small tensors, parameters
    and buffers stay where they are. Values and gradients are the same bits.

    Args:
        objective: the summed loss of a micro-batch.
        model: whose parameters and buffers are left alone.
        fewest_bytes: tensors below that stay: a copy costs more than they take.
    """

    def __init__(
        self, objective: Objective, model: nn.Module, fewest_bytes: int = _FEWEST_BYTES
    ) -> None:
        self._objective = objective
        self._owner = model
        self._fewest_bytes = fewest_bytes
        self._own: frozenset[int] = frozenset()

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a micro-batch."""
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
