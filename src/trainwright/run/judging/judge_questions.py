"""Sets of questions judged: scores, clauses, and what contamination changes. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from trainwright.contract.sections.data.accepted_findings import Accepted
from trainwright.contract.sections.metric import Metric
from trainwright.data.audit.question_overlap import QuestionOverlap, overlapping_questions
from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.table import Inputs
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.evaluation.experiments.contamination import JudgedQuestions, try_contamination
from trainwright.evaluation.experiments.experiment import warnings_of
from trainwright.evaluation.metrics.answer_values import baselines_of
from trainwright.evaluation.question_scores import (
    AnsweredSet,
    clauses_of,
    score_questions,
)
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.predictor import Predictor
from trainwright.run.judging.ask_questions import Replies, ask_questions
from trainwright.run.prepare.question_sets import LoadedQuestions

Search = Callable[[LoadedQuestions], QuestionOverlap]
"""Finds the questions that stand in the training text."""

NOT_SEARCHED = "not looked for in the training text"


def search_in(train: Inputs, encoding: Encoding) -> Search:
    """Looks for questions in the text of a training part."""
    vocabulary = TokenEncoding.of_kind(encoding).vocabulary
    text = TokenInputs.of_kind(train.segments)

    def search(loaded: LoadedQuestions) -> QuestionOverlap:
        return overlapping_questions(loaded.file.questions, text, vocabulary)

    return search


def search_nowhere(why: str) -> Search:
    """Finds nothing, where the training text cannot be read, and says why."""

    def search(loaded: LoadedQuestions) -> QuestionOverlap:
        none = np.zeros(len(loaded.prompts), np.bool_)
        return QuestionOverlap(none, f"{NOT_SEARCHED}: {why}")

    return search


@final
@dataclass(frozen=True, slots=True)
class Examination:
    """How sets of questions are judged: `metric` gives confidence and resamples, `others` are the
    replies of further models by name, one a set."""

    metric: Metric
    seed: int
    search: Search
    others: Mapping[str, Sequence[Replies]] = field(default_factory=dict)

    def judge(
        self, sets: Sequence[LoadedQuestions], predictor: Predictor
    ) -> tuple[JudgedQuestions, ...]:
        """Each set with its scores and clauses.

        Raises:
            Mistake: memory does not suffice.
        """
        return tuple(
            self._judge_set(one, ask_questions(one, predictor), at) for at, one in enumerate(sets)
        )

    def _judge_set(self, loaded: LoadedQuestions, replies: Replies, at: int) -> JudgedQuestions:
        questions, overlap = loaded.file.questions, self.search(loaded)
        baselines = baselines_of(questions)
        others = {who: each[at].values for who, each in self.others.items()}
        answered = AnsweredSet(
            name=loaded.name,
            values=replies.values,
            beside={**baselines, **others},
            units=loaded.units(),
            contaminated=overlap.contaminated,
            slices={
                column: [one.cells[column] for one in questions]
                for column in loaded.section.slice_by
            },
            samples=replies.samples,
            notes=replies.notes,
        )
        scores, every, clean = score_questions(answered, loaded.section, self.metric, self.seed)
        against = (*baselines, *others)
        clauses = clauses_of(loaded.section, loaded.name, scores.metric, every, against)
        return JudgedQuestions(
            loaded.section, scores, clauses, every, clean, against, overlap.method
        )


def with_questions(
    judged: Sequence[JudgedQuestions], verdict: Verdict, accept: Sequence[Accepted]
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict with the clauses of the questions and with what contamination changes, and
    warnings."""
    whole = verdict.with_clauses([clause for one in judged for clause in one.clauses])
    tried = [
        try_contamination(one, whole.clauses, accept) for one in judged if one.scores.contaminated
    ]
    whole = whole.with_experiments((*whole.experiments, *tried))
    doubts = [f"{one.scores.name}: {note}" for one in judged for note in notes_of(one)]
    return whole, (*warnings_of(tried), *doubts)


def notes_of(judged: JudgedQuestions) -> tuple[str, ...]:
    """What is doubtful about a set of questions."""
    searched = judged.searched if "not looked for" in judged.searched else ""
    found = f"contamination {searched}" if searched.startswith(NOT_SEARCHED) else searched
    return (*judged.scores.notes, *filter(None, [found]))
