"""Metrics of the contract by scikit-learn; beyond 10,000 units `resampled_metrics` uses
`weighted_metrics`, equal up to rounding.

Of rows that models of folds scored `roc_auc` counts pairs of rows of one fold, and
`average_precision` and `precision_at_recall` rank the rows by their percentile ranks within the
folds.

An undefined metric is nan: roc_auc without rows of two classes (in one fold, if there are folds);
f1, precision, recall, precision_at_recall and average_precision without a positive row; r2 of a
constant; mape of zeros (other rows of 0 do not count in it); quadratic_kappa if truth and choice
are all of one class; poisson_deviance if a prediction is not above 0 or a count is below; rmsle if
one of either is below 0; coverage, interval_width and interval_score of predictions that are one
number; metrics of rankings without a query that can be ordered; bits_per_byte of tokens that stand
for no text; anything of no rows. Without positive predictions, but with positive rows, precision
and f1 are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.target import Target
from trainwright.evaluation.metrics.forecast_errors import mape, mase, scaled_pinball, smape
from trainwright.evaluation.metrics.predictions import Answers

CALIBRATION_BINS = 15

OF_QUERIES = tuple(name for name, fact in METRICS.items() if fact.task == "ranking")
"""Metrics of the rows of a query, as means over the queries."""

OF_PAIRS = tuple(name for name, fact in METRICS.items() if fact.task == "retrieval")
"""Metrics of pairs, as means over the queries."""

OF_TEXTS = tuple(name for name, fact in METRICS.items() if fact.of == "tokens")
"""Metrics of the segments of a text."""

Measure = Callable[[Answers, Metric], float]
Ranking = Callable[[npt.NDArray[np.bool_], Floats], float]


def metrics_of(target: Target) -> tuple[str, ...]:
    """Metrics applicable to a target, in the contract's order."""
    has = {"any"}
    has |= {"counts"} if target.is_count else set()
    has |= {"quantiles"} if target.quantiles else set()
    has |= {"ranks"} if target.is_ordered else set()
    has |= {"costs"} if target.costs else set()
    has |= {"pairs"} if target.is_paired else {"tokens"}
    has |= {"passages"} if target.is_one_way else {"images"}
    names = _names(target.task, target.outputs, has)
    return tuple(one for one in names if METRICS[one].of_several or not target.target_names)


def metric_names(classes: int) -> tuple[str, ...]:
    """Metrics of a target of `classes` classes (1: numbers), in the contract's order."""
    return _names("regression" if classes == 1 else "classification", classes, {"any"})


def _names(task: str, classes: int, has: Set[str]) -> tuple[str, ...]:
    return tuple(
        name
        for name, fact in METRICS.items()
        if fact.is_of(task) and fact.of in has and (fact.classes == "any" or classes == 2)
    )


def measure(name: str, answers: Answers, section: Metric) -> float:
    """Value of a metric, with the options of `section`; nan if undefined."""
    if not len(answers):
        return math.nan
    if answers.are_several:
        from trainwright.evaluation.metrics.several_metrics import measure_several  # not often

        return measure_several(name, answers, lambda one: measure(name, one, section))
    return float(POINTS[name](answers, section))


def calibration_pairs(answers: Answers) -> tuple[Floats, Floats]:
    """Confidence [N] and hit (0 or 1) [N] of each row.

    Binary: the probability of the positive class, and whether it is true. Multiclass: the highest
    probability, and whether its class is true.
    """
    if answers.classes == 2:
        return answers.positive_scores(), answers.is_positive().astype(np.float64)
    return answers.scores.max(axis=1), (answers.likeliest() == answers.truth).astype(np.float64)


def calibration_bins(confidence: Floats) -> Integers:
    """The bin of each confidence: bin m of M holds the interval (m/M, (m+1)/M], 0 the first."""
    bins = np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1
    return np.clip(bins, 0, CALIBRATION_BINS - 1)


def present_classes(answers: Answers) -> list[int]:
    """Classes that occur in the truth."""
    return [int(code) for code in np.flatnonzero(answers.class_counts())]


def preferred(answers: Answers) -> Floats:
    """1 for each pair whose chosen answer has the higher reward, 0.5 for a tie, [N]."""
    margins = answers.values()
    return np.where(margins == 0, 0.5, (margins > 0).astype(np.float64))


def _accuracy(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(answers.truth, answers.chosen()))


def _balanced_accuracy(answers: Answers, _: Metric) -> float:
    """Mean recall of the classes that occur; the same as scikit-learn's, without its warning."""
    from sklearn.metrics import recall_score

    labels = present_classes(answers)
    return float(recall_score(answers.truth, answers.chosen(), labels=labels, average="macro"))


def _of_positive(kind: str) -> Measure:
    def compute(answers: Answers, _: Metric) -> float:
        from sklearn.metrics import precision_recall_fscore_support

        truth = answers.is_positive()
        if not truth.any():
            return math.nan
        chosen = answers.chosen() == answers.positive
        precision, recall, f1, _support = precision_recall_fscore_support(
            truth, chosen, average="binary", zero_division=0.0
        )
        return float({"precision": precision, "recall": recall, "f1": f1}[kind])

    return compute


def _f1(average: str) -> Measure:
    def compute(answers: Answers, _: Metric) -> float:
        from sklearn.metrics import f1_score

        return float(f1_score(answers.truth, answers.chosen(), average=average, zero_division=0.0))

    return compute


def _precision_at_recall(answers: Answers, section: Metric) -> float:
    """The best precision of any threshold that finds at least `section.recall` of the positives."""
    from sklearn.metrics import precision_recall_curve

    truth = answers.is_positive()
    if not truth.any():
        return math.nan
    scores = answers.ranked_in_folds().positive_scores()
    precision, recall, _ = precision_recall_curve(truth, scores)
    return float(precision[recall >= section.recall].max())


def _one_against_rest(score: Ranking, answers: Answers) -> float:
    """Binary: the positive class; multiclass: the mean over the classes that occur."""
    if answers.classes == 2:
        return score(answers.is_positive(), answers.positive_scores())
    each = [
        score(np.asarray(answers.truth == code), answers.scores[:, code])
        for code in present_classes(answers)
    ]
    return float(np.mean(each))


def _roc_auc(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import roc_auc_score

    if len(present_classes(answers)) < 2:
        return math.nan
    if answers.folds is None:
        return _one_against_rest(lambda truth, score: float(roc_auc_score(truth, score)), answers)
    rows_of_folds = answers.rows_of_folds()

    def within(truth: npt.NDArray[np.bool_], score: Floats) -> float:
        pairs = np.array([truth[rows].sum() * (~truth[rows]).sum() for rows in rows_of_folds])
        areas = [
            float(roc_auc_score(truth[rows], score[rows])) if count else 0.0
            for rows, count in zip(rows_of_folds, pairs, strict=True)
        ]
        return float(pairs @ areas / pairs.sum()) if pairs.any() else math.nan

    return _one_against_rest(within, answers)


def _average_precision(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import average_precision_score

    if answers.classes == 2 and not answers.is_positive().any():
        return math.nan
    return _one_against_rest(
        lambda truth, score: float(average_precision_score(truth, score)),
        answers.ranked_in_folds(),
    )


def _log_loss(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(answers.truth, answers.scores, labels=range(answers.classes)))


def _brier(answers: Answers, _: Metric) -> float:
    """Brier 1950: in [0, 1] for two classes, in [0, 2] for several (sum over the classes)."""
    from sklearn.metrics import brier_score_loss

    if answers.classes == 2:
        return float(
            brier_score_loss(answers.is_positive(), answers.positive_scores(), pos_label=True)
        )
    return float(brier_score_loss(answers.truth, answers.scores, labels=range(answers.classes)))


def _calibration_error(answers: Answers, _: Metric) -> float:
    """Expected calibration error (Guo et al. 2017, arXiv:1706.04599, equation 3).

    ECE = sum over bins m of |B_m| / n * |acc(B_m) - conf(B_m)|, with 15 bins of equal width, n
    rows, acc the share of hits and conf the mean confidence of the rows B_m in the bin.
    """
    confidence, hit = calibration_pairs(answers)
    gaps = np.bincount(calibration_bins(confidence), hit - confidence, CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(answers))


def _quadratic_kappa(answers: Answers, _: Metric) -> float:
    """Cohen's kappa with squared distances of the ranks as weights (Cohen 1968, Psychological
    Bulletin 70): 1 - observed / expected by chance."""
    from sklearn.metrics import cohen_kappa_score

    truth, chosen = answers.truth, answers.chosen()
    if np.ptp(np.concatenate([truth, chosen])) == 0:
        return math.nan
    return float(
        cohen_kappa_score(truth, chosen, weights="quadratic", labels=range(answers.classes))
    )


def _mae_of_ranks(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(answers.truth, answers.chosen()))


def _mae(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(answers.truth, answers.values()))


def _rmse(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import root_mean_squared_error

    return float(root_mean_squared_error(answers.truth, answers.values()))


def _r2(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import r2_score

    if np.ptp(answers.truth) == 0:
        return math.nan
    return float(r2_score(answers.truth, answers.values()))


def _pinball(answers: Answers, section: Metric) -> float:
    """Of several quantiles the mean over them."""
    from sklearn.metrics import mean_pinball_loss

    if not answers.quantiles:
        return float(mean_pinball_loss(answers.truth, answers.values(), alpha=section.quantile))
    each = zip(answers.scores.T, answers.quantiles, strict=True)
    losses = [mean_pinball_loss(answers.truth, values, alpha=alpha) for values, alpha in each]
    return float(np.mean(losses))


def is_inside(answers: Answers) -> npt.NDArray[np.bool_]:
    """Is the value of each row [N] between its outer quantiles, ends included?"""
    low, high = answers.scores[:, 0], answers.scores[:, -1]
    return np.asarray((low <= answers.truth) & (answers.truth <= high))


def interval_widths(answers: Answers) -> Floats:
    """Outer quantile minus outer quantile of each row [N]."""
    return np.asarray(answers.scores[:, -1] - answers.scores[:, 0])


def interval_scores(answers: Answers) -> Floats:
    """Interval score of each row [N] (Winkler 1972; Gneiting and Raftery 2007, Journal of the
    American Statistical Association 102, equation 43): the width, and what the value lies below it
    divided by the lower quantile, or above it divided by one minus the upper one. Less is better,
    and the true quantiles have the least."""
    low, high = answers.scores[:, 0], answers.scores[:, -1]
    below, above = answers.quantiles[0], 1 - answers.quantiles[-1]
    missed = np.maximum(low - answers.truth, 0) / below
    missed += np.maximum(answers.truth - high, 0) / above
    return np.asarray(high - low + missed)


def _of_interval(each: Callable[[Answers], npt.NDArray[Any]]) -> Measure:
    def compute(answers: Answers, _: Metric) -> float:
        return float(each(answers).mean()) if answers.quantiles else math.nan

    return compute


def _poisson_deviance(answers: Answers, _: Metric) -> float:
    """2 (y log(y / m) - y + m), its mean over the rows (McCullagh and Nelder 1989, section 2.3)."""
    from sklearn.metrics import mean_poisson_deviance

    if answers.truth.min() < 0 or answers.values().min() <= 0:
        return math.nan
    return float(mean_poisson_deviance(answers.truth, answers.values()))


def _rmsle(answers: Answers, _: Metric) -> float:
    from sklearn.metrics import root_mean_squared_log_error

    if min(answers.truth.min(), answers.values().min()) < 0:
        return math.nan
    return float(root_mean_squared_log_error(answers.truth, answers.values()))


def _of_queries(name: str, answers: Answers, section: Metric) -> float:
    from trainwright.evaluation.metrics.query_metrics import values_of_queries

    return values_of_queries(name, answers, section).mean()


def _of_texts(name: str, answers: Answers, _: Metric) -> float:
    from trainwright.evaluation.metrics.text_metrics import MEASURES

    return MEASURES[name](answers)


def _of_pairs(name: str, answers: Answers, _: Metric) -> float:
    if METRICS[name].of == "passages":
        from trainwright.evaluation.metrics.retrieval import mean_of_queries

        return mean_of_queries(name, answers)
    from trainwright.evaluation.metrics.retrieval import values_of_pairs

    return float(values_of_pairs(name, answers).mean())


POINTS: Mapping[str, Measure] = MappingProxyType(
    {
        "accuracy": _accuracy,
        "balanced_accuracy": _balanced_accuracy,
        "f1": _of_positive("f1"),
        "f1_macro": _f1("macro"),
        "f1_weighted": _f1("weighted"),
        "precision": _of_positive("precision"),
        "recall": _of_positive("recall"),
        "precision_at_recall": _precision_at_recall,
        "roc_auc": _roc_auc,
        "average_precision": _average_precision,
        "log_loss": _log_loss,
        "brier": _brier,
        "calibration_error": _calibration_error,
        "quadratic_kappa": _quadratic_kappa,
        "mae_of_ranks": _mae_of_ranks,
        "cost": lambda answers, _: float(answers.row_costs().mean()),
        "mae": _mae,
        "rmse": _rmse,
        "r2": _r2,
        "mape": lambda answers, _: mape(answers),
        "pinball": _pinball,
        "poisson_deviance": _poisson_deviance,
        "rmsle": _rmsle,
        "coverage": _of_interval(is_inside),
        "interval_width": _of_interval(interval_widths),
        "interval_score": _of_interval(interval_scores),
        "mase": lambda answers, _: mase(answers),
        "smape": lambda answers, _: smape(answers),
        "scaled_pinball": lambda answers, _: scaled_pinball(answers),
        **{name: partial(_of_texts, name) for name in OF_TEXTS},
        "preference_accuracy": lambda answers, _: float(preferred(answers).mean()),
        "reward_margin": lambda answers, _: float(answers.values().mean()),
        **{name: partial(_of_queries, name) for name in OF_QUERIES},
        **{name: partial(_of_pairs, name) for name in OF_PAIRS},
    }
)
