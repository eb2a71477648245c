"""Numeric environment of a run: its comparison decides whether a resume can be exact."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.metadata import version

import torch
from torch import distributed

from trainwright.core.files import Json

_SHOWN = "the last bits may differ from those of an uninterrupted run"
_OF_THE_BITS = (
    "torch",
    "threads",
    "ranks",
    "tensor",
    "pipeline",
    "device",
    "cpu",
    "cudnn",
    "deterministic",
    "compiler",
    "compiler_settings",
)
_SETTING = "TORCHINDUCTOR_"
_SAME_BITS = ("CACHE", "THREADS", "WORKER", "LOG")


def numerics_of(device: torch.device, *, compiled: bool = False) -> dict[str, Json]:
    """What the bits of a step depend on besides its inputs: the torch version, the number of
    threads and of ranks, the device, the CPU's vector instructions, the cuDNN version, and whether
    only deterministic algorithms are used; of `compiled` kernels also the compiler, and its
    settings in the environment."""
    has_ranks = distributed.is_available() and distributed.is_initialized()
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else "cpu"
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "ranks": distributed.get_world_size() if has_ranks else 1,
        "device": name,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cudnn": torch.backends.cudnn.version() if on_gpu else 0,  # type: ignore[no-untyped-call]
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **(_compiler_of(device) if compiled else {}),
    }


def _compiler_of(device: torch.device) -> dict[str, Json]:
    """Compiler of the kernels, and the variables that change what it makes."""
    changed = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SETTING) and not any(part in name for part in _SAME_BITS)
    }
    return {
        "compiler": f"triton {version('triton')}" if device.type == "cuda" else _cpp_compiler(),
        "compiler_settings": " ".join(f"{name}={value}" for name, value in changed.items())
        or "none",
    }


def _cpp_compiler() -> str:
    """What the C++ compiler says of itself."""
    named = (os.environ.get("CXX", ""), "g++", "clang++")
    found = next(filter(None, (shutil.which(name) for name in named if name)), "")
    if not found:
        return ""
    asked = [found, "--version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603  no shell
    return said.stdout.partition("\n")[0]


def why_not_exact(before: Json, now: Json) -> str:
    """Why resuming a run with environment `before` in `now` cannot be bit-exact; empty if nothing
    is known against it. Keys in only one of them are not compared."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return ""
    changed = [
        f"{name} {before[name]} -> {now[name]}"
        for name in _OF_THE_BITS
        if name in before and name in now and before[name] != now[name]
    ]
    return f"{_SHOWN}: {', '.join(changed)}" if changed else ""
