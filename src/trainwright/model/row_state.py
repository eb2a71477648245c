"""Hidden states of rows: what the head of a network reads. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

PROJECTION = "teacher_projection"
"""Name of the matrix that brings a state to the width of a teacher's, in the student's weights."""


@contextmanager
def reading_state(head: nn.Linear) -> Iterator[Callable[[], Tensor]]:
    """Inside the block, a function that gives what the head read last, [B, D]."""
    seen: list[Tensor] = []

    def keep(_head: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen[:] = given[:1]

    def last() -> Tensor:
        (state,) = seen
        assert state.ndim == 2, "the head reads one vector of a row"
        return state

    handle = head.register_forward_pre_hook(keep)
    try:
        yield last
    finally:
        handle.remove()


def add_projection(network: nn.Module, head: nn.Linear, width: int) -> None:
    """Give a network the matrix W of state W, [width of the teacher], drawn from torch's global
    generator, where its own state has another width."""
    if head.in_features != width:
        device, dtype = head.weight.device, head.weight.dtype
        layer = nn.Linear(head.in_features, width, bias=False)
        network.add_module(PROJECTION, layer.to(device=device, dtype=dtype))


def projected(network: nn.Module, state: Tensor) -> Tensor:
    """A state of the network in the width of the teacher's."""
    layer = dict(network.named_children()).get(PROJECTION)
    found: Tensor = layer(state) if layer else state
    return found


def remove_projection(network: nn.Module) -> None:
    """Take the matrix away: no prediction needs it."""
    if PROJECTION in dict(network.named_children()):
        delattr(network, PROJECTION)


def state_distance(state: Tensor, teacher: Tensor, kind: str) -> Tensor:
    """Distance between states [B, D] of each row, [B]: 1 - cosine, or the mean square."""
    if kind == "cosine":
        return 1 - torch.cosine_similarity(state, teacher, dim=1)
    return (state - teacher).square().mean(dim=1)
