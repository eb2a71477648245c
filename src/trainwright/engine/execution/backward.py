"""Backward pass with given root gradients."""

from __future__ import annotations

from functools import partial

from torch.autograd.graph import _engine_run_backward

run_backward = partial(
    _engine_run_backward,
    keep_graph=False,
    create_graph=False,
    inputs=(),
    allow_unreachable=True,
    accumulate_grad=True,
)
"""Accumulate the gradients of a tuple of losses, scaled by a tuple of root gradients; all 0-d.

Equivalent to `loss.backward(gradient)`, which imports the symbolic-shapes library (half a second
before the first step) and compares shapes at every step (an eighth of a small step).
"""
