"""Texts that a decoder writes when it is judged: answers and samples. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.data.base.inputs import Part
from trainwright.data.base.token_inputs import TokenInputs, Tokens
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DOCUMENT_END, DecodingOptions, text_generator
from trainwright.run.judging.judge_questions import Examination, search_in, with_questions
from trainwright.run.prepare.prepare_run import Ready

_ROWS, _TOKENS, _PROMPT = 3, 40, 32
_LONGEST = 2000


def write_samples(predictor: Predictor, part: Part) -> list[Json]:
    """Of a few rows of a part, from its beginning to its end, the prompt, what the model writes
    after it and what stands there.

    Of a chat the prompt is what comes before an answer, and tokens are chosen greedily; of a text
    it is the beginning of a segment, and they are drawn at the temperature 0.8 from the likeliest
    that reach 0.95 (always the same ones).
    """
    encoding = TokenEncoding.of_kind(predictor.features)
    chats, ends = encoding.has_turns, (DOCUMENT_END, *filter(None, [encoding.turn_end]))
    decoding = DecodingOptions(
        _TOKENS, temperature=0.0 if chats else 0.8, top_p=1.0 if chats else 0.95, stop=ends
    )
    generator, vocabulary = text_generator(predictor, encoding, decoding), encoding.vocabulary
    rows = np.unique(np.linspace(0, len(part) - 1, min(_ROWS, len(part))).astype(int)).tolist()
    samples: list[Json] = []
    for row in rows:
        prompt, reference = _divided(part, row, whole=chats)
        if not len(prompt):
            continue
        written = generator.go_on(prompt, row)
        samples.append(
            {
                "prompt": vocabulary.decode(prompt)[-_LONGEST:],
                "written": written.text,
                "ended_by": written.ended_by,
                "reference": vocabulary.decode(reference[: 2 * _TOKENS])[:_LONGEST],
            }
        )
    return samples


def _divided(part: Part, row: int, *, whole: bool) -> tuple[Tokens, Tokens]:
    """The prompt of a row and what follows it: all that comes before an answer and the answer, or
    the beginning of a segment and its rest."""
    segments = TokenInputs.of_kind(part.inputs.segments)
    # The chosen answer of a pair comes before the rejected one.
    at = row * (len(segments) // len(part))
    start = int(segments.starts[at])
    stop = start + int(segments.lengths[at])
    begin = int(segments.documents[segments.owners()[at]])
    if whole:
        return segments.tokens[begin:start], segments.tokens[start:stop]
    middle = start + min(_PROMPT, (stop - start) // 2)
    return segments.tokens[start - 1 : middle], segments.tokens[middle:stop]


def _samples(predictor: Predictor, test: Part) -> list[Json]:
    """Texts of the model; none by one that can be trained and does not write, such as a model of
    transformers without a cache of keys and values."""
    try:
        return write_samples(predictor, test)
    except Mistake:
        return []


def judge_texts(
    ready: Ready, predictor: Predictor, verdict: Verdict, evaluation: Evaluation
) -> tuple[Verdict, Evaluation, Mapping[str, Json]]:
    """The verdict with the questions of the contract, the evaluation with their doubts, and for
    `evaluation.json` their scores, and texts that the model writes after beginnings of test rows.

    Raises:
        Mistake: memory does not suffice.
    """
    contract, prepared = ready.plan.contract, ready.prepared
    texts: dict[str, Json] = {"samples": _samples(predictor, prepared.test)}
    if not ready.questions:
        return verdict, evaluation, texts
    search = search_in(prepared.train.inputs, prepared.features)
    judged = Examination(contract.metric, contract.seed, search).judge(ready.questions, predictor)
    accept = contract.data.audit.accept
    verdict, warnings = with_questions(judged, verdict, accept)
    evaluation = replace(evaluation, warnings=(*warnings, *evaluation.warnings))
    texts["questions"] = [
        {**one.scores.to_json(), "file": asked.file.version.to_json(), "searched": one.searched}
        for one, asked in zip(judged, ready.questions, strict=True)
    ]
    return verdict, evaluation, texts
