"""Selection of the parameters that Muon trains."""

from __future__ import annotations

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
