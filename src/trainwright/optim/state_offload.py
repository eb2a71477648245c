"""Optimizer state offloaded to host memory."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor

from trainwright.contract.sections.training.memory import OFFLOADED_PART_BYTES

_ALIGNED_BYTES = 512


@final
class OffloadedOptimizer:
    """Torch optimizer whose moments live in host memory and are moved to the device for their
    update, one bucket of parameters at a time (state offloading of Ren et al. 2021,
    arXiv:2101.06840, section 4, but updated on the device, so that the update is bit-identical).

    Copies go through page-locked memory on the compute stream: the host waits for none of them, and
    they stay ordered. The device holds the state of one bucket; its memory is reserved from the
    start, so that no update runs out of memory.

    Args:
        optimizer: torch's SGD, Adam or AdamW, whose update of a parameter depends on the state of
            that parameter alone.
        part_bytes: bytes of parameters updated together; a larger parameter is a bucket of its own.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, part_bytes: int = OFFLOADED_PART_BYTES
    ) -> None:
        self.inner = optimizer
        self.grad_scale: Tensor | None = None
        self.found_inf: Tensor | None = None
        self._parts = [
            (group, part)
            for group in optimizer.param_groups
            for part in _parts(group["params"], part_bytes)
        ]
        for parameter in (one for _, part in self._parts for one in part):
            state = optimizer.state[parameter]
            if isinstance(optimizer, torch.optim.Adam) and not state:
                state.update(_first_state(parameter, self._counts_on_device()))
            for name, tensor in state.items():
                state[name] = _to_host(tensor)
        self._near = _room(optimizer, [part for _, part in self._parts])

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of the wrapped optimizer."""
        return self.inner.param_groups

    @property
    def state(self) -> MutableMapping[Any, Any]:
        """State of the wrapped optimizer, in host memory; waits for pending copies."""
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.current_stream().synchronize()
        return self.inner.state

    def step(self) -> None:
        """Update from the gradients of the parameters."""
        self.inner.grad_scale = self.grad_scale  # type: ignore[attr-defined]
        self.inner.found_inf = self.found_inf  # type: ignore[attr-defined]
        groups = self.inner.param_groups
        for group, part in self._parts:
            with_gradient = [one for one in part if one.grad is not None]
            if not with_gradient:
                continue
            members = group["params"]
            self.inner.param_groups, group["params"] = [group], with_gradient
            try:
                with self._on_device(with_gradient):
                    self.inner.step()
            finally:
                self.inner.param_groups, group["params"] = groups, members

    def _counts_on_device(self) -> bool:
        return all(group["fused"] or group["capturable"] for group in self.inner.param_groups)

    @contextmanager
    def _on_device(self, part: Sequence[Tensor]) -> Iterator[None]:
        """Move the state of a bucket to the device of its parameters."""
        homes = [
            (state, name, home)
            for state in (self.inner.state[parameter] for parameter in part)
            for name, home in state.items()
            if home.ndim
        ]
        start = 0
        for state, name, home in homes:
            stop = start + _padded(home.nbytes)
            near = self._near[start : start + home.nbytes].view(home.dtype)
            near = near.as_strided(home.shape, home.stride())
            state[name] = near.copy_(home, non_blocking=True)
            start = stop
        try:
            yield
        finally:
            for state, name, home in homes:
                home.copy_(state[name], non_blocking=True)
                state[name] = home


def _room(optimizer: torch.optim.Optimizer, parts: Sequence[Sequence[Tensor]]) -> Tensor:
    """Bytes [n] on the device of the parameters, for the state of the largest bucket."""
    needed = [
        sum(
            _padded(tensor.nbytes)
            for parameter in part
            for tensor in optimizer.state[parameter].values()
            if tensor.ndim
        )
        for part in parts
    ]
    device = parts[0][0].device if parts else torch.device("cpu")
    return torch.empty(max(needed, default=0), dtype=torch.uint8, device=device)


def _padded(size_bytes: int) -> int:
    """Size padded so that the next tensor is aligned for vectorised kernels."""
    return -(-size_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES


def _parts(parameters: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
    part: list[Tensor] = []
    taken = 0
    for parameter in parameters:
        if part and taken + parameter.nbytes > part_bytes:
            yield part
            part, taken = [], 0
        part.append(parameter)
        taken += parameter.nbytes
    if part:
        yield part


def _first_state(parameter: Tensor, on_device: bool) -> dict[str, Tensor]:
    """Initial state at the first gradient, as in Adam; created here, so that none is allocated on
    the device."""
    device = parameter.device if on_device else torch.device("cpu")
    return {
        "step": torch.zeros((), dtype=torch.float32, device=device),
        "exp_avg": _zeros_on_host(parameter),
        "exp_avg_sq": _zeros_on_host(parameter),
    }


def _zeros_on_host(like: Tensor) -> Tensor:
    return torch.zeros_like(like.detach(), device="cpu", pin_memory=like.is_cuda)


def _to_host(tensor: Tensor) -> Tensor:
    """Copy to page-locked memory; counters stay where the kernel reads them."""
    if not tensor.ndim or not tensor.is_cuda:
        return tensor
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor)
