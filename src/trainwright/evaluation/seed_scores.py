"""Variation of the score over seeds on one split."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.table import Floats, Integers
from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.metrics.metric_values import measure, metrics_of
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.scored_part import Scored


@final
@dataclass(frozen=True, slots=True)
class SeedScores:
    """Metrics by seed, the run's own first, on the same test rows; empty with a single seed."""

    seeds: tuple[int, ...] = ()
    metrics: Mapping[str, tuple[float, ...]] | None = None
    reached: tuple[bool, ...] = ()

    def of(self, metric: str) -> tuple[float, ...]:
        """Values of a metric, nan where undefined."""
        return (self.metrics or {}).get(metric, ())

    def to_json(self) -> Json:
        """Plain JSON; what is not defined is null."""
        values = {
            name: [v if math.isfinite(v) else None for v in each]
            for name, each in (self.metrics or {}).items()
        }
        return {"seeds": list(self.seeds), "metrics": values, "reached": list(self.reached)}

    def describe(self, metric: str) -> str:
        """`roc_auc 0.76 · 0.85, mean 0.81, standard deviation 0.06 over 2 seeds`."""
        values = self.of(metric)
        listed = " · ".join(map(show_number, values))
        spread = show_number(statistics.stdev(values))
        mean = show_number(statistics.fmean(values))
        return (
            f"{metric} {listed}, mean {mean}, standard deviation {spread} over {len(values)} seeds"
        )

    def doubt(self, metric: str) -> tuple[str, ...]:
        """Warning if the seed decides whether the target is reached."""
        if all(self.reached) or not any(self.reached):
            return ()
        low, high = min(self.of(metric)), max(self.of(metric))
        return (
            f"the seed decides: {metric} is {show_number(low)} to {show_number(high)} over "
            f"{len(self.seeds)} seeds on the same split, and {sum(self.reached)} of them reach the "
            "target",
        )


NOT_DECIDED: Mapping[int, Integers] = MappingProxyType({})


def score_seeds(
    scored: Scored,
    others: Mapping[int, Floats],
    seed: int,
    metric: Metric,
    decided: Mapping[int, Integers] = NOT_DECIDED,
) -> SeedScores:
    """Score the run's own model, of `seed`, and those of other seeds on the same rows; `decided`
    are the classes that these chose by a threshold."""
    if not others:
        return SeedScores()
    own = _answers(scored, scored.scores, scored.decided)
    given = ((scores, decided.get(of)) for of, scores in others.items())
    all_answers = [own, *(_answers(scored, *each) for each in given)]
    names = metrics_of(scored.target)
    values = {name: tuple(measure(name, one, metric) for one in all_answers) for name in names}
    targets = _targets(scored, metric)
    reached = tuple(_reaches(value, targets, metric.name) for value in values[metric.name])
    return SeedScores((seed, *others), values, reached)


def _targets(scored: Scored, metric: Metric) -> Sequence[float]:
    """Targets of the contract's metric: a number, or the baselines' values."""
    if isinstance(metric.target, float):
        return (metric.target,)
    wanted = scored.baselines
    if metric.target == "baseline":
        wanted = {name: one for name, one in wanted.items() if name == DUMMY}
    return [measure(metric.name, _answers(scored, one), metric) for one in wanted.values()]


def _reaches(value: float, targets: Sequence[float], metric: str) -> bool:
    sign = 1 if METRICS[metric].direction == "max" else -1
    return all(sign * value >= sign * target for target in targets)


def _answers(scored: Scored, scores: Floats, decided: Integers | None = None) -> Answers:
    if scored.target.task == "retrieval":
        # Imported here: few runs match pairs.
        from trainwright.evaluation.metrics.retrieval_answers import answers_of_retrieval

        return answers_of_retrieval(scored.target, scored.part.target, scores)
    positive = scored.target.positive_code
    return answers_of(
        scored.part.target,
        scores,
        positive,
        decided=decided,
        queries=scored.queries,
        quantiles=scored.target.quantiles,
        levels=scored.part.inputs.levels,
        costs=scored.target.costs,
    )
