"""Direct calls of torch's fused Adam kernels, without the per-step overhead of `Optimizer.step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, final

import torch
from torch import Tensor
from torch.optim import optimizer as torch_optimizer

from trainwright.optim.optimizer_protocol import Optimizer

_Lists = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


def stepping_of(optimizer: Optimizer) -> Callable[[], object]:
    """The function that makes one update: the fused kernel itself where that is equivalent."""
    if _is_plain_adam(optimizer):
        return FusedAdam(optimizer).step

    def step() -> object:
        # Looked up each time: torch's schedulers replace the optimizer's `step`.
        return optimizer.step()

    return step


@final
class FusedAdam:
    """The step of a fused `torch.optim.Adam` or `AdamW`, bit for bit.

    `Optimizer.step` groups the tensors by device and dtype, checks for hooks and profilers and
    rebuilds its lists: 25 of 39 microseconds for four small tensors, and at its first call it
    imports the compiler. For a model on one device the results are the same at every step. Anything
    else (a hook, a wrapped `step`) falls back to torch's own step.
    """

    def __init__(self, optimizer: torch.optim.Adam) -> None:
        self._optimizer = optimizer
        self._kernels = [
            torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
            for group in optimizer.param_groups
        ]

    def step(self) -> object:
        """Update from the gradients of the parameters."""
        optimizer = self._optimizer
        if _is_watched(optimizer) or len(self._kernels) != len(optimizer.param_groups):
            return optimizer.step()
        lists = [_lists(optimizer, group) for group in optimizer.param_groups]
        dropped = getattr(optimizer, "found_inf", None)
        scale = getattr(optimizer, "grad_scale", None)
        # As torch.no_grad, which makes three objects.
        tracked = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            for group, kernel, tensors in zip(
                optimizer.param_groups, self._kernels, lists, strict=True
            ):
                if tensors[0]:
                    _update(group, kernel, tensors, scale, dropped)
        finally:
            torch._C._set_grad_enabled(tracked)
        return None


def _lists(optimizer: torch.optim.Adam, group: dict[str, Any]) -> _Lists:
    """Parameters with a gradient, their gradients, both moments and the step counters."""
    parameters = [one for one in group["params"] if one.grad is not None]
    states: list[dict[str, Tensor]] = [
        optimizer.state[one] or _begin(optimizer, one) for one in parameters
    ]
    return (
        parameters,
        [one.grad for one in parameters],
        [one["exp_avg"] for one in states],
        [one["exp_avg_sq"] for one in states],
        [one["step"] for one in states],
    )


def _begin(optimizer: torch.optim.Adam, parameter: Tensor) -> dict[str, Tensor]:
    """Initial state of a parameter at its first gradient, as in torch."""
    state = {
        "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
        "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
    }
    optimizer.state[parameter] = state
    return state


def _update(
    group: dict[str, Any],
    kernel: Callable[..., None],
    tensors: _Lists,
    scale: Tensor | None,
    dropped: Tensor | None,
) -> None:
    """The kernel calls of torch's `_fused_adam`, in its order."""
    parameters, gradients, means, squares, steps = tensors
    torch._foreach_add_(steps, 1)
    kernel(
        parameters,
        gradients,
        means,
        squares,
        [],
        steps,
        amsgrad=False,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
        grad_scale=scale,
        found_inf=dropped,
    )
    if dropped is not None:
        torch._foreach_sub_(steps, [dropped] * len(steps))


def _is_plain_adam(optimizer: Optimizer) -> TypeGuard[torch.optim.Adam]:
    """Is it torch's own optimizer, fused, over real tensors of one device and dtype?"""
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW):
        return False
    groups = optimizer.param_groups
    kinds = {(one.device, one.dtype) for group in groups for one in group["params"]}
    return len(kinds) == 1 and not any(
        not group["fused"]
        or group["amsgrad"]
        or group["maximize"]
        or group["capturable"]
        or group["differentiable"]
        or isinstance(group["lr"], Tensor)
        or any(isinstance(beta, Tensor) for beta in group["betas"])
        or any(one.is_complex() for one in group["params"])
        for group in groups
    )


def _is_watched(optimizer: torch.optim.Adam) -> bool:
    """Does anything observe each step: a hook, or a replaced `step`, as by torch's schedulers?"""
    return bool(
        "step" in vars(optimizer)
        or optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or torch_optimizer._global_optimizer_pre_hooks
        or torch_optimizer._global_optimizer_post_hooks
    )
