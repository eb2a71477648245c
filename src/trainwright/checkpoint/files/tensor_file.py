"""Safetensors files, written without a second copy of the tensors in memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from mmap import mmap
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor

from trainwright.checkpoint.strict_json import Damaged, read_strict
from trainwright.core.files import Json
from trainwright.core.limits import MOST_SAFETENSORS_HEADER_BYTES

_NAMES: Final[Mapping[torch.dtype, str]] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_BY_NAME: Final[Mapping[str, torch.dtype]] = {name: dtype for dtype, name in _NAMES.items()}
_MAX_SIDE = 2**48
_LENGTH_BYTES = 8


def describe(tensors: Mapping[str, Tensor]) -> Json:
    """Name to dtype and shape, as in the manifest.

    Raises:
        TypeError: an unsupported dtype.
    """
    return {
        name: {"dtype": _dtype_name(name, tensor), "shape": list(tensor.shape)}
        for name, tensor in tensors.items()
    }


def blocks(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """Bytes of a safetensors file of contiguous CPU tensors."""
    places, header = _places(describe(tensors))
    yield header
    for name in places:
        if tensors[name].numel():
            yield tensors[name].reshape(-1).view(torch.uint8).numpy().data


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file of contiguous CPU tensors; the caller syncs it.

    Raises:
        OSError: it is incomplete. The safetensors package raises an error of its own on a full
            disk.
    """
    with path.open("wb") as stream:
        for block in blocks(tensors):
            stream.write(block)


def read_tensors(data: bytes | bytearray | mmap, layout: Json) -> dict[str, Tensor]:
    """Tensors of a file's bytes, which must match `layout` (see `describe`).

    They share the memory of `data`, whose ownership is transferred. The encoding is canonical: the
    header must be the one that `blocks` writes for the layout, and nothing may follow.

    Raises:
        Damaged: not such a safetensors file.
    """
    try:
        places, header = _places(layout)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"the manifest names tensors that cannot be: {error}") from None
    if bytes(data[: len(header)]) != header:
        raise Damaged("not the safetensors file of the tensors that the manifest names")
    size = len(header) + sum(place.size_bytes for place in places.values())
    if len(data) != size:
        raise Damaged(f"{len(data)} bytes, and its tensors have {size}")
    # What is restored may be written to; bytes are immutable.
    buffer = bytearray(data) if isinstance(data, bytes) else data
    return {
        name: _tensor(name, buffer, len(header) + place.offset, place)
        for name, place in places.items()
    }


def read_foreign(data: bytes | bytearray | mmap) -> dict[str, Tensor]:
    """Tensors of a file that was written with `blocks`, validated from the first byte.

    Raises:
        Damaged: not such a file.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if len(data) < _LENGTH_BYTES or length > min(
        MOST_SAFETENSORS_HEADER_BYTES, len(data) - _LENGTH_BYTES
    ):
        raise Damaged("a header longer than the file or the limit")
    header = read_strict(bytes(data[_LENGTH_BYTES : _LENGTH_BYTES + length]))
    if not isinstance(header, dict) or not all(isinstance(fact, dict) for fact in header.values()):
        raise Damaged("a header that is no layout")
    layout = {
        name: {"dtype": fact.get("dtype"), "shape": fact.get("shape")}
        for name, fact in header.items()
    }
    return read_tensors(data, layout)


class _Place(NamedTuple):
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _places(layout: Json) -> tuple[dict[str, _Place], bytes]:
    """Offset of each tensor of a layout after the header, in file order; the header."""
    kinds = {name: _BY_NAME[str(fact["dtype"])] for name, fact in layout.items()}
    # Widest first keeps every tensor aligned to its own item size.
    order = sorted(kinds, key=lambda name: (-kinds[name].itemsize, name))
    places: dict[str, _Place] = {}
    written: dict[str, Json] = {}
    offset = 0
    for name in order:
        shape = tuple(layout[name]["shape"])
        if not all(type(side) is int and 0 <= side < _MAX_SIDE for side in shape):
            raise ValueError(f"{name} of the shape {shape}")
        places[name] = _Place(kinds[name], shape, offset)
        end = offset + places[name].size_bytes
        written[name] = {
            "dtype": _NAMES[kinds[name]],
            "shape": list(shape),
            "data_offsets": [offset, end],
        }
        offset = end
    header = json.dumps(written, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _LENGTH_BYTES)
    return places, len(header).to_bytes(_LENGTH_BYTES, "little") + header


def _tensor(name: str, buffer: bytearray | mmap, at: int, place: _Place) -> Tensor:
    if not place.size_bytes:
        return allocate(name, place.shape, place.dtype)
    count = math.prod(place.shape)
    return torch.frombuffer(buffer, dtype=place.dtype, count=count, offset=at).view(place.shape)


def allocate(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Tensor of a shape that a file names, without values.

    Raises:
        Damaged: no memory holds one, or torch cannot count its elements.
    """
    try:
        return torch.empty(shape, dtype=dtype)
    except (RuntimeError, TypeError, OverflowError):
        raise Damaged(f"{name}: no memory holds a tensor of the shape {shape}") from None


def dtype_of(name: str) -> torch.dtype:
    """The dtype that `describe` names.

    Raises:
        Damaged: no such dtype.
    """
    if name not in _BY_NAME:
        raise Damaged(f"{name!r:.20} is no dtype of a tensor")
    return _BY_NAME[name]


def is_storable(dtype: torch.dtype) -> bool:
    """Whether a file can hold tensors of it."""
    return dtype in _NAMES


def _dtype_name(name: str, tensor: Tensor) -> str:
    known = _NAMES.get(tensor.dtype)
    if known is None:
        raise TypeError(f"{name}: a checkpoint does not keep tensors of {tensor.dtype}")
    return known
