"""Comparison page of runs: metrics, curves, settings, time and price."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainwright.core.files import Json, write_text
from trainwright.core.formatting import show_price, show_seconds
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.report.figures.svg_figure import SERIES, Figure, Key, Panel, draw_svg
from trainwright.report.figures.training_figures import Point, read_validated, smoothed_points
from trainwright.report.format import clean, show_change, show_range, show_value
from trainwright.report.load_run import Contents, read_contents
from trainwright.report.page import page_environment
from trainwright.run.after.compare_runs import Comparison
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEMPLATE = "comparison.html.jinja"


def write_comparison(compared: Comparison, folders: Sequence[RunFolder], output: Path) -> Path:
    """Write the page and return its path.

    Raises:
        StorageFailed: it cannot be written; an older page is kept.
    """
    contents = [read_contents(folder) for folder in folders[: len(SERIES)]]
    template = page_environment().get_template(_TEMPLATE)
    write_text(
        output,
        template.render(
            names=[row.summary.name for row in compared.runs],
            facts=_facts(compared),
            metrics=_metrics(compared),
            unpaired=sorted(compared.unpaired.items()),
            confidence=f"{compared.confidence:.0%}",
            figures=_figures(contents),
            settings=[
                (path, [clean(_text(value), 80) for value in values])
                for path, values in compared.settings.items()
            ],
        ),
    )
    return output


def _facts(compared: Comparison) -> list[tuple[str, list[str]]]:
    rows = compared.runs
    facts = [
        ("Verdict", [row.summary.verdict for row in rows]),
        ("Model", [row.model for row in rows]),
        ("Time", [show_seconds(row.seconds) for row in rows]),
        ("Price", [show_price(row.price) for row in rows]),
    ]
    return [(name, values) for name, values in facts if any(values)]


def _metrics(compared: Comparison) -> list[tuple[str, list[str], list[str]]]:
    """Each metric with the value of every run and the differences to the first."""
    others = [row.summary.name for row in compared.runs[1:]]
    return [
        (
            metric,
            [_with_bounds(one) for one in values],
            [_difference(compared.gains.get(name, {}).get(metric)) for name in others],
        )
        for metric, values in compared.metrics.items()
    ]


def _with_bounds(one: Interval) -> str:
    return f"{show_value(one.value)} ({show_range(one)})" if one.given else show_value(one.value)


def _difference(gain: Interval | None) -> str:
    if gain is None or not np.isfinite(gain.value):
        return ""
    bounds = f" ({show_change(gain.low)} to {show_change(gain.high)})" if gain.given else ""
    return f"{show_change(gain.value)}{bounds}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else str(value)


def _figures(contents: Sequence[Contents]) -> list[Figure]:
    """Figures of the training loss and of each validation metric."""
    losses = [_loss(one) for one in contents]
    validated = [read_validated(one.events) for one in contents]
    metrics = dict.fromkeys(name for one in validated for name in one if "/" not in name)
    figures = [_overlay("Training loss", "loss", contents, losses, marked=False)]
    figures += [
        _overlay(
            f"Validation: {metric}",
            f"validation-{number}",
            contents,
            [one.get(metric, ()) for one in validated],
            marked=True,
        )
        for number, metric in enumerate(metrics)
    ]
    trees = [[(one[0], one[2]) for tree in each.trees for one in tree.curve] for each in contents]
    figures.append(_overlay("Boosting: validation rows", "trees", contents, trees, marked=False))
    return [figure for found in figures for figure in found]


def _loss(contents: Contents) -> Sequence[Point]:
    loss = np.array(contents.signals.get("loss", ()), dtype=np.float64)
    if not len(loss):
        return ()
    return smoothed_points(np.array(contents.signals["step"], dtype=np.float64), loss)


def _overlay(
    title: str,
    name: str,
    contents: Sequence[Contents],
    series: Sequence[Sequence[Point]],
    *,
    marked: bool,
) -> list[Figure]:
    """One line per run; None if no run has a point."""
    present = [(number, points) for number, points in enumerate(series) if len(points)]
    if not present:
        return []

    def draw(axes: Axes) -> None:
        for number, points in present:
            along = np.array(sorted(points), dtype=np.float64)
            marker = "o" if marked else ""
            axes.plot(along[:, 0], along[:, 1], color=SERIES[number], marker=marker, ms=3)
        axes.set_xlabel("trees" if name == "trees" else "step")
        axes.set_ylabel("value" if name == "trees" else title.lower())

    label = clean(f"{title} of {len(present)} runs", 120)
    keys = tuple(Key(number, clean(contents[number].name, 40)) for number, _ in present)
    return [Figure(clean(title, 80), label, draw_svg(Panel(name, draw)), "", keys)]
