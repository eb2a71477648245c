"""Training figures: loss, learning rate, gradient norm, validations and trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from markupsafe import Markup

from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats
from trainwright.report.figures.svg_figure import (
    DASHES,
    MUTED,
    SERIES,
    Figure,
    Key,
    Panel,
    draw_svg,
)
from trainwright.report.figures.time_to_target import view_reaching
from trainwright.report.figures.window_figures import draw_windows
from trainwright.report.format import clean, show_value, show_when
from trainwright.report.load_run import Contents, Trees
from trainwright.tracking.events import number_from_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 600
_MOST_VALIDATED = 4
_SMOOTHING_PARTS = 40
_WIDE = 30.0
"""Minimum ratio of largest to smallest value for a logarithmic axis."""


Point = tuple[float, float]
"""A step and a value."""


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """A named series; the name is empty if the title suffices."""

    name: str
    points: Sequence[Point]


@final
@dataclass(frozen=True, slots=True)
class Happening:
    """An event listed with the curves."""

    step: str
    what: str
    time: str


@final
@dataclass(frozen=True, slots=True)
class TrainingView:
    """Training curves and interruptions."""

    figures: tuple[Figure, ...]
    happenings: tuple[Happening, ...]
    dropped: int


def view_training(contents: Contents) -> TrainingView:
    """All curves with data."""
    resumed = [_step(event) for event in contents.events if event.get("event") == "resumed"]
    signals = {name: np.array(values) for name, values in contents.signals.items()}
    steps = signals.get("step", np.empty(0))
    figures: list[Figure] = []
    validated = read_validated(contents.events)
    if len(steps):
        points = validated.pop("val_loss", ())
        figures.append(_loss(steps, signals["loss"], resumed, points, kept_step(contents)))
    figures += view_reaching(contents)
    figures += _validations(validated, resumed)
    if len(steps):
        figures.append(_plain("rate", "Learning rate", steps, signals["learning_rate"], resumed))
        figures.append(_plain("norm", "Gradient norm", steps, signals["gradient_norm"], resumed))
    figures += draw_windows(contents.windows)
    figures += [_trees(trees) for trees in contents.trees if trees.curve]
    dropped = sum(event.get("event") == "step_dropped" for event in contents.events)
    return TrainingView(tuple(figures), _happenings(contents.events), dropped)


def smoothed_points(steps: Floats, values: Floats) -> Sequence[Point]:
    """A signal smoothed over a fortieth of its length, as at most 1,200 points."""
    every = max(1, len(steps) // _MOST_POINTS)
    smoothed = smooth(values, len(values) / _SMOOTHING_PARTS)
    return list(zip(steps[::every].tolist(), smoothed[::every].tolist(), strict=True))


def smooth(values: Floats, span: float) -> Floats:
    """Exponential moving average [N] whose weights fall by 1/e over `span` values; non-finite
    values are skipped. Bias-corrected (Kingma and Ba 2015, section 3)."""
    keep = math.exp(-1.0 / max(span, 1e-9))
    total = weight = 0.0
    smoothed = np.empty(len(values))
    for position, value in enumerate(values):
        if math.isfinite(value):
            total = keep * total + (1 - keep) * value
            weight = keep * weight + (1 - keep)
        smoothed[position] = total / weight if weight else math.nan
    return smoothed


def _step(event: Mapping[str, Json]) -> float:
    step = event.get("step", math.nan)
    return float(step) if isinstance(step, int | float) else math.nan


def _mark(axes: Axes, resumed: Sequence[float]) -> None:
    for step in resumed:
        if math.isfinite(step):
            axes.axvline(step, color=MUTED, linestyle="--", linewidth=1)


def _set_scale(axes: Axes, values: Floats) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    finite = values[np.isfinite(values)]
    if len(finite) and finite.min() > 0 and finite.max() / finite.min() > _WIDE:
        axes.set_yscale("log")
        # matplotlib writes powers of ten as math text, which the page does not support.
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _drop_inputs(steps: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Steps, minimum and maximum of at most `_MOST_POINTS` windows of equal length."""
    finite = np.isfinite(values)
    steps, values = steps[finite], values[finite]
    if not len(steps):
        return steps, values, values
    starts = np.unique(np.linspace(0, len(steps), _MOST_POINTS, endpoint=False).astype(np.int64))
    low = np.minimum.reduceat(values, starts)
    return steps[starts], low, np.maximum.reduceat(values, starts)


def kept_step(contents: Contents) -> float:
    """Step of the best validation if its weights are the model; otherwise nan."""
    ending = contents.record.get("ending")
    step = ending.get("kept_step", 0) if isinstance(ending, dict) else 0
    return float(step) if isinstance(step, int) and step else math.nan


def _loss(
    steps: Floats,
    loss: Floats,
    resumed: Sequence[float],
    validated: Sequence[Point],
    kept: float,
) -> Figure:
    """Training and validation loss in one figure."""
    smoothed = np.array(smoothed_points(steps, loss))
    at, low, high = _drop_inputs(steps, loss)
    along = np.array(sorted(validated)).reshape(-1, 2)

    def draw(axes: Axes) -> None:
        axes.fill_between(at, low, high, color=SERIES[0], alpha=0.3, linewidth=0.8)
        axes.plot(smoothed[:, 0], smoothed[:, 1], color=SERIES[0])
        axes.plot(along[:, 0], along[:, 1], color=SERIES[1], marker="o", markersize=3)
        _set_scale(axes, np.concatenate([smoothed[:, 1], along[:, 1]]))
        _mark(axes, resumed)
        if math.isfinite(kept):
            axes.axvline(kept, color=MUTED, linestyle=":", linewidth=1.2)
        axes.set_xlabel("step")
        axes.set_ylabel("loss")

    lost = int((~np.isfinite(loss)).sum())
    caption = f"{len(steps):,} steps: as measured (pale) and smoothed."
    if lost:
        caption += f" {lost:,} non-finite values are omitted."
    if math.isfinite(kept):
        caption += f" The dotted line: step {kept:,.0f}, whose weights were kept."
    if not len(along):
        return Figure("Training loss", "Training loss over steps", _svg("loss", draw), caption)
    caption += (
        f" {len(along):,} validations, the last at {show_value(float(along[-1, 1]))}; without "
        "dropout and augmentation, so that the validation loss may be the lower one."
    )
    return Figure(
        "Training and validation loss",
        "Training and validation loss over steps",
        _svg("loss", draw),
        caption,
        (Key(0, "training rows"), Key(1, "validation rows")),
    )


def _plain(
    name: str, title: str, steps: Floats, values: Floats, resumed: Sequence[float]
) -> Figure:
    at, low, high = _drop_inputs(steps, values)

    def draw(axes: Axes) -> None:
        axes.fill_between(at, low, high, color=SERIES[0], alpha=0.35, linewidth=0)
        axes.plot(at, high, color=SERIES[0], linewidth=1.2)
        if name == "norm":
            _set_scale(axes, values)
        _mark(axes, resumed)
        axes.set_xlabel("step")
        axes.set_ylabel(title.lower())

    caption = "Before clipping." if name == "norm" else ""
    return Figure(title, f"{title} over steps", _svg(name, draw), caption)


def read_validated(events: Sequence[Mapping[str, Json]]) -> dict[str, list[Point]]:
    """(step, value) of each validation, by metric."""
    series: dict[str, list[Point]] = {}
    for event in events:
        values = event.get("values")
        if event.get("event") != "validated" or not isinstance(values, dict):
            continue
        for metric, value in values.items():
            try:
                series.setdefault(str(metric), []).append((_step(event), number_from_json(value)))
            except ValueError:
                continue
    return series


def _validations(series: Mapping[str, Sequence[Point]], resumed: Sequence[float]) -> list[Figure]:
    """One figure per metric and one for its slices."""
    whole = [(name, points) for name, points in series.items() if "/" not in name]
    figures = [
        _validation(number, metric, (Curve("", points),), resumed)
        for number, (metric, points) in enumerate(whole[:_MOST_VALIDATED])
    ]
    slices: dict[str, list[Curve]] = {}
    for name, points in series.items():
        metric, found, part = name.partition("/")
        if found:
            slices.setdefault(metric, []).append(Curve(part, points))
    for number, (metric, curves) in enumerate(slices.items(), start=_MOST_VALIDATED):
        figures.append(_validation(number, f"{metric} by slice", curves[: len(SERIES)], resumed))
    return figures


def _validation(
    number: int, metric: str, curves: Sequence[Curve], resumed: Sequence[float]
) -> Figure:
    first = 0 if len(curves) > 1 else 1

    def draw(axes: Axes) -> None:
        for series, curve in enumerate(curves, start=first):
            along = np.array(sorted(curve.points))
            dash = DASHES[series // 5]
            axes.plot(along[:, 0], along[:, 1], dash, color=SERIES[series], marker="o", ms=3)
        _mark(axes, resumed)
        axes.set_xlabel("step")
        axes.set_ylabel("on validation rows")

    last = max(curves[0].points)[1]
    caption = f"{len(curves[0].points):,} validations"
    keys = tuple(Key(series, clean(one.name, 40)) for series, one in enumerate(curves, first))
    return Figure(
        clean(f"Validation: {metric}", 80),
        clean(f"{metric} on the validation rows over steps", 120),
        _svg(f"validation-{number}", draw),
        f"{caption}." if curves[0].name else f"{caption}, the last at {show_value(last)}.",
        keys if curves[0].name else (),
    )


def _trees(trees: Trees) -> Figure:
    curve = np.array(trees.curve, dtype=np.float64)

    def draw(axes: Axes) -> None:
        axes.plot(curve[:, 0], curve[:, 1], color=SERIES[0])
        axes.plot(curve[:, 0], curve[:, 2], color=SERIES[1])
        for kept in sorted({*trees.kept}):
            axes.axvline(kept, color=MUTED, linestyle=":", linewidth=1.2)
        axes.set_xlabel("trees")
        axes.set_ylabel("value")

    return Figure(
        clean(f"Boosting: {trees.metric}", 80),
        clean(f"{trees.metric} on training and validation rows over trees", 120),
        _svg("trees", draw),
        "Training ends when the validation score stops improving." + _kept(trees.kept),
        (Key(0, "training rows"), Key(1, "validation rows")),
    )


def _kept(trees: Sequence[int]) -> str:
    if not trees:
        return ""
    if len(trees) == 1:
        return f" The dotted line: the {trees[0]:,} trees kept."
    listed = f"{', '.join(f'{one:,}' for one in trees[:-1])} and {trees[-1]:,}"
    return f" The dotted lines: the {listed} trees kept of each quantile or target."


def _svg(name: str, draw: Callable[[Axes], None]) -> Markup:
    return draw_svg(Panel(name, draw, 2.7))


def _happenings(events: Sequence[Mapping[str, Json]]) -> tuple[Happening, ...]:
    told = [
        (event, _told(event) + _made_again(event, events[:number]))
        for number, event in enumerate(events)
    ]
    return tuple(
        Happening(_shown_step(event), words, show_when(str(event.get("time", ""))))
        for event, words in told
        if words
    )


def _shown_step(event: Mapping[str, Json]) -> str:
    """Step of an event; for a note, from its numbers."""
    numbers = event.get("numbers")
    step = event.get("step", numbers.get("step", "") if isinstance(numbers, dict) else "")
    return f"{step:.0f}" if isinstance(step, float) else str(step)


def _made_again(event: Mapping[str, Json], before: Sequence[Mapping[str, Json]]) -> str:
    """Steps lost to an interruption, which the resumed run repeats."""
    cuts = [one.get("numbers") for one in before if one.get("kind") == "cut"]
    if event.get("event") != "resumed" or not cuts or not isinstance(cuts[-1], dict):
        return ""
    lost = max(0.0, number_from_json(cuts[-1].get("step", 0)) - _step(event))
    return f"; repeated steps: {lost:,.0f}"


def _told(event: Mapping[str, Json]) -> str:
    match event.get("event"):
        case "resumed":
            rejected = event.get("rejected") or []
            words = f"resumed from {event.get('checkpoint', '')}"
            return (
                f"{words}; damaged and skipped: {', '.join(map(str, rejected))}"
                if rejected
                else words
            )
        case "rolled_back":
            return f"rolled back from step {event.get('from_step', '')}: {event.get('why', '')}"
        case "ended":
            return f"ended ({event.get('kind', '')}): {event.get('reason', '')}"
        case "noted":
            return f"{event.get('kind', '')}: {event.get('message', '')}"
        case _:
            return ""
