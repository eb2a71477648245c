"""Muon for the kernels of convolutions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, final

import torch
from torch import Tensor, nn


@final
class ConvMuon:
    """torch.optim.Muon over kernels [O, I, ...], each as the matrix [O, I ...] of what it does to a
    patch (Jordan 2024, kellerjordan.github.io/posts/muon).

    Torch's takes matrices only, so it has one of its own for each kernel: weights and gradient are
    copied in before a step, the weights back after it, which is little beside the step. Groups and
    states are those of the kernels, for whoever sets rates and saves; momentum is kept as a matrix.

    Args:
        groups: of kernels, as torch's optimizers take them.
        options: what torch's Muon takes beside them.
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
        """One update from the gradients that the kernels hold; those without one stay as they
        are."""
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
