"""`metric`: what the model must prove. The table of metrics lives here because the contract knows
each one's direction and task; `evaluation` computes them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.section import Count, Section

Direction = Literal["min", "max"]
TaskKind = Literal["classification", "regression", "generation"]


@dataclass(frozen=True, slots=True)
class MetricFact:
    """What the contract must know of a metric. `classes` is "two" for those that need a positive
    class and "any" for those that work for any number."""

    direction: Direction
    task: TaskKind
    classes: Literal["two", "any"] = "any"


METRICS = MappingProxyType(
    {
        "accuracy": MetricFact("max", "classification"),
        "balanced_accuracy": MetricFact("max", "classification"),
        "f1": MetricFact("max", "classification", "two"),
        "f1_macro": MetricFact("max", "classification"),
        "f1_weighted": MetricFact("max", "classification"),
        "precision": MetricFact("max", "classification", "two"),
        "recall": MetricFact("max", "classification", "two"),
        "precision_at_recall": MetricFact("max", "classification", "two"),
        "roc_auc": MetricFact("max", "classification"),
        "average_precision": MetricFact("max", "classification"),
        "log_loss": MetricFact("min", "classification"),
        "brier": MetricFact("min", "classification"),
        "calibration_error": MetricFact("min", "classification"),
        "mae": MetricFact("min", "regression"),
        "rmse": MetricFact("min", "regression"),
        "r2": MetricFact("max", "regression"),
        "mape": MetricFact("min", "regression"),
        "pinball": MetricFact("min", "regression"),
        "nats_per_token": MetricFact("min", "generation"),
        "perplexity": MetricFact("min", "generation"),
    }
)


class Metric(Section):
    """What the model must prove, and how sure that must be."""

    name: str = "auto"
    """A metric's name; `trainwright schema` lists them. `auto`: `roc_auc` for two classes,
    `f1_macro` for several, `accuracy` for images, `rmse` for numbers, `nats_per_token` for a
    text."""

    target: Literal["baseline"] | float = "baseline"
    """The value to reach. `baseline`: be better than always predicting the commonest class, the
    mean, or each token by its share of the training text, on the same rows."""

    recall: Annotated[float, Field(gt=0, le=1)] = 0.9
    """For `precision_at_recall`: the least share of positives to find."""

    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """For `pinball`: the quantile."""

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Coverage of every interval. A clause is met only if its whole interval is good enough."""

    resamples: Annotated[Count, Field(ge=100)] = 1000
    """Bootstrap resamples behind each interval."""
