"""Numeric environment of a run: its comparison decides whether a resume can be exact."""

from __future__ import annotations

import torch

from trainwright.core.files import Json

_SHOWN = "the last bits may differ from those of an uninterrupted run"
_OF_THE_BITS = ("torch", "threads", "device", "cpu", "cudnn", "deterministic")


def numerics_of(device: torch.device) -> dict[str, Json]:
    """What the bits of a step depend on besides its inputs: the torch version, the number of
    threads, the device, the CPU's vector instructions, the cuDNN version, and whether only
    deterministic algorithms are used."""
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else "cpu"
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": name,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cudnn": torch.backends.cudnn.version() if on_gpu else 0,  # type: ignore[no-untyped-call]
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


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
