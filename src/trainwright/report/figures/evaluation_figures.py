"""Evaluation figures: ROC, precision-recall, calibration, residuals and forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

import numpy as np
import numpy.typing as npt

from trainwright.evaluation.curves.plot_data import (
    CalibrationBin,
    ClassCurve,
    ClassificationCurves,
    Curves,
    ForecastCurves,
    MarginCurves,
    NegativeLogLikelihoodCurves,
    PassageCurves,
    RankingCurves,
    RegressionCurves,
    RetrievalCurves,
    SeveralCurves,
)
from trainwright.report.figures.svg_figure import (
    DASHES,
    INK,
    LINE,
    MUTED,
    SERIES,
    Figure,
    Key,
    Panel,
    draw_svg,
)
from trainwright.report.format import clean, show_share, show_value
from trainwright.report.load_run import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CURVES = len(SERIES)
_MOST_FORECAST, _FEWEST_FORECAST = 300, 5
_HEAT = (0.23, 0.49, 0.85)


def draw_evaluation(curves: Curves, *, in_folds: bool = False) -> tuple[Figure, ...]:
    """All figures with data."""
    match curves:
        case ClassificationCurves():
            shown = curves.curves[:_MOST_CURVES]
            figures = []
            if shown:
                roc = _roc(shown, len(curves.labels), in_folds=in_folds)
                figures = [roc, _precision(shown, in_folds=in_folds)]
            if curves.calibration:
                figures.append(_calibration(curves.calibration, len(curves.labels) == 2))
            return tuple(figures)
        case RegressionCurves():
            figures = [_scatter(curves)] if curves.sample else []
            if sum(curves.residual_counts):
                figures.append(_residuals(curves))
            return tuple(figures)
        case MarginCurves():
            return (_margins(curves),)
        case NegativeLogLikelihoodCurves():
            return (_likelihood(curves),) if sum(curves.counts) else ()
        case RankingCurves():
            return (_queries(curves),) if sum(curves.counts) else ()
        case ForecastCurves():
            # Each is imported where a report needs it.
            from trainwright.report.figures.forecast_figures import draw_forecast_curves

            return draw_forecast_curves(curves)
        case PassageCurves():
            from trainwright.report.figures.retrieval_figures import draw_passage_curves

            return draw_passage_curves(curves)
        case RetrievalCurves():
            from trainwright.report.figures.retrieval_figures import draw_retrieval_curves

            return draw_retrieval_curves(curves)
        case SeveralCurves():
            each = zip(curves.names, curves.each, strict=True)
            return tuple(
                replace(one, title=f"{one.title}: {clean(name, 40)}")
                for name, of_one in each
                for one in draw_evaluation(of_one, in_folds=in_folds)
            )
        case _:
            assert_never(curves)


def draw_forecast(forecast: Forecast) -> tuple[Figure, ...]:
    """Truth and prediction over time; many rows are averaged in groups of equal size."""
    if len(forecast.time) < _FEWEST_FORECAST:
        return ()
    pieces = np.array_split(np.arange(len(forecast.time)), min(_MOST_FORECAST, len(forecast.time)))
    time = forecast.time[[piece[0] for piece in pieces]]
    true, predicted = (
        np.array([values[piece].mean() for piece in pieces])
        for values in (forecast.target, forecast.prediction)
    )

    def draw(axes: Axes) -> None:
        axes.plot(time, true, color=SERIES[0], linewidth=1.2)
        axes.plot(time, predicted, color=SERIES[1], linewidth=1.2)
        axes.set_xlabel("time")
        axes.set_ylabel("target")
        axes.tick_params(axis="x", labelrotation=20)

    rows = f"{len(forecast.time):,} test rows in time order"
    means = f", as means of {len(pieces):,} groups" if len(pieces) < len(forecast.time) else ""
    return (
        Figure(
            "Forecast over time",
            "True and predicted values of the test rows over time",
            draw_svg(Panel("forecast", draw)),
            f"{rows}{means}.",
            (Key(0, "true"), Key(1, "predicted")),
        ),
    )


def draw_heat(shares: np.ndarray) -> Figure:
    """Heat map of a large confusion matrix: `shares` [C, C] of each true class (row)."""
    size = len(shares)
    image = np.empty((size, size, 4))
    image[..., :3] = _HEAT
    # The square root keeps small confusions visible next to the diagonal.
    image[..., 3] = np.sqrt(np.clip(np.nan_to_num(shares), 0, 1))

    def draw(axes: Axes) -> None:
        axes.imshow(image, interpolation="nearest", aspect="equal")
        axes.grid(visible=False)
        axes.set_xlabel("predicted class (number)")
        axes.set_ylabel("true class (number)")

    return Figure(
        title=f"Confusion of {size} classes",
        label=f"Heat map of the confusion matrix of {size} classes",
        svg=draw_svg(Panel("heat", draw, 4.2)),
        caption="Each row is a true class, numbered from 0 in label order; darker cells "
        "are larger shares of the row. A clean diagonal is a perfect model.",
    )


def _unit_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _lines(
    curves: Sequence[ClassCurve], points: Callable[[ClassCurve], Sequence[tuple[float, float]]]
) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for number, curve in enumerate(curves):
            along = np.array(points(curve), dtype=np.float64).reshape(-1, 2)
            axes.plot(along[:, 0], along[:, 1], color=SERIES[number], linestyle=DASHES[number // 5])

    return draw


def _keys(curves: Sequence[ClassCurve]) -> tuple[Key, ...]:
    return tuple(Key(number, curve.label) for number, curve in enumerate(curves))


def _roc(curves: Sequence[ClassCurve], classes: int, *, in_folds: bool) -> Figure:
    lines = _lines(curves, lambda curve: curve.roc)

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linestyle=":", linewidth=1)
        lines(axes)
        _unit_axes(axes, "false positive rate", "true positive rate")

    whom = "the positive class" if classes == 2 else "each class against the rest"
    pooled = " The rows of all folds together; roc_auc counts pairs within a fold."
    return Figure(
        "ROC",
        f"ROC curve of {whom}: true positive rate over false positive rate",
        draw_svg(Panel("roc", draw)),
        f"Of {whom}. The dotted diagonal is chance level.{pooled if in_folds else ''}",
        _keys(curves),
    )


def _precision(curves: Sequence[ClassCurve], *, in_folds: bool) -> Figure:
    lines = _lines(curves, lambda curve: curve.precision)

    def draw(axes: Axes) -> None:
        lines(axes)
        _unit_axes(axes, "recall", "precision")

    pooled = " The rows of all folds by their scores; average_precision ranks them in their fold."
    return Figure(
        "Precision and recall",
        "Precision over recall",
        draw_svg(Panel("precision", draw)),
        f"Precision at each recall.{pooled if in_folds else ''}",
        _keys(curves),
    )


def _calibration(bins: Sequence[CalibrationBin], binary: bool) -> Figure:
    confidence = np.array([one.confidence for one in bins])
    hits = np.array([one.hits for one in bins])
    rows = np.array([one.rows for one in bins])

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linestyle=":", linewidth=1)
        axes.plot(confidence, hits, color=SERIES[0], marker="o", markersize=4)
        _unit_axes(axes, "", "share of positives" if binary else "accuracy")

    def strip(axes: Axes) -> None:
        axes.bar(confidence, rows, width=0.04, color=SERIES[0], alpha=0.6)
        axes.grid(visible=False)
        axes.set_xlabel("predicted probability" if binary else "highest predicted probability")
        axes.set_ylabel("rows")
        axes.set_yticks([0, int(rows.max())], ["0", f"{int(rows.max()):,}"])

    worst = max(bins, key=lambda one: one.rows * abs(one.hits - one.confidence))
    return Figure(
        "Calibration",
        "Reliability diagram: share of hits over predicted probability, with rows per bin",
        draw_svg(Panel("calibration", draw, 3.4, [strip])),
        "The dotted diagonal is perfect calibration. Largest weighted gap: "
        f"{worst.rows:,} rows predicted at {show_share(worst.confidence)}, of which "
        f"{show_share(worst.hits)} came true.",
    )


def _scatter(curves: RegressionCurves) -> Figure:
    sample = np.array(curves.sample, dtype=np.float64).reshape(-1, 2)
    low, high = float(sample.min()), float(sample.max())

    def draw(axes: Axes) -> None:
        # Half transparent, so that density shows.
        axes.scatter(sample[:, 0], sample[:, 1], s=9, color=SERIES[0], alpha=0.45, linewidths=0)
        axes.plot([low, high], [low, high], color=INK, linestyle=":", linewidth=1)
        axes.set_xlabel("true")
        axes.set_ylabel("predicted")

    return Figure(
        "Predicted against true",
        f"Scatter of {len(sample)} rows, predicted over true values",
        draw_svg(Panel("scatter", draw, 3.4)),
        f"{len(sample):,} rows, evenly sampled. The dotted line is a perfect prediction.",
    )


def _draw_histogram(
    axes: Axes, edges: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]
) -> None:
    """Bars of `counts` [N] between `edges` [N + 1]."""
    axes.bar(
        edges[:-1],
        counts,
        width=np.diff(edges),
        align="edge",
        color=SERIES[0],
        alpha=0.75,
        edgecolor=LINE,
        linewidth=0.4,
    )


def _margins(curves: MarginCurves) -> Figure:
    edges, counts = np.array(curves.edges), np.array(curves.counts)

    def draw(axes: Axes) -> None:
        _draw_histogram(axes, edges, counts)
        axes.axvline(0.0, color=LINE, linewidth=0.8)
        axes.set_xlabel("reward of the chosen answer minus that of the rejected one")
        axes.set_ylabel("pairs")

    return Figure(
        "Margins",
        "Histogram of the margins of the chosen answers",
        draw_svg(Panel("margins", draw, 3.4)),
        f"Over all {int(counts.sum()):,} pairs. Of those left of 0 the model prefers the other "
        "answer.",
    )


def _likelihood(curves: NegativeLogLikelihoodCurves) -> Figure:
    edges, counts = np.array(curves.edges), np.array(curves.counts)

    def draw(axes: Axes) -> None:
        _draw_histogram(axes, edges, counts)
        axes.set_xlabel("nats per token")
        axes.set_ylabel("segments")

    return Figure(
        "Negative log-likelihood",
        "Histogram of the negative log-likelihood per token of the text segments",
        draw_svg(Panel("likelihood", draw, 3.4)),
        f"Over all {int(counts.sum()):,} segments of the text. A tail to the right are passages "
        "unlike the training text.",
    )


def _queries(curves: RankingCurves) -> Figure:
    edges, counts = np.array(curves.edges), np.array(curves.counts)

    def draw(axes: Axes) -> None:
        _draw_histogram(axes, edges, counts)
        axes.set_xlabel(f"{curves.metric} of a query")
        axes.set_ylabel("queries")

    worst = ", ".join(
        f"{one.query} ({show_value(one.value)}, {one.rows} rows)" for one in curves.worst
    )
    without = f" {curves.left_out:,} queries leave nothing to order." if curves.left_out else ""
    return Figure(
        "Queries",
        f"Histogram of {curves.metric} over the queries",
        draw_svg(Panel("queries", draw, 3.4)),
        f"Over {int(counts.sum()):,} queries.{without} The worst: {worst}.",
    )


def _residuals(curves: RegressionCurves) -> Figure:
    edges = np.array(curves.residual_edges)
    counts = np.array(curves.residual_counts)
    middle = (edges[:-1] + edges[1:]) / 2
    mean = float((middle * counts).sum() / counts.sum())

    def draw(axes: Axes) -> None:
        _draw_histogram(axes, edges, counts)
        axes.axvline(0, color=INK, linestyle=":", linewidth=1)
        axes.set_xlabel("true minus predicted")
        axes.set_ylabel("rows")

    return Figure(
        "Residuals",
        "Histogram of true minus predicted values",
        draw_svg(Panel("residuals", draw, 3.4)),
        f"Over all {int(counts.sum()):,} rows. Their mean is about {show_value(mean)}: far from 0 "
        "the model leans to one side.",
    )
