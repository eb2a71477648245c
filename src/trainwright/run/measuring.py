"""The wiring of what is measured in windows of steps. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from torch import nn

from trainwright.checkpoint.state import Stateful
from trainwright.contract.tracking import Tracking
from trainwright.engine.gauges import Memory, Throughput
from trainwright.engine.layers import LayerNorms
from trainwright.engine.measuring import MeasuredStep, Probe
from trainwright.engine.precision import PrecisionChoice
from trainwright.engine.step import Step
from trainwright.engine.utilisation import Utilisation
from trainwright.engine.windows import Gauge, Windows
from trainwright.run.context import RunContext
from trainwright.run.stepping import reader
from trainwright.tracking.events import Noted
from trainwright.tracking.log import read_events
from trainwright.tracking.windows import WindowFile


@final
@dataclass(frozen=True, slots=True)
class Measurable:
    """A model, the number format of its matrix products, and what its targets are called."""

    model: nn.Module
    precision: PrecisionChoice
    unit: str


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """What measures a run in windows, with the state of it; nothing where that is off."""

    windows: tuple[Windows, ...] = ()
    probes: tuple[Probe, ...] = ()
    state: Mapping[str, Stateful] = field(default_factory=dict)

    def step(self, step: Step) -> Step:
        """The step, with one of each window measured."""
        for windows in self.windows:
            step = MeasuredStep(step, windows, self.probes)
        return step


def build_measured(
    section: Tracking,
    trained: Measurable,
    run: RunContext,
    tell: Callable[[Noted], None],
    gauges: Sequence[Gauge] = (),
    probes: Sequence[Probe] = (),
) -> Measured:
    """What the contract wants measured; `gauges` have numbers beside, `probes` are there too."""
    if section.windows == "off":
        return Measured()
    device = next(trained.model.parameters()).device
    layers = LayerNorms(trained.model)
    utilisation = Utilisation(trained.model, trained.precision, tell)
    windows = Windows(
        section.windows.every_n_steps,
        [Throughput(trained.unit), utilisation, Memory(device), layers, *gauges],
        lines=WindowFile(run.folder.windows),
        tell=tell,
        told=told_of(run.folder.events),
        read=reader(device),
    )
    return Measured((windows,), (*probes, utilisation, layers), {"windows": windows})


def told_of(events: Path) -> set[tuple[str, int]]:
    """What a run's log says was told: kind and attempted step of each trouble."""
    return {
        (str(event["kind"]), int(event["numbers"]["attempted"]))
        for event in read_events(events)
        if event.get("event") == "noted" and "attempted" in event["numbers"]
    }
