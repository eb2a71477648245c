"""`evaluate --questions`: answers of a run's model to the questions of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainwright.cli.output.damage import naming_damage
from trainwright.cli.output.render import say, show_decisive, show_json, show_table
from trainwright.core.errors import EXIT_DONE, EXIT_VERDICT_NOT_MET, Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many, show_number
from trainwright.core.optional_dependencies import need_torch
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.run.folder.planned_contract import find_run

if TYPE_CHECKING:
    from trainwright.run.after.evaluate_questions import AnsweredQuestions

_SHOWN = 2
_PROMPT = 300


class AskedFile(NamedTuple):
    """The file of the questions, the runs to compare with, and the rows to judge on, of which
    there are none."""

    questions: str
    against: Sequence[str]
    data: str


def show_questions(
    run: str, runs: Path, asked: AskedFile, overrides: Sequence[str], *, as_json: bool
) -> int:
    """Scores, clauses and some answers; the exit code."""
    _check_asked(asked)
    need_torch("", "a decoder")
    from trainwright.run.after.evaluate_questions import evaluate_questions

    folder, others = find_run(run, runs), [find_run(one, runs) for one in asked.against]
    with naming_damage(folder, *others):
        answered = evaluate_questions(folder, asked.questions, overrides, others)
    if as_json:
        show_json(answered.to_json())
    else:
        _show(answered)
    return EXIT_DONE if answered.verdict.status == "met" else EXIT_VERDICT_NOT_MET


def _check_asked(asked: AskedFile) -> None:
    if asked.questions and not asked.data:
        return
    raise Mistake(
        Problem(
            "a run is judged on rows or on questions",
            found="both" if asked.questions and asked.data else "--against without questions",
            expected="a file of questions, and no rows beside it",
            fix="trainwright evaluate RUN --questions FILE",
        )
    )


def _show(answered: AnsweredQuestions) -> None:
    scores = answered.judged.scores
    say("questions", f"{scores.name} · {many(scores.questions, 'question')}")
    for sample in scores.samples[:_SHOWN]:
        say("sample", _sample(sample))
    show_decisive(answered.verdict)
    for warning in answered.warnings:
        say("warning", warning, "yellow")
    interval = f"{answered.confidence:.0%} interval"
    rows = [
        [name, show_number(one.value), one.bounds, *_values(scores.beside.values(), name)]
        for name, one in scores.metrics.items()
    ]
    show_table(["", "value", interval, *scores.beside], rows, named="first")
    for name, count, one in scores.slices:
        say("slice", f"{name} · {many(count, 'question')} · {show_number(one.value)}, {one.bounds}")
    if clauses := answered.verdict.clauses:
        lines = [
            [one.name, show_number(one.interval.value), one.interval.bounds, one.status]
            for one in clauses
        ]
        show_table(["clause", "value", interval, "status"], lines, named="first")
        say("verdict", answered.verdict.status.upper())


def _values(beside: Iterable[Mapping[str, Interval]], name: str) -> list[str]:
    return [show_number(each[name].value) for each in beside]


def _sample(sample: Json) -> str:
    prompt = str(sample["prompt"])[-_PROMPT:]
    if "choices" in sample:
        choices, chosen = sample["choices"], sample["chosen"]["acc"]
        return f"{prompt} -> {choices[chosen]} (right: {choices[sample['right']]})"
    return f"{prompt} -> {sample['written']} (right: {', '.join(sample['answers'])})"
