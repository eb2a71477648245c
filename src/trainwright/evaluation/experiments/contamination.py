"""Whether a clause on questions rests on those that stand in the training text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from trainwright.contract.sections.data.quality import Accepted
from trainwright.contract.sections.metric import QuestionSet
from trainwright.core.formatting import many
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.experiments.experiment import Experiment, Outcome
from trainwright.evaluation.experiments.suspects import accepted_reason
from trainwright.evaluation.question_scores import QuestionResamples, QuestionScores, clauses_of


@final
class JudgedQuestions(NamedTuple):
    """A set of questions with its clauses, and its resamples with and without the contaminated
    ones. `against` are its baselines, and `searched` says how these were found."""

    section: QuestionSet
    scores: QuestionScores
    clauses: tuple[Clause, ...]
    every: QuestionResamples
    clean: QuestionResamples
    against: Sequence[str]
    searched: str


def try_contamination(
    judged: JudgedQuestions, clauses: Sequence[Clause], accept: Sequence[Accepted]
) -> Experiment:
    """The clauses of the run as they would be without the contaminated questions."""
    scores, name = judged.scores, judged.scores.name
    corrected = clauses_of(judged.section, name, scores.metric, judged.clean, judged.against)
    by_name = {one.name: one for one in corrected}
    before = judged.every.metric(scores.metric).interval.value
    difference = judged.clean.difference(scores.metric, judged.every)
    reason = accepted_reason("contamination", (name,), accept)
    changes = any(
        one.status == "met" and by_name[one.name].status != "met" for one in judged.clauses
    )
    outcome: Outcome = "not_measured"
    if changes:
        outcome = "accepted" if reason else "changes_decision"
    elif difference.given and difference.high < 0:
        outcome = "measured"
    found = many(scores.contaminated, "question")
    return Experiment(
        finding="contamination",
        columns=(name,),
        message=f"{found} of {scores.questions:,} in {name!r} stand in the training text: "
        f"{judged.searched}",
        method="the same clauses without these questions",
        conditions=("with them", "without them"),
        metric=scores.metric,
        before=before,
        after=scores.clean.value,
        difference=difference,
        corrected=tuple(by_name.get(one.name, one) for one in clauses),
        outcome=outcome,
        write="",
        reason=reason,
    )
