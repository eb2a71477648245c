"""Figures of a retrieval: recall by the number of candidates that are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainwright.evaluation.curves.plot_data import PassageCurves, RetrievalCurves
from trainwright.report.figures.svg_figure import DASHES, SERIES, Figure, Key, Panel, draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_retrieval_curves(curves: RetrievalCurves) -> tuple[Figure, ...]:
    """A figure for each direction."""
    there = _figure(
        "Texts found by images", "texts", curves.texts, curves.shown, curves.image_to_text
    )
    back = _figure(
        "Images found by texts", "images", curves.images, curves.shown, curves.text_to_image
    )
    return there, back


def draw_passage_curves(curves: PassageCurves) -> tuple[Figure, ...]:
    """The figure of the passages of queries."""
    title = "Passages found by queries"
    return (_figure(title, "passages", curves.passages, curves.shown, curves.recalls),)


def _figure(
    title: str,
    what: str,
    candidates: int,
    shown: tuple[int, ...],
    recalls: Mapping[str, tuple[float, ...]],
) -> Figure:
    def draw(axes: Axes) -> None:
        for number, values in enumerate(recalls.values()):
            color, dashes = SERIES[number % len(SERIES)], DASHES[number // len(SERIES)]
            axes.plot(shown, values, color=color, linestyle=dashes, marker="o", markersize=3)
        axes.set_xscale("log")
        axes.set_xticks(shown, [str(k) for k in shown])
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel(f"{what} shown")
        axes.set_ylabel("recall")

    return Figure(
        title,
        f"Recall by the number of {what} shown",
        draw_svg(Panel(f"{what}-recall", draw)),
        "Share of the right candidates of a query that are among the first ones, of "
        f"{candidates:,} {what}. The dummy is a random order.",
        tuple(Key(number, name) for number, name in enumerate(recalls)),
    )
