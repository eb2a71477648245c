"""How much a run uses its GPU, by NVIDIA's management library."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, final

from trainwright.core.files import Json


@final
@dataclass(slots=True)
class GpuUse:
    """Samples of one GPU, named by its UUID; empty for a run without one."""

    uuid: str = ""
    absent: str = ""
    """Why there are no samples."""
    samples: int = 0
    _sums: dict[str, float] = field(default_factory=dict)
    _most_memory: int = 0

    def sample(self) -> None:
        """Take a sample, within milliseconds. What NVML refuses is noted, and not asked again."""
        if not self.uuid or self.absent:
            return
        if find_spec("pynvml") is None:
            self.absent = "pip install 'trainwright[nvml]'"
            return
        import pynvml

        try:
            self._add(pynvml)
        except pynvml.NVMLError as error:
            self.absent = str(error)

    def _add(self, nvml: Any) -> None:
        nvml.nvmlInit()
        device = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
        rates = nvml.nvmlDeviceGetUtilizationRates(device)
        now = {
            "busy": rates.gpu / 100,
            "memory_busy": rates.memory / 100,
            "watts": nvml.nvmlDeviceGetPowerUsage(device) / 1000,
        }
        self.samples += 1
        self._sums = {name: self._sums.get(name, 0.0) + value for name, value in now.items()}
        memory = int(nvml.nvmlDeviceGetMemoryInfo(device).used)
        self._most_memory = max(self._most_memory, memory)

    def to_json(self) -> Json:
        """Means over the samples: share of time with a kernel at work (`busy`), and with memory
        traffic, watts; and the most bytes in use. Empty for a run without a GPU."""
        if self.absent:
            return {"absent": self.absent}
        if not self.samples:
            return {}
        means = {name: total / self.samples for name, total in self._sums.items()}
        return {**means, "most_memory_bytes": self._most_memory, "samples": self.samples}
