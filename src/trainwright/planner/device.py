"""What this machine computes with, as far as a plan depends on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, final

from trainwright.core.files import Json


@final
@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The device that a network would be trained on. `memory_bytes` is the GPU's, and 0 on a CPU;
    `cores` are those this process may use, `threads` those that torch computes with: the bits of a
    result depend on them."""

    kind: Literal["cpu", "cuda"] = "cpu"
    name: str = "CPU"
    has_bf16: bool = False
    memory_bytes: int = 0
    cores: int = 1
    threads: int = 1

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "name": self.name,
            "has_bf16": self.has_bf16,
            "memory_bytes": self.memory_bytes,
            "cores": self.cores,
            "threads": self.threads,
        }


def read_device(for_network: bool) -> DeviceFacts:
    """The first GPU if a network is to be trained and torch finds one, else the CPU.

    Without a network torch is not imported: boosting and linear models run on the CPU.
    """
    cores = len(os.sched_getaffinity(0))
    if not for_network or find_spec("torch") is None:
        return DeviceFacts(cores=cores, threads=cores)
    import torch

    threads = torch.get_num_threads()
    if not torch.cuda.is_available():
        return DeviceFacts(cores=cores, threads=threads)
    properties = torch.cuda.get_device_properties(0)
    return DeviceFacts(
        kind="cuda",
        name=properties.name,
        has_bf16=torch.cuda.is_bf16_supported(),
        memory_bytes=properties.total_memory,
        cores=cores,
        threads=threads,
    )
