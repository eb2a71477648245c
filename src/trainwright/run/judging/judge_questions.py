"""Sets of questions answered by a decoder and judged: scores, clauses, contamination. Needs
torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from trainwright.contract.sections.data.quality import Accepted
from trainwright.contract.sections.metric import Metric
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.audit.question_overlap import QuestionOverlap, overlapping_questions
from trainwright.data.base.inputs import Inputs
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.vocabulary import UNKNOWN, TokenEncoding
from trainwright.evaluation.experiments.contamination import JudgedQuestions, try_contamination
from trainwright.evaluation.experiments.experiment import warnings_of
from trainwright.evaluation.metrics.answer_values import (
    Values,
    baselines_of,
    choose,
    values_of_answers,
    values_of_choices,
)
from trainwright.evaluation.question_scores import AnsweredSet, clauses_of, score_questions
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.continuation_likelihood import likelihood_scorer
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DOCUMENT_END, DecodingOptions, text_generator
from trainwright.run.prepare.question_sets import LoadedQuestions

_SAMPLES = 6
_SHOWN = 2000

Search = Callable[[LoadedQuestions], QuestionOverlap]
"""Finds the questions that stand in the training text."""

NOT_SEARCHED = "not looked for in the training text"


@final
class Replies(NamedTuple):
    """What a model answers to N questions: their values by metric, some of them in words, and
    notes."""

    values: Values
    samples: tuple[Json, ...]
    notes: tuple[str, ...]


def ask_questions(loaded: LoadedQuestions, predictor: Predictor) -> Replies:
    """Answers of a model with the encoding of the prompts.

    Raises:
        Mistake: memory does not suffice.
    """
    return _choose(loaded, predictor) if loaded.file.has_choices else _write(loaded, predictor)


def _choose(loaded: LoadedQuestions, predictor: Predictor) -> Replies:
    questions, encoded = loaded.file.questions, loaded.encoded_choices()
    found = likelihood_scorer(predictor).score([one for each in encoded for one in each])
    ends = np.cumsum([len(each) for each in encoded]).tolist()
    of_each = [found[end - len(each) : end] for each, end in zip(encoded, ends, strict=True)]
    chosen = [
        choose(
            np.array([one.log_probability for one in each]),
            np.array([float(one.tokens) for one in each]),
            question.choices,
        )
        for each, question in zip(of_each, questions, strict=True)
    ]
    samples = [
        {
            "prompt": _shown(loaded.prompts[at]),
            "choices": list(questions[at].choices),
            "log_probabilities": [one.log_probability for one in of_each[at]],
            "chosen": chosen[at],
            "right": questions[at].right,
        }
        for at in _spread(len(questions))
    ]
    notes = (*_unread_note(sum(one.unread > 0 for one in found)), *_unknown_note(loaded))
    return Replies(values_of_choices(chosen, questions), tuple(samples), notes)


def _write(loaded: LoadedQuestions, predictor: Predictor) -> Replies:
    section, encoding = loaded.section, loaded.writer.encoding
    ends = (DOCUMENT_END, *filter(None, (encoding.turn_end, *section.stop)))
    decoding = DecodingOptions(section.tokens, temperature=0.0, stop=ends)
    generator = text_generator(predictor, encoding, decoding)
    found = [generator.generate(pieces) for pieces in loaded.prompts]
    written, questions = [one.text.strip() for one in found], loaded.file.questions
    values = values_of_answers(written, questions)
    samples = [
        {
            "prompt": _shown(loaded.prompts[at]),
            "written": written[at],
            "answers": list(questions[at].answers),
            **{name: float(each[at]) for name, each in values.items()},
        }
        for at in _spread(len(questions))
    ]
    unread = sum(one.unread > 0 for one in found)
    limited = sum(one.ended_by == "limit" for one in found)
    notes = [*_unread_note(unread), *_unknown_note(loaded)]
    if limited:
        notes.append(
            f"{many(limited, 'answer')} ended after {section.tokens} tokens, not by itself"
        )
    return Replies(values, tuple(samples), tuple(notes))


def _unread_note(count: int) -> list[str]:
    said = "lost its beginning" if count == 1 else "lost their beginning"
    return [f"{many(count, 'prompt')} {said}: the context is full"] if count else []


def _unknown_note(loaded: LoadedQuestions) -> list[str]:
    """Questions with characters that no training text holds."""
    vocabulary = loaded.writer.encoding.vocabulary
    if vocabulary.kind != "characters":
        return []
    pairs = zip(loaded.prompts, loaded.file.questions, strict=True)
    texts = ["".join((*pieces, *one.choices)) for pieces, one in pairs]
    count = sum(bool((tokens == UNKNOWN).any()) for tokens in vocabulary.encode_each(texts))
    return [f"{many(count, 'question')} with characters that no training text holds"] * bool(count)


def _shown(pieces: Sequence[str]) -> str:
    return "".join(pieces)[-_SHOWN:]


def _spread(count: int) -> list[int]:
    """Some of the questions, from the first to the last."""
    places = np.linspace(0, count - 1, min(count, _SAMPLES))
    return sorted({int(one) for one in places})


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
