"""Builds the telemetry of a network run. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, assert_never, final

from torch import nn

from trainwright.checkpoint.state import Stateful
from trainwright.contract.sections.run_settings import Inspect, Tracking
from trainwright.contract.sections.section import settled
from trainwright.engine.execution.precision import PrecisionChoice
from trainwright.engine.health.health_monitor import HealthMonitor
from trainwright.engine.job import NoProbes, Probes
from trainwright.engine.signals.attention_entropy import AttentionEntropy
from trainwright.engine.signals.dead_units import DeadUnits
from trainwright.engine.signals.flops import Utilisation
from trainwright.engine.signals.network_inspection import (
    Activations,
    GradientSizes,
    LayerNorms,
    Probe,
    SilentUnits,
    StepProbes,
)
from trainwright.engine.signals.telemetry import Gauge, Windows
from trainwright.engine.signals.throughput import MemoryGauge, Throughput
from trainwright.model.model_call import WithAttention
from trainwright.run.compose.compose_step import reader
from trainwright.run.run_context import RunContext
from trainwright.tracking.event_log import read_events
from trainwright.tracking.events import Noted
from trainwright.tracking.telemetry_file import WindowFile


class Inspection(Probe, Gauge, Protocol):
    """A probe that is also a gauge."""


@final
@dataclass(frozen=True, slots=True)
class Measurable:
    """A model, the precision of its matrix products, the name of its targets, and whether this
    process holds all of the model."""

    model: nn.Module
    precision: PrecisionChoice
    unit: str
    is_whole: bool = True


@final
@dataclass(frozen=True, slots=True)
class TelemetryParts:
    """Telemetry of a run with its state; empty if it is off."""

    windows: tuple[Windows, ...] = ()
    probes: Probes = field(default_factory=NoProbes)
    state: Mapping[str, Stateful] = field(default_factory=dict)


def build_measured(
    section: Tracking,
    trained: Measurable,
    run: RunContext,
    tell: Callable[[Noted], None],
    gauges: Sequence[Gauge] = (),
    probes: Sequence[Probe] = (),
) -> TelemetryParts:
    """Build the telemetry of a contract, with additional `gauges` and `probes`."""
    if section.windows == "off":
        return TelemetryParts()
    model = trained.model
    device = next(model.parameters()).device
    utilisation = Utilisation(model, trained.precision, tell)
    units = DeadUnits(model)
    whole = (utilisation, LayerNorms(model)) if trained.is_whole else ()
    inspections = build_inspections(section.inspect, model)
    windows = Windows(
        settled(section.windows.every_n_steps),
        [
            *(Throughput(trained.unit), MemoryGauge(device), *whole, units),
            *gauges,
            *inspections,
        ],
        [HealthMonitor()],
        lines=WindowFile(run.folder.windows),
        tell=tell,
        told=told_of(run.folder.events),
        read=reader(device),
    )
    return TelemetryParts(
        (windows,),
        StepProbes(
            windows,
            (*probes, *whole, units),
            inspections,
            1 if section.inspect == "off" else section.inspect.every_n_windows,
        ),
        {"windows": windows, "dead_units": units},
    )


def build_inspections(
    section: Literal["off"] | Inspect, model: nn.Module
) -> tuple[Inspection, ...]:
    """Network inspections; attention only if there is any."""
    if section == "off":
        return ()
    found: list[Inspection] = []
    for which in section.which:
        match which:
            case "activations":
                found.append(Activations(model))
            case "silent_units":
                found.append(SilentUnits(model))
            case "gradient_sizes":
                found.append(GradientSizes(model))
            case "attention":
                found += [AttentionEntropy(model)] if isinstance(model, WithAttention) else []
            case _:
                assert_never(which)
    return tuple(found)


def told_of(events: Path) -> set[tuple[str, int]]:
    """Problems reported in a run's log: kind and attempted step of each."""
    return {
        (str(event["kind"]), int(event["numbers"]["attempted"]))
        for event in read_events(events)
        if event.get("event") == "noted" and "attempted" in event["numbers"]
    }
