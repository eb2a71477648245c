"""Explanation section: importances with their intervals, and figures of partial dependence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from trainwright.evaluation.explanations.explanation import Explanation, PartialDependence
from trainwright.report.figures.bars import Bar, Scale, draw_bar, scale_of
from trainwright.report.figures.svg_figure import SERIES, Figure, Key, Panel, draw_svg
from trainwright.report.format import clean, count_text, show_change, show_range, show_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COLUMNS = 40
_LABEL_ROOM = 18


@final
@dataclass(frozen=True, slots=True)
class ImportanceRow:
    """One column: its loss with interval, and its mean absolute SHAP value."""

    name: str
    value: str
    range: str
    bar: Bar
    contribution: str
    includes_zero: bool


@final
@dataclass(frozen=True, slots=True)
class ExplanationView:
    """View of `explanation.json`."""

    sentence: str
    confidence: str
    rows: tuple[ImportanceRow, ...]
    has_contributions: bool
    more: int
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]


def view_explanation(found: Explanation) -> ExplanationView:
    """The table, most important column first, and the figures."""
    shown = found.importances[:_MOST_COLUMNS]
    scale = scale_of([one.loss for one in shown], [0.0])
    rows = count_text(found.rows, "row", "rows")
    units = f", {found.units:,} independent units" if found.units != found.rows else ""
    return ExplanationView(
        sentence=f"What {found.metric} ({show_value(found.value)}) loses when the values of a "
        f"column are permuted among {rows} of the {found.part} part{units}, a mean of "
        f"{count_text(found.repeats, 'permutation', 'permutations')}. A column that others can "
        "stand in for loses little.",
        confidence=f"{found.confidence * 100:g}%",
        rows=tuple(
            ImportanceRow(
                name=one.column,
                value=show_change(one.loss.value),
                range=show_range(one.loss),
                bar=draw_bar(one.loss, 0.0, scale),
                contribution=show_value(one.mean_contribution),
                includes_zero=one.includes_zero,
            )
            for one in shown
        ),
        has_contributions=any(math.isfinite(one.mean_contribution) for one in shown),
        more=len(found.importances) - len(shown),
        notes=found.notes,
        figures=tuple(
            _dependence(at, one, _common_range(found.dependences))
            for at, one in enumerate(found.dependences)
        ),
    )


def _common_range(found: Sequence[PartialDependence]) -> Scale:
    """One scale for all figures, so that a flat line looks flat."""
    return Scale.over(mean for one in found for row in one.means for mean in row)


def _dependence(number: int, found: PartialDependence, scale: Scale) -> Figure:
    positions: Sequence[float] = found.numbers or range(len(found.values))

    def draw(axes: Axes) -> None:
        for output in range(len(found.outputs)):
            means = [row[output] for row in found.means]
            line = "-" if found.numbers else ""
            axes.plot(positions, means, line, color=SERIES[output], marker="o", markersize=3.5)
        axes.set_ylim(scale.low, scale.high)
        axes.set_ylabel("mean prediction")
        if not found.numbers:
            # Names of the data stay out of the drawing: the caption lists them by number.
            axes.set_xticks(list(positions), [str(at + 1) for at in range(len(found.values))])
            axes.set_xlabel("value, as numbered below")
        else:
            axes.set_xlabel("value")

    named = ", ".join(f"{at} {clean(one, _LABEL_ROOM)}" for at, one in enumerate(found.values, 1))
    what = "at quantiles of the column" if found.numbers else named
    return Figure(
        title=clean(found.column, 60),
        label=f"Mean prediction over the values of {clean(found.column, 60)}",
        svg=draw_svg(Panel(f"dependence-{number}", draw, 2.6)),
        caption=f"{what}.",
        keys=tuple(Key(at, name) for at, name in enumerate(found.outputs)),
    )
