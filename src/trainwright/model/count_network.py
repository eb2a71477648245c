"""Parameters, multiply-accumulates and activations of a network, counted from the network itself on
meta tensors: shapes without data. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Mistake
from trainwright.model.input_shape import Shape

_NUMBER_BYTES = 4
_ROWS = 2
"""Fewest rows that a batch norm takes."""

_READINGS: Mapping[Callable[..., Any], bool | int | float] = {
    Tensor.item: 1,
    Tensor.__int__: 1,
    Tensor.__index__: 1,
    Tensor.__float__: 1.0,
    Tensor.__bool__: True,
    Tensor.__contains__: True,
}
"""What is read from a tensor without values."""

Build = Callable[[Any, Shape], nn.Module]
Call = Callable[[nn.Module, Sequence[Tensor]], Tensor]


class Builder(Protocol):
    """Builds a network, as `NetworkFamily` does."""

    def build(self, section: Any, shape: Shape) -> nn.Module:
        """Network for data of this shape."""
        ...

    def build_empty(self, section: Any, shape: Shape, /) -> nn.Module:
        """The same, whose weights are of no account."""
        ...


class BlockBuilder(Protocol):
    """Builds a network of blocks, as `NetworkFamily` does."""

    def build(self, section: Any, shape: Shape, /) -> nn.Module:
        """Network for data of this shape."""
        ...

    def blocks(self, network: nn.Module, /) -> Iterable[nn.Module]:
        """Its blocks; none for a network without."""
        ...


@final
@dataclass(frozen=True, slots=True)
class NetworkCounts:
    """Trainable parameters, elements of the largest one, frozen parameters, and per row:
    multiply-accumulates in matrix products, convolutions and attention of the forward pass in fp32,
    and numbers of 4 bytes that it keeps for the backward pass, outputs and loss included."""

    parameters: int
    largest: int
    frozen: int
    products: int
    activations: int


def call_in_order(network: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    """Outputs of a network for its inputs."""
    outputs: Tensor = network(*inputs)
    return outputs


@lru_cache(maxsize=8)
def count_network(
    family: Builder,
    section: ModelSection,
    shape: Shape,
    call: Call = call_in_order,
    filling: int = 0,
) -> NetworkCounts:
    """Counts of the network that a family builds, which takes no memory and draws no random number;
    of a network that cannot compute without values, on a CPU, with four rows that hold `filling`.

    A shared parameter counts once. What does not grow with the rows (statistics of a batch norm) is
    no activation: a row is the difference of two passes.
    """
    try:
        return _count_on("meta", family.build, section, shape, call, filling)
    except Mistake:
        raise
    # A network may need values in any way.
    except Exception:
        return _count_on("cpu", family.build_empty, section, shape, call, filling)


def _count_on(
    device: str, build: Build, section: ModelSection, shape: Shape, call: Call, filling: int
) -> NetworkCounts:
    def example(rows: int) -> Sequence[Tensor]:
        return [one.fill_(filling) for one in shape.empty_rows(rows, section.context_length)]

    with torch.random.fork_rng(devices=[]), torch.device(device):
        network = build(section, shape)
        passes = (_measure(network, partial(example, rows), call) for rows in (_ROWS, 2 * _ROWS))
        (few, fewer), (more, kept) = passes
    sizes = [one.numel() for one in network.parameters() if one.requires_grad]
    frozen = sum(one.numel() for one in network.parameters() if not one.requires_grad)
    return NetworkCounts(
        sum(sizes),
        max(sizes, default=0),
        frozen,
        (more - few) // _ROWS,
        math.ceil((kept - fewer) / _ROWS / _NUMBER_BYTES),
    )


@final
@dataclass(frozen=True, slots=True)
class PartSizes:
    """Parameters of each block of a network, and those outside of them; trained or not."""

    blocks: tuple[int, ...]
    rest: int

    @property
    def largest(self) -> int:
        """Those of the largest block."""
        return max(self.blocks, default=0)


@lru_cache(maxsize=8)
def count_parts(family: BlockBuilder, section: ModelSection, shape: Shape) -> PartSizes:
    """Sizes of the parts that a sharded network gathers one by one. A parameter of several blocks
    counts in each."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = family.build(section, shape)
    blocks = [tuple(block.parameters()) for block in family.blocks(network)]
    inside = {id(one) for block in blocks for one in block}
    rest = sum(one.numel() for one in network.parameters() if id(one) not in inside)
    return PartSizes(tuple(sum(one.numel() for one in block) for block in blocks), rest)


def takes_one_row(family: Builder, section: ModelSection, shape: Shape) -> bool:
    """Can the network learn from a micro-batch of one row? A batch norm needs two values."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = family.build(section, shape)
        if not any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in network.modules()):
            return True
        try:
            network(*shape.empty_rows(1, section.context_length))
        except ValueError:
            return False
    return True


def _measure(
    network: nn.Module, example: Callable[[], Sequence[Tensor]], call: Call
) -> tuple[int, int]:
    """Multiply-accumulates, and bytes kept."""
    attention, flops = _FusedAttentionMode(), FlopCounterMode(display=False)
    with torch.enable_grad(), flops, attention:
        inputs = example()
        with _record_saved((*network.parameters(), *network.buffers(), *inputs)) as saved:
            outputs = call(network, inputs)
            _loss(outputs)
    # The outputs live until the backward pass has begun, when their gradient takes their place.
    kept = sum(one.untyped_storage().nbytes() for one in saved.values()) + outputs.nbytes
    return flops.get_total_flops() // 2 + attention.products, kept


def _loss(outputs: Tensor) -> Tensor:
    """Cross-entropy of classes or tokens, squared error of a number."""
    flat = outputs.flatten(0, -2)
    if flat.shape[1] == 1:
        return functional.mse_loss(flat, torch.zeros_like(flat), reduction="sum")
    codes = torch.zeros(len(flat), dtype=torch.int64)
    return functional.cross_entropy(flat, codes, reduction="sum")


@contextmanager
def _record_saved(own: Sequence[Tensor]) -> Iterator[dict[int, Tensor]]:
    """Tensors saved for the backward pass by their storage, without the network's `own`."""
    known = {one.untyped_storage()._cdata for one in own}
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in known:
            saved[storage] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved


@final
class _FusedAttentionMode(TorchFunctionMode):
    """Attention as the fused kernels compute it: on meta tensors torch would materialise all
    weights. With dropout it does so on a CPU too."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace attention without dropout. A number read from a meta tensor is 1 and a condition
        holds, as that every token is one of a text."""
        options = kwargs or {}
        if func in _READINGS and args[0].is_meta:
            return _READINGS[func]
        is_attention = func is functional.scaled_dot_product_attention
        if not is_attention or len(args) != 3 or options.get("dropout_p"):
            return func(*args, **options)
        queries, keys, values = args
        weights = math.prod(queries.shape[:-1]) * keys.shape[-2]
        self.products += weights * (queries.shape[-1] + values.shape[-1])
        return _FusedAttention.apply(queries, keys, values)  # type: ignore[no-untyped-call]


@final
class _FusedAttention(torch.autograd.Function):
    """Keeps queries, keys, values, outputs, and a number a query (Dao et al. 2022,
    arXiv:2205.14135, algorithm 2)."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Outputs of the shape of the queries."""
        # With the layout of the queries: a view of it is then one of the kernel's outputs too.
        outputs = torch.empty_like(queries[..., : values.shape[-1]])
        ctx.save_for_backward(queries, keys, values, outputs, queries.new_empty(queries.shape[:-1]))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ARG004
        """Never called: only the forward pass is counted."""
        raise AssertionError("only the forward pass is counted")
