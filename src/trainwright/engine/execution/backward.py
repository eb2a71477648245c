"""Backward pass with a given root gradient."""

from __future__ import annotations

from torch import Tensor
from torch.autograd.graph import _engine_run_backward


def backward_from(loss: Tensor, gradient: Tensor) -> None:
    """Accumulate the gradients of `loss`, scaled by its root gradient; both 0-d.

    Equivalent to `loss.backward(gradient)`, which imports the symbolic-shapes library (half a
    second before the first step) and compares shapes at every step (an eighth of a small step).
    """
    _engine_run_backward(
        (loss,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
