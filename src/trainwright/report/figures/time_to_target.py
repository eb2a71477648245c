"""Time to target: the contract's metric over wall-clock time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, final

from trainwright.contract.sections.metric import METRICS
from trainwright.core.files import Json
from trainwright.core.formatting import show_seconds
from trainwright.report.figures.svg_figure import MUTED, SERIES, Figure, Panel, draw_svg
from trainwright.report.format import clean, show_value
from trainwright.report.load_run import Contents
from trainwright.tracking.events import number_from_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Events = Sequence[Mapping[str, Json]]

_UNITS = ((7200.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""Axis units by duration: (minimum seconds, unit seconds)."""


@final
@dataclass(frozen=True, slots=True)
class TimedScore:
    """One validation: elapsed training seconds and its value."""

    seconds: float
    step: int
    value: float


@final
@dataclass(frozen=True, slots=True)
class Wish:
    """The contract's metric and target; a `baseline` is known only on test rows."""

    metric: str
    target: float | Literal["baseline"]

    def is_met_by(self, value: float) -> bool:
        """Does a value on the validation rows reach the target?"""
        if self.target == "baseline":
            return False
        is_more = METRICS[self.metric].direction == "max"
        return value >= self.target if is_more else value <= self.target

    def best(self, scored: Sequence[TimedScore]) -> TimedScore:
        """The best validation, the first among ties."""
        sign = 1 if METRICS[self.metric].direction == "max" else -1
        return max(scored, key=lambda one: sign * one.value)


def view_reaching(contents: Contents) -> tuple[Figure, ...]:
    """The figure; empty without validations of the contract's metric."""
    for wish in _wishes(contents.plan):
        scored = time_validations(contents.events, f"val_{wish.metric}")
        if scored:
            return (_figure(wish, scored),)
    return ()


def time_validations(events: Events, metric: str) -> list[TimedScore]:
    """Validations with the elapsed training seconds, including validations and checkpoints.

    The clock of a resumed run continues from its checkpoint, so repeated work counts once. A clock
    that was set back stands still.
    """
    found: list[TimedScore] = []
    at_checkpoint: dict[str, float] = {}
    clock, last = 0.0, math.nan
    for event in events:
        now = _moment(event)
        if not math.isfinite(now):
            continue
        match event.get("event"):
            case "resumed":
                clock = at_checkpoint.get(str(event.get("checkpoint")), clock)
                found = [one for one in found if one.step <= _step(event)]
            case _:
                begun = now - _seconds(event) if math.isnan(last) else last
                clock += max(0.0, now - begun)
        last = now
        if event.get("event") == "saved":
            at_checkpoint[str(event.get("checkpoint"))] = clock
        value = _value(event, metric)
        if math.isfinite(value):
            found.append(TimedScore(clock, _step(event), value))
    return found


def _figure(wish: Wish, scored: Sequence[TimedScore]) -> Figure:
    size, unit = next((size, unit) for least, size, unit in _UNITS if scored[-1].seconds >= least)
    reached = next((one for one in scored if wish.is_met_by(one.value)), None)

    def draw(axes: Axes) -> None:
        along = [one.seconds / size for one in scored]
        values = [one.value for one in scored]
        axes.plot(along, values, color=SERIES[1], marker="o", markersize=3)
        if wish.target != "baseline":
            axes.axhline(wish.target, color=MUTED, linestyle="--", linewidth=1)
        if reached is not None:
            axes.plot(
                reached.seconds / size, reached.value, color=SERIES[0], marker="o", markersize=7
            )
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{unit} of training")
        axes.set_ylabel("on validation rows")

    return Figure(
        clean(f"Time to {wish.metric}", 80),
        clean(f"{wish.metric} on the validation rows over training time", 120),
        draw_svg(Panel("reaching", draw, 2.7)),
        _caption(wish, scored, reached),
    )


def _caption(wish: Wish, scored: Sequence[TimedScore], reached: TimedScore | None) -> str:
    if reached is not None:
        return (
            f"The target {wish.target:g} (dashed) was first reached on the validation rows after "
            f"{show_seconds(reached.seconds)} of training, at step {reached.step:,}."
        )
    best = wish.best(scored)
    told = f"best {show_value(best.value)} after {show_seconds(best.seconds)} of training."
    if wish.target == "baseline":
        return f"{told[0].upper()}{told[1:]}"
    return f"The target {wish.target:g} (dashed) was not reached on the validation rows; {told}"


def _wishes(plan: Mapping[str, Json]) -> list[Wish]:
    """Targets of the plan's contract; empty without a readable plan."""
    contract = plan.get("contract")
    metric = contract.get("metric") if isinstance(contract, dict) else None
    if not isinstance(metric, dict) or metric.get("name") not in METRICS:
        return []
    target = _number(metric.get("target"), math.nan)
    return [Wish(metric["name"], target if math.isfinite(target) else "baseline")]


def _moment(event: Mapping[str, Json]) -> float:
    try:
        return datetime.fromisoformat(str(event.get("time", ""))).timestamp()
    except ValueError:
        return math.nan


def _seconds(event: Mapping[str, Json]) -> float:
    """Duration; the event's time is its end."""
    return _number(event.get("seconds"), 0.0)


def _step(event: Mapping[str, Json]) -> int:
    step = _number(event.get("step"), 0.0)
    return int(step) if math.isfinite(step) else 0


def _value(event: Mapping[str, Json], metric: str) -> float:
    values = event.get("values")
    if event.get("event") != "validated" or not isinstance(values, dict):
        return math.nan
    return _number(values.get(metric), math.nan)


def _number(value: Json, otherwise: float) -> float:
    try:
        return number_from_json(value)
    except ValueError:
        return otherwise
