"""Activation checkpointing (gradient checkpointing)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, assert_never, final

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from trainwright.contract.sections.training.memory import (
    ActivationCheckpointing,
    ByOp,
    EveryNth,
    KeptOps,
)
from trainwright.core.errors import Mistake, Problem
from trainwright.model.model_call import InBlocks

_aten = torch.ops.aten

_OPS: dict[KeptOps, frozenset[Any]] = {
    "matmul": frozenset(
        [_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default]
    ),
    "attention": frozenset(
        [
            _aten._scaled_dot_product_flash_attention.default,
            _aten._scaled_dot_product_flash_attention_for_cpu.default,
            _aten._scaled_dot_product_efficient_attention.default,
            _aten._scaled_dot_product_cudnn_attention.default,
        ]
    ),
    "convolution": frozenset([_aten.convolution.default]),
}

_Pair = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
"""Contexts around a block's forward pass and around its recomputation."""


def recompute(
    network: InBlocks | nn.Module | Iterable[nn.Module], how: ActivationCheckpointing
) -> None:
    """Checkpoint the activations of a network's blocks, or of these blocks: discard them in the
    forward pass and recompute them in the backward pass.

    Bit-identical to training without it: random numbers are redrawn from the same state, and
    running statistics are updated once.

    Parameter names do not change. Without gradients the forward pass is unchanged. The blocks of a
    module written elsewhere are found, see `find_blocks`.

    Raises:
        Mistake: the module has no blocks.
    """
    every, pair = 1, _nothing
    match how:
        case "off":
            return
        case "full":
            pass
        case EveryNth(n=n):
            every = n
        case ByOp(keep=keep):
            pair = _Keeping(frozenset(op for family in keep for op in _OPS[family])).pair
        case _:
            assert_never(how)
    for block in find_blocks(network)[every - 1 :: every]:
        block.forward = Recomputed(block, pair)


def find_blocks(network: InBlocks | nn.Module | Iterable[nn.Module]) -> list[nn.Module]:
    """Blocks of a network: its `blocks`, or of a module without them the list (`ModuleList`,
    `Sequential`) of two or more modules of one class that holds the most parameters, as the layers
    of a transformer. Blocks that are given are returned.

    Raises:
        Mistake: there is no such list.
    """
    if isinstance(network, InBlocks):
        return list(network.blocks)
    if isinstance(network, nn.ModuleList) or not isinstance(network, nn.Module):
        return list(network)
    lists = [one for one in network.modules() if isinstance(one, nn.ModuleList | nn.Sequential)]
    repeated = [one for one in lists if len(one) > 1 and len(set(map(type, one))) == 1]
    if not repeated:
        raise _no_blocks(network)
    return list(max(repeated, key=lambda one: sum(p.numel() for p in one.parameters())))


@final
class Recomputed:
    """Forward pass of a block with activation checkpointing.

    It replaces the block's `forward` attribute, so the block is called, named and saved as before.
    """

    def __init__(self, block: nn.Module, pair: Callable[[], _Pair]) -> None:
        self._block = block
        self._forward = block.forward
        self._pair = pair

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Outputs of the block."""
        if not torch.is_grad_enabled():
            return self._forward(*inputs, **options)
        if options.get("past_key_values") is not None:
            raise _fills_a_cache(self._block)
        # Passed as two positional inputs: torch takes its own options out of the keyword arguments,
        # and preserves the RNG state only of devices on which positional tensors lie.
        return checkpoint(
            self._call, inputs, options, use_reentrant=False, context_fn=self._contexts
        )

    def _call(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self._forward(*inputs, **options)

    def _contexts(self) -> _Pair:
        first, again = self._pair()
        return first, _again(self._block, again)


@final
class _Keeping:
    """Saves the outputs of some operations and recomputes the others."""

    def __init__(self, ops: frozenset[Any]) -> None:
        self._ops = ops

    def pair(self) -> _Pair:
        first, again = create_selective_checkpoint_contexts(self._policy)  # type: ignore[no-untyped-call]
        return first, again

    def _policy(self, _: Any, op: Any, *inputs: Any, **options: Any) -> CheckpointPolicy:
        if op in self._ops and not _draws(op, inputs, options):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE


def _no_blocks(network: nn.Module) -> Mistake:
    return Mistake(
        Problem(
            "activation checkpointing needs the blocks of a model",
            found=f"{type(network).__name__} has no list of two or more modules of one class",
            fix="give the model a property `blocks`, from the first to the last",
        )
    )


def _fills_a_cache(block: nn.Module) -> Mistake:
    return Mistake(
        Problem(
            "a block that fills a cache of keys and values cannot be computed again",
            found=f"{type(block).__name__} was called with past_key_values",
            expected="use_cache=False in training",
            fix="model(..., use_cache=False), or model.config.use_cache = False; tw.Supervised "
            "does so",
        )
    )


def _nothing() -> _Pair:
    return nullcontext(), nullcontext()


def _draws(op: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Does an operation draw random numbers, as attention with dropout does? If its output were
    saved, recomputation would skip the draw and shift every later one."""
    names = [argument.name for argument in op._schema.arguments]
    if "dropout_p" not in names:
        return False
    place = names.index("dropout_p")
    return bool(inputs[place] if place < len(inputs) else options.get("dropout_p", 0.0))


@contextmanager
def _again(block: nn.Module, inner: AbstractContextManager[Any]) -> Iterator[None]:
    """Recompute a block without updating its buffers: its running statistics have already seen
    these rows."""
    buffers = [
        (module, name, buffer)
        for module in block.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    for module, name, buffer in buffers:
        setattr(module, name, buffer.clone())
    try:
        with inner:
            yield
    finally:
        for module, name, buffer in buffers:
            setattr(module, name, buffer)
