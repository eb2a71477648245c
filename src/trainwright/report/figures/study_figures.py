"""Figures of a search: its history, its trials as lines through all paths, and slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainwright.contract.sections.run_settings import Value
from trainwright.data.base.inputs import Floats
from trainwright.report.figures.svg_figure import (
    INK,
    LINE,
    MUTED,
    SERIES,
    Figure,
    Key,
    Panel,
    draw_svg,
)
from trainwright.report.format import clean, count_text, show_value
from trainwright.tune.read_study import StoredStudy
from trainwright.tune.space import Axis
from trainwright.tune.study import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SLICES = 12
_MOST_LINES = 200
_LABEL_ROOM = 24


def draw_study(study: StoredStudy) -> tuple[Figure, ...]:
    """All figures; none before two trials have values."""
    valued = [trial for trial in study.trials if trial.outcome.value is not None]
    if len(study.complete) < 2:
        return ()
    axes = study.space.axes[:_MOST_SLICES]
    figures = [_history(study, valued)]
    if len(axes) > 1:
        figures += _parallel(study, axes)
    return (*figures, *(figure for axis in axes for figure in _slice(study, axis)))


def _history(study: StoredStudy, valued: Sequence[Trial]) -> Figure:
    complete = study.complete
    best = np.maximum if study.direction == "max" else np.minimum
    pruned = [trial for trial in valued if trial.outcome.state == "pruned"]

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        numbers, values = _numbers(complete), _values(complete)
        ends = np.append(numbers, study.trials[-1].number)
        reached = best.accumulate(values)
        axes.step(ends, np.append(reached, reached[-1]), where="post", color=SERIES[1])
        axes.plot(numbers, values, "o", color=SERIES[0], ms=4)
        axes.plot(_numbers(pruned), _values(pruned), "x", color=MUTED, ms=4)
        if not complete[0].number:
            axes.axhline(values[0], color=MUTED, linestyle="--", linewidth=1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("trial")
        axes.set_ylabel("value")

    written = " The dashed line is the contract as written." if not complete[0].number else ""
    crosses = f" Crosses: {count_text(len(pruned), 'pruned trial', 'pruned trials')}."
    return Figure(
        "History",
        f"{study.metric} of each trial, and the best so far",
        draw_svg(Panel("history", draw)),
        f"{clean(study.metric)} of each trial.{written}{crosses if pruned else ''}",
        (Key(0, "a trial"), Key(1, "best so far")),
    )


def _parallel(study: StoredStudy, axes: Sequence[Axis]) -> list[Figure]:
    """A line for each trial that has all paths, from its values to the metric."""
    trials = [
        trial
        for trial in study.complete[-_MOST_LINES:]
        if all(axis.path in trial.params for axis in axes if not axis.section.only_with)
    ]
    if len(trials) < 2:
        return []
    sign = 1 if study.direction == "max" else -1
    ordered = sorted(trials, key=lambda trial: sign * (trial.outcome.value or 0.0))
    values = _values(ordered)
    spread = float(np.ptp(values)) or 1.0
    lines = np.column_stack(
        [
            [[_height(axis, trial.params.get(axis.path)) for axis in axes] for trial in ordered],
            (values - values.min()) / spread,
        ]
    )
    top = max(1, math.ceil(len(ordered) / 10))

    def draw(panel: Axes) -> None:
        along = np.arange(lines.shape[1])
        panel.vlines(along, 0, 1, color=MUTED, linewidth=0.8)
        for at, line in enumerate(lines):
            # A path that a trial does not have is passed over.
            present = np.isfinite(line)
            color, alpha, width = (0, 0.35, 1.0) if at < len(lines) - top else (1, 1.0, 1.7)
            heights = line[present]
            panel.plot(along[present], heights, color=SERIES[color], alpha=alpha, linewidth=width)
        panel.set_xticks(along, [*(str(at + 1) for at in range(len(axes))), "value"])
        panel.set_yticks([0, 1], ["low", "high"])
        panel.grid(visible=False)
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.tick_params(length=0)

    names = "; ".join(
        f"{at} {clean(axis.path, 80)}: {clean(show_values(axis), 120)}"
        for at, axis in enumerate(axes, 1)
    )
    best = "the best trial" if top == 1 else f"the best {top} trials"
    return [
        Figure(
            "Parallel coordinates",
            "A line for each trial through the values that it tried, to the value that it reached",
            draw_svg(Panel("parallel", draw)),
            f"{names}; value {show_value(values.min())} to {show_value(values.max())}.",
            (Key(0, "a trial"), Key(1, best)),
        )
    ]


def _height(axis: Axis, value: Value | None) -> float:
    """Position of a value on its axis, 0 to 1; nan without one."""
    if value is None:
        return math.nan
    if axis.section.values:
        return axis.section.values.index(value) / max(1, len(axis.section.values) - 1)
    low, high = axis.section.bounds
    scale: Callable[[float], float] = math.log if axis.section.scale == "log" else float
    return (scale(float(value)) - scale(low)) / ((scale(high) - scale(low)) or 1.0)


def show_values(axis: Axis) -> str:
    """`4 to 64, log`."""
    if axis.section.values:
        return ", ".join(map(show_tried, axis.section.values))
    low, high = axis.section.bounds
    return f"{show_tried(low)} to {show_tried(high)}{', log' * (axis.section.scale == 'log')}"


def _slice(study: StoredStudy, axis: Axis) -> list[Figure]:
    """The metric over the values of a path."""
    trials = [trial for trial in study.complete if axis.path in trial.params]
    if len(trials) < 2:
        return []
    tried = [trial.params[axis.path] for trial in trials]
    options = axis.section.values
    along = [options.index(value) + 1 if options else float(value) for value in tried]
    numeric = all(isinstance(option, int | float) for option in options)
    written = [at for at, trial in enumerate(trials) if not trial.number]

    def draw(axes: Axes) -> None:
        values = _values(trials)
        axes.plot(along, values, "o", color=SERIES[0], ms=4, alpha=0.8)
        for at in written:
            axes.plot(along[at], values[at], "o", ms=9, mfc="none", mec=INK, mew=1.1)
        if options:
            ticks = range(1, len(options) + 1)
            # Names stay out of the drawing: the caption lists them by number.
            labels = [
                show_tried(option) if numeric else str(at)
                for at, option in zip(ticks, options, strict=True)
            ]
            axes.set_xticks(list(ticks), labels)
            axes.set_xlim(0.5, len(options) + 0.5)
        elif axis.section.scale == "log":
            _make_logarithmic(axes, axis)
        axes.set_ylabel("value")
        axes.grid(color=LINE)

    named = ", ".join(
        f"{at} {clean(show_tried(option), _LABEL_ROOM)}" for at, option in enumerate(options, 1)
    )
    ring = "The ring is the contract as written." if written else ""
    number = [each.path for each in study.space.axes].index(axis.path)
    return [
        Figure(
            clean(axis.path, 60),
            f"{study.metric} over the values of {clean(axis.path, 60)}",
            draw_svg(Panel(f"slice-{number}", draw, 2.4)),
            f"{'' if numeric else f'{named}. '}{ring}",
        )
    ]


def _make_logarithmic(axes: Axes, axis: Axis) -> None:
    """Ticks at 1, 2 and 5 of each power of ten, of wide intervals at the powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.section.bounds
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    # matplotlib writes powers of ten as math text, which the page does not support.
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def show_tried(value: Value) -> str:
    """A tried value; of numbers four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _numbers(trials: Sequence[Trial]) -> Floats:
    return np.array([trial.number for trial in trials], np.float64)


def _values(trials: Sequence[Trial]) -> Floats:
    return np.array([trial.outcome.value for trial in trials], np.float64)
