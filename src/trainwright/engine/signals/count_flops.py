"""FLOP counting."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry

from trainwright.checkpoint.states.random_state import RandomState

_ATEN = torch.ops.aten
_ON_CPU = _ATEN._scaled_dot_product_flash_attention_for_cpu
_FORMULAS = {
    **flop_registry,
    # torch has a formula for fused attention on GPU, not on CPU; the first arguments agree.
    _ON_CPU: flop_registry[_ATEN._scaled_dot_product_flash_attention],
}
_ATTENTION = frozenset(
    {
        _ON_CPU,
        _ATEN._scaled_dot_product_flash_attention,
        _ATEN._scaled_dot_product_efficient_attention,
        _ATEN._scaled_dot_product_cudnn_attention,
    }
)


def count_flops(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Floating-point operations of one forward and backward pass with these arguments.

    A multiplication and an addition count as two, of matrix products, convolutions and attention.
    The gradient of each factor that needs one costs as much as the product itself: a linear layer
    of n weights takes 2 n operations a row forward and 4 n backward, 2 n if it is frozen. Attention
    is not halved where it is causal (PaLM, Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
    What is computed twice to save memory counts once.

    One forward pass is made, by a twin that shares the weights and nothing else, so neither the
    model nor a random number is changed. It does what the model does, in the number format that is
    switched on around the call.

    Raises:
        Exception: whatever a copy of the model raises.
    """
    numbers = RandomState().snapshot()
    own = tree_map(
        lambda value: value.clone() if isinstance(value, Tensor) else value, (args, kwargs)
    )
    try:
        with torch.enable_grad(), _Counting() as counting:
            _twin(model)(*own[0], **own[1])
    finally:
        RandomState().restore(numbers)
    counted: int = counting.flops
    return counted


def _twin(model: nn.Module) -> nn.Module:
    """Copy of the model that shares its parameters, with its own buffers and without hooks, which
    observe the original."""
    known: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    for module in model.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            known[id(hooks)] = OrderedDict()
    return copy.deepcopy(model, known)


@final
class _Counting(TorchDispatchMode):
    """Sums the operations of a forward pass, and those its backward pass will need."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Otherwise torch imports its compiler, which takes longer than a small run."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        formula = _FORMULAS.get(func.overloadpacket)
        if formula is not None:
            forward = int(formula(*args, **named, out_val=out))
            self.flops += forward * (1 + _gradients(func.overloadpacket, args))
        return out


def _gradients(packet: Any, args: Sequence[Any]) -> int:
    """Backward operations per forward operation."""
    trained = [isinstance(one, Tensor) and one.requires_grad for one in args]
    if packet in _ATTENTION:
        return 2 * any(trained[:3])
    # In addmm and baddbmm the first argument is added; the next two are the factors.
    factors = trained[1:3] if packet in (_ATEN.addmm, _ATEN.baddbmm) else trained[:2]
    return sum(factors)
