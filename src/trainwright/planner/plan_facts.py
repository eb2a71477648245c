"""Facts that a plan depends on: of this machine, and of the task that a family learns."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Literal, final

from trainwright.contract.document import Contract
from trainwright.core.files import Json
from trainwright.core.process import is_rank, loading, memory_bytes, ranks_here, world_size
from trainwright.core.threads import limit_libraries, usable_cores
from trainwright.data.read_table import DataFacts
from trainwright.model.family import LearningTask
from trainwright.planner.kinds.data_planner import planner_of

_FP8_CAPABILITY = (8, 9)
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""What Linux calls instructions that multiply bf16 numbers, on x86 and on ARM."""

SEVERAL_METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "regression": ("r2", "the targets count alike, whatever their units"),
        "multilabel": ("average_precision", "each label is ranked by itself"),
    }
)
"""The usual metric of several targets, by their task, and why."""


@final
@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Device for training a network. `memory_bytes` is that of the GPU, or a rank's share of that
    of the machine or container, the same at each start; 0 if not queried; `cores` are those
    available to this process, `threads` those torch uses, on which the bits of a network depend, or
    the most of a library. `ranks` are the processes that train together. `can_compile`:
    torch.compile has its backend, a C++ compiler for a CPU or Triton for a GPU."""

    kind: Literal["cpu", "cuda"] = "cpu"
    name: str = "CPU"
    has_bf16: bool = False
    has_fp8: bool = False
    can_compile: bool = False
    memory_bytes: int = 0
    cores: int = 1
    threads: int = 1
    ranks: int = 1

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "name": self.name,
            "has_bf16": self.has_bf16,
            "has_fp8": self.has_fp8,
            "can_compile": self.can_compile,
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
        return DeviceFacts(cores=cores, threads=usable_cores(), ranks=world_size())
    with loading():
        import torch

    limit_libraries()
    threads = torch.get_num_threads()
    ranks = world_size() if is_rank() else max(1, torch.cuda.device_count())
    if not torch.cuda.is_available():
        return DeviceFacts(
            has_bf16=_cpu_has_bf16(),
            can_compile=_has_cpp_compiler(),
            memory_bytes=memory_bytes() // ranks_here(),
            cores=cores,
            threads=threads,
            ranks=ranks,
        )
    properties = torch.cuda.get_device_properties(0)
    return DeviceFacts(
        kind="cuda",
        name=properties.name,
        has_bf16=torch.cuda.is_bf16_supported(),
        has_fp8=(properties.major, properties.minor) >= _FP8_CAPABILITY,
        can_compile=find_spec("triton") is not None,
        memory_bytes=properties.total_memory,
        cores=cores,
        threads=threads,
        ranks=ranks,
    )


def _cpu_has_bf16() -> bool:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    flags = (line for line in lines if line.startswith(("flags", "Features")))
    return bool(_BF16_FLAGS & set(next(flags, "").split()))


def _has_cpp_compiler() -> bool:
    named = (os.environ.get("CXX", ""), "g++", "clang++")
    return any(shutil.which(name) for name in named if name)


def learning_task(contract: Contract, facts: DataFacts) -> LearningTask:
    """Task of a contract whose task and metric are resolved."""
    return LearningTask(
        task=contract.task,
        metric=contract.metric.name,
        classes=len(facts.target.classes),
        has_texts=any(column.kind == "text" for column in facts.columns),
        columns=planner_of(contract, facts).kinds_of_features(),
        quantiles=contract.metric.quantiles,
        is_packed=contract.data.is_packed,
        targets=facts.target.targets,
        fuses_head=contract.training.memory.head_loss == "fused",
        rows=planner_of(contract, facts).train_rows(),
    )


def several_task(kind: str) -> tuple[str, str]:
    """The task of several targets of a kind, and why."""
    if kind == "labels":
        return "multilabel", "a row has or has not each label"
    return "regression", "the targets are numbers"
