"""Questions that a decoder answered, and texts that it wrote, as table rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.question_scores import QuestionScores
from trainwright.report.figures.bars import draw_bar, scale_of
from trainwright.report.format import count_text, show_range, show_value
from trainwright.report.sections.verdict_section import Row


@final
@dataclass(frozen=True, slots=True)
class Reply:
    """A prompt, what the model answered or wrote after it, and what was right or stood there."""

    prompt: str
    written: str
    wanted: str
    doubt: str = ""


@final
@dataclass(frozen=True, slots=True)
class QuestionTable:
    """A set of questions: `values` are its metrics, `compared` and `gains` the judged metric of
    what stands beside the model and the difference to it, `about` how contamination was looked
    for."""

    name: str
    questions: str
    metric: str
    about: str
    values: tuple[Row, ...]
    compared: tuple[Row, ...]
    gains: tuple[Row, ...]
    slices: tuple[Row, ...]
    replies: tuple[Reply, ...]


def view_questions(stored: Sequence[Json]) -> tuple[QuestionTable, ...]:
    """Every set of questions in `evaluation.json`."""
    return tuple(_table(one, QuestionScores.from_json(one)) for one in stored)


def view_samples(stored: Sequence[Json]) -> tuple[Reply, ...]:
    """Texts that the model wrote after beginnings of test rows."""
    return tuple(
        Reply(
            str(one["prompt"]),
            str(one["written"]),
            str(one["reference"]),
            "" if one["ended_by"] == "stop" else "cut",
        )
        for one in stored
    )


def _table(json: Json, scores: QuestionScores) -> QuestionTable:
    judged = scores.metric
    beside = {who: each[judged] for who, each in scores.beside.items()}
    gains = {who: each[judged] for who, each in scores.gains.items()}
    slices = {name: one for name, _, one in scores.slices}
    counts = [rows for _, rows, _ in scores.slices]
    searched = json.get("searched", "")
    about = f"{scores.contaminated:,} of them found in the training text ({searched})."
    return QuestionTable(
        name=scores.name,
        questions=count_text(scores.questions, "question", "questions"),
        metric=judged,
        about=about if searched else "",
        values=_rows(scores.metrics),
        compared=_rows(beside),
        gains=_rows(gains, 0.0),
        slices=_rows(slices, counts=counts),
        replies=tuple(map(_reply, scores.samples)),
    )


def _rows(
    intervals: Mapping[str, Interval], target: float = math.nan, counts: Sequence[int] = ()
) -> tuple[Row, ...]:
    if not intervals:
        return ()
    targets = [] if math.isnan(target) else [target]
    scale = scale_of(list(intervals.values()), targets)
    rows = counts or [0] * len(intervals)
    return tuple(
        Row(name, show_value(one.value), show_range(one), draw_bar(one, target, scale), rows=count)
        for (name, one), count in zip(intervals.items(), rows, strict=True)
    )


def _reply(sample: Json) -> Reply:
    prompt = str(sample["prompt"])
    if "choices" not in sample:
        return Reply(prompt, str(sample["written"]), "; ".join(map(str, sample["answers"])))
    choices = [str(one) for one in sample["choices"]]
    chosen, right = int(sample["chosen"]["acc"]), int(sample["right"])
    return Reply(prompt, choices[chosen], choices[right])
