"""The backward pass from a gradient of one's own."""

from __future__ import annotations

from torch import Tensor
from torch.autograd.graph import _engine_run_backward


def backward_from(loss: Tensor, gradient: Tensor) -> None:
    """Add the gradients of `loss` to those of the leaves, from its own gradient on; both 0-d.

    The same as `loss.backward(gradient)`, which first imports the library for symbolic shapes, half
    a second before the first step, and compares shapes anew at every step, an eighth of a small
    one.
    """
    _engine_run_backward(
        (loss,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
