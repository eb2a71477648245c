"""Muon for convolution kernels."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, final

import torch
from torch import Tensor, nn


@final
class ConvMuon:
    """torch.optim.Muon over kernels [O, I, ...], each reshaped to the matrix [O, I ...] that it
    applies to a patch (Jordan 2024, kellerjordan.github.io/posts/muon).

    Torch's Muon takes matrices only, so it runs on a matrix copy of each kernel: weights and
    gradient are copied in before a step, the weights back after it, at little cost. Groups and
    states are exposed under the kernels, for schedules and checkpoints; momentum is kept as a
    matrix.

    Args:
        groups: parameter groups of kernels.
        options: further arguments of torch's Muon.
    """

    def __init__(self, groups: list[dict[str, Any]], **options: Any) -> None:
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self._kernels = [tuple(group["params"]) for group in groups]
        self._matrices = [
            [nn.Parameter(kernel.detach().flatten(1).clone()) for kernel in kernels]
            for kernels in self._kernels
        ]
        self._muon = torch.optim.Muon(
            [{**g, "params": m} for g, m in zip(groups, self._matrices, strict=True)], **options
        )
        self.param_groups: list[dict[str, Any]] = [
            {**inner, "params": list(kernels)}
            for inner, kernels in zip(self._muon.param_groups, self._kernels, strict=True)
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Update from the gradients of the kernels; those without one are unchanged."""
        for group, inner in zip(self.param_groups, self._muon.param_groups, strict=True):
            inner.update({name: value for name, value in group.items() if name != "params"})
        pairs = [
            (kernel, matrix)
            for kernels, matrices in zip(self._kernels, self._matrices, strict=True)
            for kernel, matrix in zip(kernels, matrices, strict=True)
        ]
        for kernel, matrix in pairs:
            matrix.grad = None if kernel.grad is None else kernel.grad.flatten(1)
            if matrix.grad is not None:
                matrix.copy_(kernel.flatten(1))
                self._muon.state[matrix] = self.state[kernel]
        self._muon.step()  # type: ignore[no-untyped-call]
        for kernel, matrix in pairs:
            if matrix.grad is not None:
                kernel.copy_(matrix.view(kernel.shape))
                matrix.grad = None
