"""The canary with windows, a probe and a watch around it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from canary import Canary, Setting, start
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore
from trainwright.core.files import Json
from trainwright.engine.signals.network_inspection import LayerNorms, StepProbes
from trainwright.engine.signals.telemetry import Trouble, Window, Windows
from trainwright.engine.signals.throughput import MemoryGauge, Throughput
from trainwright.run.compose.compose_telemetry import told_of
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Observers
from trainwright.tracking.telemetry_file import WindowFile, read_windows

FULL = Setting()
TIMED = ("rows_per_second", "tokens_per_second", "host_memory_bytes")


class LossSums:
    """Tells at each window the sum of all losses so far, which depends on every step."""

    name = "sums"

    def __init__(self) -> None:
        self.total = 0.0
        self.rearmed = 0

    def look(self, window: Window, numbers: Mapping[str, float]) -> Sequence[Trouble]:
        self.total += sum(step.loss for step in window.steps)
        sizes = sum(value for name, value in numbers.items() if name.startswith("weight_norm"))
        return [Trouble("sum", "all losses", {"total": self.total, "weights": sizes})]

    def rearm(self) -> None:
        self.rearmed += 1

    def snapshot(self) -> Snapshot:
        return Snapshot(values={"total": self.total})

    def restore(self, snapshot: Snapshot) -> None:
        self.total = float(snapshot.values["total"])


@dataclass
class MeasuredCanary:
    canary: Canary
    windows: Windows
    watch: LossSums
    path: Path
    events: Path

    def lines(self) -> list[Mapping[str, object]]:
        """The windows without what the clock and the memory say."""
        found = []
        for line in read_windows(self.path):
            entry: dict[str, object] = {name: line.numbers[name] for name in sorted(line.numbers)}
            for name in TIMED:
                entry.pop(name, None)
            found.append({"step": line.step, "steps": line.steps, **entry})
        return found

    def notes(self) -> list[Json]:
        """What was told, as it stands in the log."""
        entries = [json.loads(line) for line in self.events.read_text().splitlines()]
        return [entry["numbers"] for entry in entries if entry["event"] == "noted"]


def measured(
    folder: Path,
    store: CheckpointStore,
    length: int,
    setting: Setting = FULL,
    process: int = 0,
) -> MeasuredCanary:
    canary = start(folder, store, setting, process)
    layers, watch = LayerNorms(canary.model), LossSums()
    path, events = folder / "windows.jsonl", folder / "noted.jsonl"
    log = EventLog(events)
    windows = Windows(
        length,
        [Throughput(), MemoryGauge(torch.device("cpu")), layers],
        [watch],
        lines=WindowFile(path),
        tell=log.observe,
        told=told_of(events),
    )
    canary.change(
        probes=StepProbes(windows, [layers]),
        state={**canary.job.state, "windows": windows},
        observers=(Observers([windows], print), *canary.job.observers),
    )
    return MeasuredCanary(canary, windows, watch, path, events)
