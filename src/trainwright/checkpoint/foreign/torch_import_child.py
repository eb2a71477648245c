"""Reader of foreign `.pt` files: the only place where anything is unpickled, in a process of its
own.

Run by `torch_import.convert_foreign` as a program. The file is open on stdin; its tensors go to
stdout as safetensors, which the caller validates. `weights_only` is not a security boundary
(CVE-2025-32434, CVE-2026-24747), so before the first byte is read the process gives up everything
but computing.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import torch
from torch import Tensor

from trainwright.checkpoint.files.tensor_file import blocks
from trainwright.checkpoint.foreign.torch_import import Limits, lock_down

_NESTS = ("state_dict", "model_state_dict", "model")


def main() -> None:
    """Convert stdin to stdout; on failure a reason on stderr and exit code 1."""
    limits = Limits(int(sys.argv[1]), int(sys.argv[2]))
    torch.set_num_threads(1)
    # What reading imports must be imported before opening files is blocked.
    warm = io.BytesIO()
    torch.save({"warm": torch.zeros(1)}, warm)
    warm.seek(0)
    torch.load(warm, map_location="cpu", weights_only=True)
    stream = os.fdopen(0, "rb", closefd=False)
    lock_down(limits)
    try:
        _check_sums(stream)
        found = torch.load(stream, map_location="cpu", weights_only=True)
        tensors = _tensors(found)
        data = list(blocks(tensors))
    except BaseException as error:
        _say(f"{type(error).__name__}: {error}")
        os._exit(1)
    for block in data:
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(1, rest) :]
    os._exit(0)


def _check_sums(stream: IO[bytes]) -> None:
    """Verify the archive's checksums: PyTorch ignores them, so a flipped bit would become a wrong
    weight."""
    if zipfile.is_zipfile(stream):
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken!r:.80} is damaged: its checksum does not fit")
    stream.seek(0)


def _tensors(found: Any) -> dict[str, Tensor]:
    """Named tensors, of the file itself or of its state dict under a common key."""
    for nest in _NESTS:
        if isinstance(found, Mapping) and isinstance(found.get(nest), Mapping):
            found = found[nest]
    if not isinstance(found, Mapping) or not found:
        raise ValueError("the file holds no named tensors")
    others = [key for key, value in found.items() if not isinstance(value, Tensor)]
    if others or not all(isinstance(key, str) for key in found):
        raise ValueError(f"the file holds more than named tensors, for example {others[:3]!r:.80}")
    return {name: tensor.detach().clone().contiguous() for name, tensor in found.items()}


def _say(text: str) -> None:
    os.write(2, text[:300].encode(errors="replace"))


if __name__ == "__main__":
    main()
