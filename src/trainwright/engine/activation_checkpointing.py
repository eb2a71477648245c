"""Activation checkpointing: activations that are computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, assert_never, final

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from trainwright.contract.memory import ActivationCheckpointing, ByOp, EveryNth, KeptOps
from trainwright.model.block_protocol import InBlocks

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
"""What surrounds a block's forward pass, and what surrounds it when it is computed again."""


def recompute(network: InBlocks, how: ActivationCheckpointing) -> None:
    """Let the blocks of a network keep less for the backward pass and compute it again there.

    It is the same to the bit: random numbers are drawn as before, running statistics move once.

    The names of parameters stay. Without gradients nothing is different.
    """
    chosen = list(network.blocks)
    pair = _nothing
    match how:
        case "off":
            return
        case "full":
            pass
        case EveryNth(n=n):
            chosen = chosen[n - 1 :: n]
        case ByOp(keep=keep):
            pair = _Keeping(frozenset(op for family in keep for op in _OPS[family])).pair
        case _:
            assert_never(how)
    for block in chosen:
        block.forward = Recomputed(block, pair)


@final
class Recomputed:
    """The forward of a block whose activations are computed again.

    It stands in the block's place of `forward`, so that the block is called, named and saved as
    before.
    """

    def __init__(self, block: nn.Module, pair: Callable[[], _Pair]) -> None:
        self._block = block
        self._forward = block.forward
        self._pair = pair

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The block's outputs."""
        if not torch.is_grad_enabled():
            return self._forward(*inputs, **options)
        # As two inputs: torch takes the names of its own options out of keyword arguments, and
        # keeps the random numbers only of devices on which positional ones lie.
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
    """Keeps the outputs of some operations and computes the others again."""

    def __init__(self, ops: frozenset[Any]) -> None:
        self._ops = ops

    def pair(self) -> _Pair:
        first, again = create_selective_checkpoint_contexts(self._policy)  # type: ignore[no-untyped-call]
        return first, again

    def _policy(self, _: Any, op: Any, *inputs: Any, **options: Any) -> CheckpointPolicy:
        if op in self._ops and not _draws(op, inputs, options):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE


def _nothing() -> _Pair:
    return nullcontext(), nullcontext()


def _draws(op: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether an operation draws random numbers: attention with dropout. Kept, it would not draw
    them again, and what comes after it would draw others."""
    names = [argument.name for argument in op._schema.arguments]
    if "dropout_p" not in names:
        return False
    place = names.index("dropout_p")
    return bool(inputs[place] if place < len(inputs) else options.get("dropout_p", 0.0))


@contextmanager
def _again(block: nn.Module, inner: AbstractContextManager[Any]) -> Iterator[None]:
    """Compute a block again beside its buffers: a running mean has taken the rows in already."""
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
