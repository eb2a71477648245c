"""What a vision-language model writes of the images of test rows. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import QuestionSet
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import ImageInputs, Part
from trainwright.data.base.pair_inputs import OTHER_IMAGES, CaptionInputs
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.captions.caption_encoding import CaptionEncoding, CaptionText
from trainwright.data.questions.question_file import ReadQuestion
from trainwright.evaluation.metrics.answer_values import baselines_of, values_of_answers
from trainwright.evaluation.question_scores import AnsweredSet, score_questions
from trainwright.predictor.image_captions import CaptionWriter
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DecodingOptions

_MOST, _SAMPLES = 200, 6


def judge_captions(contract: Contract, predictor: Predictor, test: Part) -> Mapping[str, Json]:
    """For `evaluation.json`: exact match and token F1 of greedily written captions, with intervals
    over the units of the test rows, beside the most frequent caption and beside what the model
    writes of the images of other rows. Of more than 200 rows as many are asked, evenly spread; a
    text has at most as many tokens as the longest of their captions.

    Raises:
        Mistake: memory does not suffice.
    """
    rows = spread_rows(len(test), min(_MOST, len(test)))
    inputs = CaptionInputs.of_kind(test.inputs)
    text = CaptionEncoding.of_kind(predictor.features).text
    frame = test.frame[rows]
    asked, wanted = text.questions(frame), frame[text.caption].to_list()
    longest = int(inputs.texts.take(rows).lengths.max(initial=1))
    writer = CaptionWriter(predictor, DecodingOptions(longest, temperature=0.0))
    written = _written(writer, inputs.images.take(rows), asked)
    others = inputs.images.take(inputs.other_images()[rows])
    questions = [
        ReadQuestion(question, (), 0, (answer,), {}, row)
        for row, (question, answer) in enumerate(zip(asked, wanted, strict=True))
    ]
    values = values_of_answers(written, questions)
    answered = AnsweredSet(
        name="captions",
        values=values,
        beside={
            **baselines_of(questions),
            OTHER_IMAGES: values_of_answers(_written(writer, others, asked), questions),
        },
        units=test.units[rows],
        contaminated=np.zeros(len(rows), np.bool_),
        samples=tuple(_samples(text, asked, written, wanted)),
        notes=_asked_note(len(rows), len(test)),
    )
    section = QuestionSet(path="", target="none")
    scores, *_ = score_questions(answered, section, contract.metric, contract.seed)
    return {"questions": [scores.to_json()]}


def _written(writer: CaptionWriter, images: ImageInputs, asked: Sequence[str]) -> list[str]:
    """What is written of each image."""
    return [
        writer.write(images.copied(at, at + 1)[0], question).text.strip()
        for at, question in enumerate(asked)
    ]


def _samples(
    text: CaptionText, asked: Sequence[str], written: Sequence[str], wanted: Sequence[str]
) -> list[Json]:
    """Some of them, from the first to the last."""
    places = sorted({int(one) for one in np.linspace(0, len(asked) - 1, _SAMPLES)})
    return [
        {
            "prompt": asked[at] + text.prompt,
            "written": written[at],
            "answers": [wanted[at]],
        }
        for at in places
    ]


def _asked_note(rows: int, of: int) -> tuple[str, ...]:
    if rows == of:
        return ()
    return (f"written of {many(rows, 'image')} of {of:,}, evenly spread",)
