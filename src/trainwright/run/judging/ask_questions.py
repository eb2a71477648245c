"""A decoder answers questions. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.encoders.vocabulary import UNKNOWN
from trainwright.evaluation.metrics.answer_values import (
    Values,
    choose,
    values_of_answers,
    values_of_choices,
)
from trainwright.predictor.continuation_likelihood import likelihood_scorer
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DOCUMENT_END, DecodingOptions, text_generator
from trainwright.run.prepare.question_sets import LoadedQuestions

_SAMPLES = 6
_SHOWN = 2000


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
