"""Plot data of the report: curves, bins and samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import assert_never

import numpy as np

from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.target import Target
from trainwright.evaluation.metrics.metric_values import (
    CALIBRATION_BINS,
    calibration_bins,
    calibration_pairs,
)
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.ranking import Ranked, ranked_by_class

MOST_POINTS = 200
_MOST_CURVES, _MOST_TARGETS, _SAMPLE, _HISTOGRAM_BINS = 10, 6, 1000, 40

Points = tuple[tuple[float, float], ...]

BySteps = Mapping[str, tuple[float, ...]]
"""A value of the model and of each baseline at each step."""

_OF_STEPS = ("coverage", "width", "pinball")


@dataclass(frozen=True, slots=True)
class ClassCurve:
    """One class against the rest. `roc`: (false positive rate, true positive rate). `precision`:
    (recall, precision)."""

    label: str
    roc: Points
    precision: Points


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """One calibration bin: row count, mean confidence and share of hits."""

    rows: int
    confidence: float
    hits: float


@dataclass(frozen=True, slots=True)
class ClassificationCurves:
    """`confusion[i][j]` counts rows of class i predicted as class j; `calibration` omits empty
    bins. `curves` holds the positive class of two, or each of at most ten."""

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    calibration: tuple[CalibrationBin, ...]
    curves: tuple[ClassCurve, ...]


@dataclass(frozen=True, slots=True)
class RegressionCurves:
    """`sample`: (true, predicted) of at most 1,000 rows. `residual_edges` [B + 1] and
    `residual_counts` [B]: a histogram of true minus predicted over all rows."""

    sample: Points
    residual_edges: tuple[float, ...]
    residual_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NegativeLogLikelihoodCurves:
    """`edges` [B + 1] and `counts` [B]: a histogram of the nats per token of the segments."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MarginCurves:
    """`edges` [B + 1] and `counts` [B]: a histogram of the margins of pairs of answers."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QueryScore:
    """A query with its rows and its value."""

    query: str
    rows: int
    value: float


@dataclass(frozen=True, slots=True)
class RankingCurves:
    """`edges` [B + 1] and `counts` [B]: a histogram of the metric's value over the queries. `worst`
    are those with the least value; `left_out` counts the queries without one."""

    metric: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    worst: tuple[QueryScore, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class ForecastPath:
    """Forecasts of a series that follow each other without overlap, up to the newest: the time of
    each as text, its truth, its forecast, the ends of its interval, none of one number, and the
    positions where an origin begins."""

    series: str
    times: tuple[str, ...]
    truth: tuple[float, ...]
    forecast: tuple[float, ...]
    begins: tuple[int, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ForecastIntervals:
    """`coverage` and mean `width` of the interval, and mean `pinball` loss of the quantiles, at
    each step. The interval says that it covers the share `said`."""

    said: float
    coverage: BySteps
    width: BySteps
    pinball: BySteps

    @classmethod
    def from_json(cls, json: Json) -> ForecastIntervals:
        """Inverse of `asdict`."""
        each = ({name: tuple(one) for name, one in json[key].items()} for key in _OF_STEPS)
        return cls(float(json["said"]), *each)


@dataclass(frozen=True, slots=True)
class ForecastCurves:
    """`errors` are the mean errors of the model and of each baseline at each of the `steps`, in the
    unit `metric`: `mase`, or `mae` where no series has a scale. Widths and losses of `intervals`,
    one or none, have the same unit."""

    metric: str
    steps: tuple[int, ...]
    errors: BySteps
    paths: tuple[ForecastPath, ...]
    intervals: tuple[ForecastIntervals, ...] = ()

    @classmethod
    def from_json(cls, json: Json) -> ForecastCurves:
        """Inverse of `asdict`."""
        return cls(
            json["metric"],
            tuple(json["steps"]),
            {name: tuple(one) for name, one in json["errors"].items()},
            tuple(
                ForecastPath(
                    one["series"],
                    tuple(one["times"]),
                    tuple(one["truth"]),
                    tuple(one["forecast"]),
                    tuple(one["begins"]),
                    tuple(one.get("low", ())),
                    tuple(one.get("high", ())),
                )
                for one in json["paths"]
            ),
            tuple(ForecastIntervals.from_json(one) for one in json.get("intervals", ())),
        )


@dataclass(frozen=True, slots=True)
class RetrievalCurves:
    """Recall of the model and of each baseline among the first of so many `shown` candidates, of
    `images` different images and `texts` different texts."""

    images: int
    texts: int
    shown: tuple[int, ...]
    image_to_text: Mapping[str, tuple[float, ...]]
    text_to_image: Mapping[str, tuple[float, ...]]

    @classmethod
    def from_json(cls, json: Json) -> RetrievalCurves:
        """Inverse of `asdict`."""
        there, back = (
            {name: tuple(one) for name, one in json[side].items()}
            for side in ("image_to_text", "text_to_image")
        )
        return cls(json["images"], json["texts"], tuple(json["shown"]), there, back)


@dataclass(frozen=True, slots=True)
class PassageCurves:
    """Recall of the model and of each baseline among the first of so many `shown` passages, of
    `passages` different ones, over `queries` different queries."""

    queries: int
    passages: int
    shown: tuple[int, ...]
    recalls: Mapping[str, tuple[float, ...]]

    @classmethod
    def from_json(cls, json: Json) -> PassageCurves:
        """Inverse of `asdict`."""
        recalls = {name: tuple(one) for name, one in json["recalls"].items()}
        return cls(json["queries"], json["passages"], tuple(json["shown"]), recalls)


@dataclass(frozen=True, slots=True)
class SeveralCurves:
    """Those of the first of several targets, each by itself, by their names."""

    names: tuple[str, ...]
    each: tuple[Curves, ...]


Curves = (
    ClassificationCurves
    | RegressionCurves
    | NegativeLogLikelihoodCurves
    | MarginCurves
    | RankingCurves
    | ForecastCurves
    | RetrievalCurves
    | PassageCurves
    | SeveralCurves
)


def draw_curves(answers: Answers, target: Target) -> Curves:
    """Compute the curves; those of a ranking are `draw_query_curves`."""
    if target.target_names:
        pairs = list(zip(answers.each(), target.singles, strict=True))
        each = tuple(draw_curves(*one) for one in pairs[:_MOST_TARGETS])
        return SeveralCurves(target.target_names[: len(each)], each)
    match target.task:
        case "classification":
            labels = target.classes
            return ClassificationCurves(
                labels, _confusion(answers), _calibration(answers), _class_curves(answers, labels)
            )
        case "retrieval" | "multilabel":
            raise AssertionError("those of a retrieval are `draw_recalls`")
        case "regression" | "ranking" | "forecasting":
            return _of_numbers(answers)
        case "generation":
            per_token = 1.0 if target.is_paired else answers.truth
            counts, edges = np.histogram(answers.values() / per_token, _HISTOGRAM_BINS)
            kind = MarginCurves if target.is_paired else NegativeLogLikelihoodCurves
            return kind(tuple(float(edge) for edge in edges), tuple(int(n) for n in counts))
        case _:
            assert_never(target.task)


def curves_to_json(curves: Curves) -> Json:
    """Plain lists and numbers."""
    match curves:
        case ClassificationCurves():
            kind = "classification"
        case RegressionCurves():
            kind = "regression"
        case NegativeLogLikelihoodCurves():
            kind = "generation"
        case MarginCurves():
            kind = "margins"
        case RankingCurves():
            kind = "ranking"
        case ForecastCurves():
            kind = "forecasting"
        case RetrievalCurves():
            kind = "retrieval"
        case PassageCurves():
            kind = "passages"
        case SeveralCurves():
            each = [curves_to_json(one) for one in curves.each]
            return {"kind": "several", "names": list(curves.names), "each": each}
        case _:
            assert_never(curves)
    return {"kind": kind, **asdict(curves)}


def curves_from_json(json: Json) -> Curves:
    """The inverse of `curves_to_json`."""
    if json["kind"] == "several":
        return SeveralCurves(tuple(json["names"]), tuple(map(curves_from_json, json["each"])))
    if json["kind"] == "generation":
        return NegativeLogLikelihoodCurves(tuple(json["edges"]), tuple(json["counts"]))
    if json["kind"] == "margins":
        return MarginCurves(tuple(json["edges"]), tuple(json["counts"]))
    if json["kind"] == "ranking":
        worst = tuple(QueryScore(**each) for each in json["worst"])
        edges, counts = tuple(json["edges"]), tuple(json["counts"])
        return RankingCurves(json["metric"], edges, counts, worst, json["left_out"])
    if json["kind"] == "forecasting":
        return ForecastCurves.from_json(json)
    if json["kind"] == "passages":
        return PassageCurves.from_json(json)
    if json["kind"] == "retrieval":
        return RetrievalCurves.from_json(json)
    if json["kind"] == "regression":
        return RegressionCurves(
            _points(json["sample"]), tuple(json["residual_edges"]), tuple(json["residual_counts"])
        )
    return ClassificationCurves(
        tuple(json["labels"]),
        tuple(tuple(row) for row in json["confusion"]),
        tuple(CalibrationBin(**each) for each in json["calibration"]),
        tuple(
            ClassCurve(each["label"], _points(each["roc"]), _points(each["precision"]))
            for each in json["curves"]
        ),
    )


def _points(json: Json) -> Points:
    return tuple((float(x), float(y)) for x, y in json)


def _confusion(answers: Answers) -> tuple[tuple[int, ...], ...]:
    classes = answers.classes
    cells = answers.truth.astype(np.int64) * classes + answers.chosen()
    counts = np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
    return tuple(tuple(int(count) for count in row) for row in counts)


def _calibration(answers: Answers) -> tuple[CalibrationBin, ...]:
    confidence, hit = calibration_pairs(answers)
    bins = calibration_bins(confidence)
    rows = np.bincount(bins, minlength=CALIBRATION_BINS)
    sums = np.bincount(bins, confidence, CALIBRATION_BINS)
    hits = np.bincount(bins, hit, CALIBRATION_BINS)
    return tuple(
        CalibrationBin(int(rows[m]), float(sums[m] / rows[m]), float(hits[m] / rows[m]))
        for m in range(CALIBRATION_BINS)
        if rows[m]
    )


def _class_curves(answers: Answers, labels: tuple[str, ...]) -> tuple[ClassCurve, ...]:
    if len(labels) == 2:
        codes = [answers.positive]
    else:
        codes = list(range(len(labels))) if len(labels) <= _MOST_CURVES else []
    ranked = ranked_by_class(answers)
    return tuple(
        _one_curve(labels[code], ranked[code])
        for code in codes
        if code in ranked and 0 < ranked[code].positives < len(answers)
    )


def _one_curve(label: str, ranked: Ranked) -> ClassCurve:
    """The points of scikit-learn's `roc_curve` and `precision_recall_curve`."""
    found, total, _ = ranked.at_ends()
    missed = total - found
    # Collinear points are reduced to both ends: the curve is the same.
    bends = (np.diff(missed, 2) != 0) | (np.diff(found, 2) != 0)
    kept = np.concatenate([[True], bends, [True]]) if len(found) > 2 else np.full(len(found), True)
    false_rate = np.append(0.0, missed[kept]) / missed[-1]
    true_rate = np.append(0.0, found[kept]) / found[-1]
    recall = np.append((found / found[-1])[::-1], 0.0)
    precision = np.append((found / total)[::-1], 1.0)
    return ClassCurve(label, _thin(false_rate, true_rate), _thin(recall, precision))


def _thin(x: Floats, y: Floats) -> Points:
    """At most `MOST_POINTS` points, spread evenly along the curve, both ends kept."""
    if len(x) > MOST_POINTS:
        along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        wanted = np.linspace(0.0, along[-1], MOST_POINTS)
        kept = np.unique(np.clip(np.searchsorted(along, wanted), 0, len(x) - 1))
        x, y = x[kept], y[kept]
    return tuple((float(a), float(b)) for a, b in zip(x, y, strict=True))


def _of_numbers(answers: Answers) -> RegressionCurves:
    truth = answers.truth.astype(np.float64)
    values = answers.values()
    step = max(1, math.ceil(len(truth) / _SAMPLE))
    sample: Integers = np.arange(0, len(truth), step)
    residuals = truth - values
    counts, edges = np.histogram(residuals, _HISTOGRAM_BINS)
    return RegressionCurves(
        _pairs(truth[sample], values[sample]),
        tuple(float(edge) for edge in edges),
        tuple(int(count) for count in counts),
    )


def _pairs(x: Floats, y: Floats) -> Points:
    return tuple((float(a), float(b)) for a, b in zip(x, y, strict=True))
