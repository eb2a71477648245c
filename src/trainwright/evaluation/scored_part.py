"""A part with the scores of the model and the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainwright.data.base.table import Floats, Integers, Part
from trainwright.data.columns.target_kind import Target
from trainwright.evaluation.metrics.predictions import Answers, answers_of

MODEL = "model"


@dataclass(frozen=True, slots=True)
class Scored:
    """A part with the scores of the model and the baselines.

    `scores` and each of `baselines` are [N, C] probabilities or [N, 1] values (for text the
    negative log-likelihood in nats of each segment), in the part's row order. `shares` is the
    contribution of each column to the linear baseline (summing to 1), which names the suspect if
    that baseline is near-perfect. `notes` are earlier warnings. `folds` is the fold [N] of each
    row, if models of folds scored them. `uncalibrated` are the model's scores before a calibration,
    `decided` the classes [N] that it chose by a threshold, if not by the highest probability.
    """

    part: Part
    target: Target
    scores: Floats
    baselines: Mapping[str, Floats] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    folds: Integers | None = None
    uncalibrated: Floats | None = None
    decided: Integers | None = None

    def answers(self, who: str = MODEL) -> Answers:
        """Answers of the model, or of a baseline."""
        of_model = who == MODEL
        if self.target.task == "retrieval":
            from trainwright.evaluation.metrics.retrieval_answers import answers_of_retrieval

            scores = self.scores if of_model else self.baselines[who]
            return answers_of_retrieval(self.target, self.part.target, scores)
        return answers_of(
            self.part.target,
            self.scores if of_model else self.baselines[who],
            self.target.positive_code,
            self.folds,
            self.decided if of_model else None,
            self.queries,
            self.target.quantiles,
            self.part.inputs.levels,
            self.target.costs,
        )

    @property
    def queries(self) -> Integers | None:
        """The query [N] of each row of a ranking."""
        return self.target.queries(self.part.frame)
