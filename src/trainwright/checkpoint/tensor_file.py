"""Tensors in a safetensors file, written without a second copy of them in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.files import Json

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
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_LENGTH_BYTES = 8


def describe(tensors: Mapping[str, Tensor]) -> Json:
    """Name to dtype and shape, as the manifest holds it.

    Raises:
        TypeError: a dtype that is not kept.
    """
    return {
        name: {"dtype": _dtype_name(name, tensor), "shape": list(tensor.shape)}
        for name, tensor in tensors.items()
    }


def blocks(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file that holds contiguous CPU tensors."""
    # Widest first keeps every tensor aligned to its own item size.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    layout: dict[str, Json] = {}
    offset = 0
    for name in order:
        tensor = tensors[name]
        end = offset + tensor.nbytes
        layout[name] = {
            "dtype": _dtype_name(name, tensor),
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    header = json.dumps(layout, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _LENGTH_BYTES)
    yield len(header).to_bytes(_LENGTH_BYTES, "little") + header
    for name in order:
        if tensors[name].numel():
            yield tensors[name].reshape(-1).view(torch.uint8).numpy().data


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file of contiguous CPU tensors; the caller syncs it.

    Raises:
        OSError: it is not whole. The safetensors package raises an error of its own on a full disk.
    """
    with path.open("wb") as stream:
        for block in blocks(tensors):
            stream.write(block)


def read_tensors(data: bytes, layout: Json) -> dict[str, Tensor]:
    """The tensors of a file's bytes, which must be those of `layout` (see `describe`).

    Raises:
        Damaged: not such a safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if len(data) < _LENGTH_BYTES or length > min(_MAX_HEADER_BYTES, len(data) - _LENGTH_BYTES):
        raise Damaged("a header longer than the file or the limit")
    try:
        tensors = load(data)
        found = describe(tensors)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise Damaged(f"not a safetensors file: {error}") from None
    if found != layout:
        raise Damaged("other tensors than the manifest names")
    return tensors


def _dtype_name(name: str, tensor: Tensor) -> str:
    known = _NAMES.get(tensor.dtype)
    if known is None:
        raise TypeError(f"{name}: a checkpoint does not keep tensors of {tensor.dtype}")
    return known
