"""Figures of step windows: layer norms, throughput and network inspection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from trainwright.data.base.inputs import Floats
from trainwright.report.figures.svg_figure import DASHES, SERIES, Figure, Key, Panel, draw_svg
from trainwright.report.format import clean, show_value
from trainwright.tracking.telemetry_file import WindowLine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LINES = 10
_MOST_ROWS = 40
_HEIGHT_INCHES = 2.7
_LEAST_SHARE = 0.005
"""Minimum value for a heat map to show anything."""

_OF_GROUPS = (
    ("update_ratio", "Update over weights", "Norm of the update over that of the weights."),
    ("weight_norm", "Norm of the weights", "After the measured step."),
    ("gradient_norm", "Gradient norm by layer group", "Of the measured step, before clipping."),
    ("dead_share", "Dead units", "Share of the worst layer of each group, without gradient."),
)
_INSPECTED = (
    (
        "silent_share",
        "Silent units",
        "Share of units not activated by any row of the inspected step.",
    ),
    ("activation_zeros", "Zeros in activations", "Share of exact zeros."),
    ("attention_entropy", "Attention entropy", "1 is uniform attention, 0 a single position."),
)

Lines = Mapping[str, tuple[Floats, Floats]]
"""Steps and values by layer group, in network order."""


def draw_windows(windows: Sequence[WindowLine]) -> list[Figure]:
    """All figures with data."""
    figures = []
    for what, title, caption in _OF_GROUPS:
        lines = _by_place(windows, what)
        if lines and any(values.any() for _, values in lines.values()):
            figures.append(_lines(what, title, caption, lines))
    figures += _rates(windows)
    for what, title, caption in _INSPECTED:
        lines = _by_place(windows, what)
        if any((values >= _LEAST_SHARE).any() for _, values in lines.values()):
            figures.append(_heat(what, title, caption, lines))
    return figures


def _by_place(windows: Sequence[WindowLine], what: str) -> Lines:
    found: dict[str, list[tuple[float, float]]] = {}
    for window in windows:
        for name, value in window.numbers.items():
            kind, _, place = name.partition("/")
            if kind == what:
                found.setdefault(place, []).append((window.step, value))
    arrays = {place: np.array(points) for place, points in found.items()}
    return {place: (points[:, 0], points[:, 1]) for place, points in arrays.items()}


def _spread(lines: Lines, most: int) -> Lines:
    """An even selection of at most `most` groups."""
    names = list(lines)
    chosen = sorted({round(at) for at in np.linspace(0, len(names) - 1, min(most, len(names)))})
    return {names[at]: lines[names[at]] for at in chosen}


def _lines(what: str, title: str, caption: str, lines: Lines) -> Figure:
    shown = _spread(lines, _MOST_LINES)
    if len(shown) < len(lines):
        caption += f" {len(shown)} of {len(lines)} groups, from the first to the last."

    def draw(axes: Axes) -> None:
        for number, (steps, values) in enumerate(shown.values()):
            dash = DASHES[number // 5]
            (line,) = axes.plot(steps, values, color=SERIES[number], linestyle=dash, linewidth=1.4)
            line.set_marker(_marker(steps))
        if what in ("update_ratio", "gradient_norm"):
            _make_logarithmic(axes, [values for _, values in shown.values()])
        axes.set_xlabel("step")
        axes.set_ylabel(title.lower())

    keys = tuple(Key(number, clean(name, 40)) for number, name in enumerate(shown))
    return Figure(title, f"{title} over steps", _svg(what, draw), caption, keys)


def _rates(windows: Sequence[WindowLine]) -> list[Figure]:
    names = [name for window in windows for name in window.numbers]
    figures = []
    units = {"tokens_per_second": "Tokens a second", "rows_per_second": "Rows a second"}
    rate = next((name for name in units if name in names), "")
    if rate:
        figures.append(_line(rate, units[rate], "Without validations and checkpoints.", windows))
    if "mfu_measured" in names:
        last = windows[-1].numbers
        peak = show_value(last.get("peak_flops_measured", 0.0) / 1e12)
        caption = f"Of {peak} TFLOP/s, the measured matrix product peak of this device"
        if "mfu_vendor" in last:
            vendor = show_value(last["peak_flops_vendor"] / 1e12)
            caption += f"; of the {vendor} in its data sheet {last['mfu_vendor']:.1%} at the end"
        title = "Model FLOP utilisation"
        figures.append(_line("mfu_measured", title, f"{caption}.", windows))
    return figures


def _marker(steps: Floats) -> str:
    """A marker, since a line of one point is invisible."""
    return "o" if len(steps) == 1 else ""


def _line(what: str, title: str, caption: str, windows: Sequence[WindowLine]) -> Figure:
    points = [(window.step, window.numbers[what]) for window in windows if what in window.numbers]
    steps, values = np.array(points).T

    def draw(axes: Axes) -> None:
        axes.plot(steps, values, color=SERIES[0], linewidth=1.4, marker=_marker(steps))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("step")
        axes.set_ylabel(title.lower())

    return Figure(title, f"{title} over steps", _svg(what, draw), caption)


def _heat(what: str, title: str, caption: str, lines: Lines) -> Figure:
    shown = _spread(lines, _MOST_ROWS)
    columns = max(len(steps) for steps, _ in shown.values())
    shares = np.full((len(shown), columns), np.nan)
    for row, (_, values) in enumerate(shown.values()):
        shares[row, : len(values)] = values
    steps = next(iter(shown.values()))[0]

    def draw(axes: Axes) -> None:
        axes.imshow(
            shares,
            aspect="auto",
            interpolation="nearest",
            cmap="Blues",
            vmin=0,
            vmax=1,
            extent=(0.5, columns + 0.5, len(shown) + 0.5, 0.5),
        )
        axes.grid(visible=False)
        axes.set_xlabel("inspected step")
        axes.set_ylabel("module")
        at = sorted({1, (columns + 1) // 2, columns})
        axes.set_xticks(at, [f"{steps[min(one, len(steps)) - 1]:g}" for one in at])
        every = 1 + len(shown) // 12
        axes.set_yticks(range(1, len(shown) + 1, every))

    names = ", ".join(f"{row} {name}" for row, name in enumerate(shown, start=1))
    height = max(_HEIGHT_INCHES, 0.16 * len(shown) + 0.8)
    svg = draw_svg(Panel(f"window-{what}", draw, height))
    words = f"{caption} White is 0, dark is 1. {clean(names, 600)}."
    return Figure(title, f"{title} by module over steps", svg, words)


def _make_logarithmic(axes: Axes, values: Sequence[Floats]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    together = np.concatenate(values)
    positive = together[np.isfinite(together) & (together > 0)]
    if len(positive):
        axes.set_yscale("log")
        # matplotlib writes powers of ten as formulas, which no figure of a page reads.
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _svg(what: str, draw: Callable[[Axes], None]) -> Markup:
    return draw_svg(Panel(f"window-{what}", draw, _HEIGHT_INCHES))
