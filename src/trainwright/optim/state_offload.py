"""The state of an optimizer in the memory of the host."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor

from trainwright.contract.memory import OFFLOADED_PART_BYTES

_ALIGNED_BYTES = 512


@final
class OffloadedOptimizer:
    """A torch optimizer whose moments live in the host's memory and come to the device for their
    update, a part of the parameters at a time (the states of Ren et al. 2021, arXiv:2101.06840,
    section 4, but updated on the device, so that the update has the same bits as without).

    Copies go through page-locked memory in the stream of the computing: the host waits for none of
    them, and their order is right. What the device holds of the state is one part; it has its place
    there from the start, so that no update runs out of memory.

    Args:
        optimizer: torch's SGD, Adam or AdamW, whose update of a parameter depends on the state of
            that parameter alone.
        part_bytes: bytes of parameters that are updated together; one that is larger is a part.
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
        """Those of the optimizer."""
        return self.inner.param_groups

    @property
    def state(self) -> MutableMapping[Any, Any]:
        """That of the optimizer, in the host's memory; waits for copies that are on their way."""
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.current_stream().synchronize()
        return self.inner.state

    def step(self) -> None:
        """One update from the gradients that the parameters hold."""
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
        """The state of a part lies beside its parameters."""
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
    """Bytes [n] beside the parameters, for the state of the part that has most."""
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
    """Each tensor begins where the vector instructions of kernels want it."""
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
    """As Adam makes it at the first gradient; made here, so that none is restored on the device."""
    device = parameter.device if on_device else torch.device("cpu")
    return {
        "step": torch.zeros((), dtype=torch.float32, device=device),
        "exp_avg": _zeros_on_host(parameter),
        "exp_avg_sq": _zeros_on_host(parameter),
    }


def _zeros_on_host(like: Tensor) -> Tensor:
    return torch.zeros_like(like.detach(), device="cpu", pin_memory=like.is_cuda)


def _to_host(tensor: Tensor) -> Tensor:
    """A tensor in page-locked memory; counters stay where the kernel reads them."""
    if not tensor.ndim or not tensor.is_cuda:
        return tensor
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor)
