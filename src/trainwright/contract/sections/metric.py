"""`metric`, `slices` and `questions`: what the model must achieve.

The table of metrics is here because the contract needs each one's direction and task;
`evaluation` computes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, NonNegative, Positive, Section

Direction = Literal["min", "max"]
TaskKind = Literal[
    "classification",
    "regression",
    "multilabel",
    "generation",
    "ranking",
    "forecasting",
    "retrieval",
]

NUMERIC_TASKS = ("regression", "forecasting")
"""Tasks whose target is a number."""

_SHARE, _SIZE = (0.0, 1.0), (0.0, math.inf)

COST = "cost"
"""The metric of `metric.costs`: the mean cost of a row's decision."""

ONE_SIDED = frozenset({"coverage", "interval_width"})
"""Those of them that say half: a wide interval covers more, and a narrow one misses more."""

REACHED_BY_CONSTANTS = ONE_SIDED | {"calibration_error", "recall", "reward_margin"}
"""Metrics that a useless model may have better than a good one, which no baseline can contradict:
class shares are calibrated, and predicting one class alone finds all of it."""

BaselineName = Literal[
    "dummy", "linear", "persistence", "seasonal_naive", "drift", "bm25", "colours"
]
BASELINE_NAMES = get_args(BaselineName)

OF_CHOICES = ("acc", "acc_norm", "acc_bytes", "acc_tokens")
"""Metrics of questions with choices: the likeliest of them is the answer."""

OF_ANSWERS = ("exact_match", "token_f1")
"""Metrics of questions with reference answers, of what the model writes."""

QuestionMetric = Literal["acc", "acc_norm", "acc_bytes", "acc_tokens", "exact_match", "token_f1"]
Labels = Literal["text", "index", "letter"]


@dataclass(frozen=True, slots=True)
class MetricFact:
    """Facts about a metric, among them its smallest and largest possible value. `classes` is "two"
    for those that need a positive class and "any" for those that work for any number; `of` names
    the targets that have it: "any", only "counts", only "quantiles", only ordered classes,
    "ranks", only classes whose errors have "costs", only "tokens" of texts, only "pairs" of
    answers, or of a retrieval only "images" with captions or only "passages". `of_several`: the
    mean over several targets or labels is one of theirs, too."""

    direction: Direction
    task: TaskKind
    bounds: tuple[float, float]
    classes: Literal["two", "any"] = "any"
    of: Literal[
        "any", "counts", "quantiles", "ranks", "costs", "tokens", "pairs", "images", "passages"
    ] = "any"
    of_several: bool = False

    def is_of(self, task: str) -> bool:
        """Is it a metric of the task?"""
        if task == "multilabel" and self.task == "classification":
            return self.of_several
        return self.task in tasks_of_metrics(task)


METRICS = MappingProxyType(
    {
        "accuracy": MetricFact("max", "classification", _SHARE),
        "balanced_accuracy": MetricFact("max", "classification", _SHARE),
        "f1": MetricFact("max", "classification", _SHARE, "two"),
        "f1_macro": MetricFact("max", "classification", _SHARE, of_several=True),
        "f1_weighted": MetricFact("max", "classification", _SHARE),
        "precision": MetricFact("max", "classification", _SHARE, "two"),
        "recall": MetricFact("max", "classification", _SHARE, "two"),
        "precision_at_recall": MetricFact("max", "classification", _SHARE, "two"),
        "roc_auc": MetricFact("max", "classification", _SHARE, of_several=True),
        "average_precision": MetricFact("max", "classification", _SHARE, of_several=True),
        "log_loss": MetricFact("min", "classification", _SIZE),
        "brier": MetricFact("min", "classification", (0.0, 2.0)),
        "calibration_error": MetricFact("min", "classification", _SHARE),
        "quadratic_kappa": MetricFact("max", "classification", (-1.0, 1.0), of="ranks"),
        "mae_of_ranks": MetricFact("min", "classification", _SIZE, of="ranks"),
        "cost": MetricFact("min", "classification", _SIZE, of="costs"),
        "hamming_loss": MetricFact("min", "multilabel", _SHARE, of_several=True),
        "subset_accuracy": MetricFact("max", "multilabel", _SHARE, of_several=True),
        "f1_micro": MetricFact("max", "multilabel", _SHARE, of_several=True),
        "mae": MetricFact("min", "regression", _SIZE, of_several=True),
        "rmse": MetricFact("min", "regression", _SIZE, of_several=True),
        "r2": MetricFact("max", "regression", (-math.inf, 1.0), of_several=True),
        "mape": MetricFact("min", "regression", _SIZE, of_several=True),
        "pinball": MetricFact("min", "regression", _SIZE),
        "poisson_deviance": MetricFact("min", "regression", _SIZE, of="counts"),
        "rmsle": MetricFact("min", "regression", _SIZE, of="counts"),
        "coverage": MetricFact("max", "regression", _SHARE, of="quantiles"),
        "interval_width": MetricFact("min", "regression", _SIZE, of="quantiles"),
        "interval_score": MetricFact("min", "regression", _SIZE, of="quantiles"),
        "mase": MetricFact("min", "forecasting", _SIZE),
        "smape": MetricFact("min", "forecasting", (0.0, 200.0)),
        "scaled_pinball": MetricFact("min", "forecasting", _SIZE, of="quantiles"),
        "nats_per_token": MetricFact("min", "generation", _SIZE, of="tokens"),
        "perplexity": MetricFact("min", "generation", (1.0, math.inf), of="tokens"),
        "bits_per_byte": MetricFact("min", "generation", _SIZE, of="tokens"),
        "preference_accuracy": MetricFact("max", "generation", _SHARE, of="pairs"),
        "reward_margin": MetricFact("max", "generation", (-math.inf, math.inf), of="pairs"),
        "ndcg": MetricFact("max", "ranking", _SHARE),
        "map": MetricFact("max", "ranking", _SHARE),
        "mrr": MetricFact("max", "ranking", _SHARE),
        "mean_recall": MetricFact("max", "retrieval", _SHARE, of="images"),
        "image_to_text_recall_at_1": MetricFact("max", "retrieval", _SHARE, of="images"),
        "image_to_text_recall_at_5": MetricFact("max", "retrieval", _SHARE, of="images"),
        "image_to_text_recall_at_10": MetricFact("max", "retrieval", _SHARE, of="images"),
        "image_to_text_mrr": MetricFact("max", "retrieval", _SHARE, of="images"),
        "text_to_image_recall_at_1": MetricFact("max", "retrieval", _SHARE, of="images"),
        "text_to_image_recall_at_5": MetricFact("max", "retrieval", _SHARE, of="images"),
        "text_to_image_recall_at_10": MetricFact("max", "retrieval", _SHARE, of="images"),
        "text_to_image_mrr": MetricFact("max", "retrieval", _SHARE, of="images"),
        "passage_ndcg_at_10": MetricFact("max", "retrieval", _SHARE, of="passages"),
        "passage_mrr": MetricFact("max", "retrieval", _SHARE, of="passages"),
        "passage_recall_at_1": MetricFact("max", "retrieval", _SHARE, of="passages"),
        "passage_recall_at_5": MetricFact("max", "retrieval", _SHARE, of="passages"),
        "passage_recall_at_10": MetricFact("max", "retrieval", _SHARE, of="passages"),
    }
)

METRICS_OF_COUNTS = frozenset(name for name, fact in METRICS.items() if fact.of == "counts")
"""Metrics of rates: the target is a count, and every prediction is above 0."""

METRICS_OF_RANKS = frozenset(name for name, fact in METRICS.items() if fact.of == "ranks")
"""Metrics of ordered classes, by how far apart their ranks are."""


METRICS_OF_QUANTILES = frozenset(name for name, fact in METRICS.items() if fact.of == "quantiles")
"""Metrics of several predicted quantiles, most of them of the interval between the outer two."""


def steering_metric(name: str) -> str:
    """The metric that tells which state of a model is better, where the contract's is `name`."""
    return "pinball" if name in ONE_SIDED else name


def tasks_of_metrics(task: str) -> tuple[str, ...]:
    """The tasks whose metrics a task has: forecasts are numbers, too."""
    return NUMERIC_TASKS if task == "forecasting" else (task,)


class Metric(Section):
    """What the model must achieve, and with what confidence."""

    name: str = "auto"
    """A metric's name; `trainwright schema` lists them. `auto`: `cost` with `costs`, else
    `roc_auc` for two classes, `f1_macro` for several, `quadratic_kappa` for ordered ones,
    `accuracy` for images, `rmse` for numbers, `r2` for several numbers (the mean of that of each),
    `average_precision` for several labels (the mean over the labels), `nats_per_token` for a text,
    `ndcg` for a ranking, `mase` for forecasts and `scaled_pinball` for their quantiles,
    `mean_recall` for image-text pairs: the mean of the recalls at 1, 5 and 10 in both directions;
    `passage_ndcg_at_10` for text pairs."""

    target: Auto | Literal["baseline", "every_baseline"] | BaselineName | float = "auto"
    """Target value. `baseline`: better than always predicting the commonest class, the mean, or
    each token by its frequency in the training text, or than a random order (the dummy), on the
    same rows, while no other baseline of the run is better than the model. `every_baseline`: better
    than the dummy and than every other baseline of the run, above all the linear one; a linear
    model equal to that one is held against the others. `auto`: `baseline` for a linear model, else
    `every_baseline`. A number is not met either while a baseline is better over the whole interval
    of the difference. The name of a baseline (`dummy`, `linear`; of forecasts and a time split
    `persistence`, `seasonal_naive`; `drift` of series, `bm25` of text pairs, `colours` of images):
    better than this one, whatever the others are."""

    recall: Annotated[float, Field(gt=0, le=1)] = 0.9
    """For `precision_at_recall`: the minimum recall."""

    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """For `pinball`: the quantile."""

    k: Literal["all"] | Count = "all"
    """For `ndcg`, `map` and `mrr`: how many rows at the top of a query count."""

    gain: Literal["exponential", "linear"] = "exponential"
    """For `ndcg`: what a row of relevance r is worth, 2^r - 1 (Burges et al. 2005, as LightGBM and
    XGBoost count) or r (Järvelin and Kekäläinen 2002, as scikit-learn and trec_eval count)."""

    relevant_from: Positive = 1.0
    """For `map` and `mrr`: the least relevance of a relevant row, as `-l` of trec_eval."""

    quantiles: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = ()
    """Quantiles that the model predicts of each row of a numeric target, ascending, with 0.5 among
    them, for example [0.05, 0.5, 0.95]. The median is the prediction, the outer two are its
    interval. Empty: one number. `pinball` is the mean over them, and `scaled_pinball` of forecasts
    that in units of the changes of each series; `coverage` is the share of rows
    in the interval, whose clause is met where the lower bound of that share reaches the target: so
    is that of an interval that is far too wide, which `interval_width` or `interval_score` tells.
    """

    costs: Mapping[str, Mapping[str, NonNegative]] = {}
    """For `cost`: what it costs to predict a class, for each true class, in any unit:
    {true: {predicted: cost}}, for example {healthy: {ill: 1}, ill: {healthy: 20}}. A right
    prediction costs 0 unless it is given. Each row is given the class of the least expected cost
    (Elkan 2001, The foundations of cost-sensitive learning, equation 1); of two classes by a
    threshold fitted to the validation rows, if that costs less by cross-validation over them.
    Probabilities are unchanged."""

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Coverage of every interval. A clause is met only if its whole interval meets the target."""

    resamples: Annotated[Count, Field(ge=100)] = 1000
    """Bootstrap resamples per interval."""


class Slice(Section):
    """A part of the evaluation rows: one for each value of `column`, or the rows `where`."""

    column: str = ""
    """Each value of this column is a slice, named `column=value`."""

    where: str = ""
    """The rows for which this SQL condition holds, for example `age >= 65 AND sex = 'Female'`."""

    name: str = ""
    """What a `where` slice is called; the condition itself if empty."""

    metric: str = "auto"
    """What is measured on the slice. `auto`: the contract's metric."""

    floor: Literal["none"] | float = "none"
    """The worst value allowed: the least for metrics to maximise, the largest for errors. `none`:
    the slice is reported and not judged."""

    min_rows: Count = 30
    """Slices with fewer rows are reported and not judged: their floor stays undecided."""


class FewShot(Section):
    """Answered questions that stand before each question (Brown et al. 2020, arXiv:2005.14165,
    section 2)."""

    path: str
    """A file of the same columns; none of its questions may be among those that are judged."""

    count: Annotated[int, Field(ge=1, le=100)] = 5
    """How many of them, drawn for each question by the contract's `seed` and the question's row."""


class QuestionSet(Section):
    """Questions of a file, a row each, that the trained decoder answers when it is judged: with
    `choices`, of which it takes the likeliest, or with reference answers, which it has to write.

    A choice is scored by the log-probability of its tokens after the prompt, as in the
    lm-evaluation-harness: `acc` takes the largest sum, `acc_norm` the largest sum a character,
    `acc_bytes` a byte of UTF-8 and `acc_tokens` a token. `exact_match` and `token_f1` compare what
    is written with the nearest reference, both normalised as for SQuAD (Rajpurkar et al. 2016,
    arXiv:1606.05250, section 6.1): lower case, without punctuation, articles and further spaces."""

    path: str
    """A `.jsonl`, `.csv` or `.parquet` file, relative to the contract's folder."""

    name: str = ""
    """What the questions are called; empty: the file's name without its ending."""

    metric: Auto | QuestionMetric = "auto"
    """What is judged; the others of its kind are reported. `auto`: `acc` of choices, `exact_match`
    of answers."""

    target: Literal["none", "baseline", "every_baseline"] | float = "every_baseline"
    """Target value. `baseline`: better than chance, or than the most frequent reference answer.
    `every_baseline`: of choices also better than the longest one and than the commonest place of
    the right one. `none`: reported and not judged. No share is met while one of these is better
    over the whole interval of the difference."""

    question: str = "question"
    """Column of the question."""

    choices: str = "choices"
    """Column of the choices, a list; questions without this column have reference answers."""

    answer: str = "answer"
    """Column of the answer: of choices which one is right, else a text, or a list of texts of which
    each is right."""

    labels: Auto | Labels = "auto"
    """How `answer` names the right choice: by its `text`, by its `index` (counted from 0) or by a
    `letter` (A is the first). `auto`: the one that fits every row; refused where two do and
    differ."""

    prompt: str = "auto"
    """What the model reads, with columns in braces. `auto`: `Question: {question}`, a line break
    and `Answer:`; of chats the question itself, as a message of the user."""

    delimiter: str = "auto"
    """What stands between the prompt and a choice, and is scored with it. `auto`: a space; in chats
    nothing."""

    examples: Literal["none"] | FewShot = "none"
    """Answered questions before each question; in chats earlier turns."""

    stop: tuple[str, ...] = ("\n",)
    """What ends a written answer, besides the end of a document or of a turn."""

    tokens: Count = 32
    """Most tokens of a written answer, which is decoded greedily."""

    group: str = ""
    """Column of what several questions share, such as a passage: they are drawn together by the
    bootstrap. Empty: each question is by itself."""

    slice_by: tuple[str, ...] = ()
    """Columns by whose values the metric is reported too."""
