"""Muon for convolution kernels, and the parameters that Muon trains."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, final

import torch
from torch import Tensor, nn

from trainwright.optim.layerwise_lr import pieces_of


def hidden_matrices(model: nn.Module) -> set[nn.Parameter]:
    """Trainable weights of the linear layers, excluding those tied to an embedding and the output:
    the last linear layer, unless it is one of several matrices of a block, as where an embedding is
    the output too."""
    linear = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    embedded = [m.weight for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    chosen = {id(weight) for weight in linear} - {id(weight) for weight in embedded}
    if linear and not _within_a_block(model, linear[-1]):
        chosen.discard(id(linear[-1]))
    return {p for p in model.parameters() if p.requires_grad and id(p) in chosen}


def hidden_kernels(model: nn.Module) -> set[nn.Parameter]:
    """Trainable convolution kernels, excluding the first convolution, which sees the input, and
    grouped ones, which are many small matrices in one."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    convolutions = [m for m in model.modules() if isinstance(m, kinds)]
    chosen = {id(m.weight) for m in convolutions[1:] if m.groups == 1}
    return {p for p in model.parameters() if p.requires_grad and id(p) in chosen}


def _within_a_block(model: nn.Module, weight: Tensor) -> bool:
    for parameters, is_block in pieces_of(model):
        matrices = [p for p in parameters if p.ndim > 1]
        if is_block and len(matrices) > 1 and any(p is weight for p in matrices):
            return True
    return False


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
