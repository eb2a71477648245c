"""Layer-wise and per-module learning-rate factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from torch import nn

from trainwright.core.errors import ContractMistake, Problem

_OPTIMIZER = "training.optimizer"

T = TypeVar("T")


def rate_factors(
    model: nn.Module, layer_decay: float, by_path: Mapping[str, float]
) -> dict[nn.Parameter, float]:
    """Product of both factors for each parameter.

    With layer decay r the factor is r ^ (D - d) for a parameter at depth d of at most D: the output
    has factor 1, and each block r times the rate of the one above it (Clark et al. 2020,
    arXiv:2003.10555, section 3.1).

    Raises:
        ContractMistake: a path that the model does not have, or a layer decay for a model without
            blocks.
    """
    found: dict[nn.Parameter, float] = dict.fromkeys(model.parameters(), 1.0)
    if layer_decay < 1:
        depths = block_depths(model)
        top = max(depths.values())
        if top == 0:
            raise ContractMistake(
                Problem(
                    "the model has no blocks for a layer-wise decay",
                    path=f"{_OPTIMIZER}.layer_decay",
                    found=str(layer_decay),
                    expected="a model with an nn.ModuleList or nn.Sequential of its layers",
                    fix="remove layer_decay",
                )
            )
        found = {p: layer_decay ** (top - depths[p]) for p in found}
    for parameter, factor in by_module(
        model, by_path, f"{_OPTIMIZER}.learning_rate_factors"
    ).items():
        found[parameter] *= factor
    return found


def block_depths(model: nn.Module) -> dict[nn.Parameter, int]:
    """Depth of each parameter: 0 before the first block, 1 .. n in the blocks and right after each,
    n + 1 after the last.

    Blocks are the elements of ModuleLists and Sequentials, in order of registration; nested lists
    are flattened. An element without a matrix (a norm), or an embedding, is not a block.
    """
    pieces = list(pieces_of(model))
    blocks = sum(is_block for _, is_block in pieces)
    depths: dict[nn.Parameter, int] = {}
    depth = 0
    for parameters, is_block in pieces:
        depth += is_block
        behind = blocks > 0 and depth == blocks and not is_block
        for parameter in parameters:
            depths.setdefault(parameter, depth + behind)
    return depths


def pieces_of(module: nn.Module) -> Iterator[tuple[list[nn.Parameter], bool]]:
    """Consecutive parameters, and whether they form a block, in order."""
    if isinstance(module, nn.ModuleList | nn.Sequential):
        for element in module.children():
            parameters = list(element.parameters())
            is_list = isinstance(element, nn.ModuleList | nn.Sequential)
            is_embedding = isinstance(element, nn.Embedding | nn.EmbeddingBag)
            if not is_list and not is_embedding and any(p.ndim > 1 for p in parameters):
                yield parameters, True
            else:
                yield from pieces_of(element)
        return
    yield list(module.parameters(recurse=False)), False
    for child in module.children():
        yield from pieces_of(child)


def by_module(model: nn.Module, values: Mapping[str, T], path: str) -> dict[nn.Parameter, T]:
    """Value of each parameter under one of the module paths; the longest match wins.

    Raises:
        ContractMistake: paths that the model does not have; `path` is that of the mapping.
    """
    modules = dict(model.named_modules())
    unknown = [name for name in values if not name or name not in modules]
    if unknown:
        known = ", ".join(name for name in modules if name and name.count(".") < 2)
        raise ContractMistake(
            Problem(
                "the model has no such module",
                path=f"{path}.{name}",
                found=name or "an empty path",
                expected=f"the path of a module: {known}"[:400],
                fix="write the path as in model.named_modules()",
            )
            for name in unknown
        )
    ordered = sorted(values, key=lambda name: name.count("."))
    return {p: values[name] for name in ordered for p in modules[name].parameters()}
