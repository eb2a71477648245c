"""`evaluate --questions` and `--harness`: answers of a run's model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainwright.cli.arguments import naming_damage
from trainwright.cli.render import say, show_decisive, show_json, show_table
from trainwright.core.errors import EXIT_DONE, EXIT_VERDICT_NOT_MET, Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many, show_number
from trainwright.core.lazy_imports import need_torch
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.run.folder.planned_contract import find_run

if TYPE_CHECKING:
    from trainwright.predictor.text_generation import Continuation
    from trainwright.run.after.evaluate_questions import AnsweredQuestions
    from trainwright.run.after.generate_text import Asked

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


def show_harness(run: str, runs: Path, task: Path, *, as_json: bool) -> int:
    """Values with intervals; the exit code. The harness has no targets, so there is no verdict."""
    need_torch("", "a decoder")
    from trainwright.run.after.evaluate_harness import evaluate_harness

    folder = find_run(run, runs)
    with naming_damage(folder):
        scores = evaluate_harness(folder, task)
    if as_json:
        show_json(scores.to_json())
        return EXIT_DONE
    for name, metrics in scores.metrics.items():
        say("task", f"{name} · {many(scores.rows[name], 'row')}")
        rows = [[metric, show_number(one.value), one.bounds] for metric, one in metrics.items()]
        show_table(["", "value", f"{scores.confidence:.0%} interval"], rows, named="first")
    return EXIT_DONE


def tell_doubts(found: Continuation, what: str) -> None:
    """What of a prompt was not read, on stderr."""
    from trainwright.run.screen import labelled

    if found.unread:
        text = f"the first {found.unread:,} tokens of {what} are not read: the context is full"
        sys.stderr.write(labelled("warning", text) + "\n")
    if found.unknown:
        text = f"{found.unknown:,} characters of {what} are in no training text"
        sys.stderr.write(labelled("warning", text) + "\n")


def describe_text(prompt: Asked, found: Continuation) -> dict[str, object]:
    """A text with its prompt, as JSON."""
    return {
        "prompt": prompt.given,
        "text": found.text,
        "tokens": found.tokens,
        "ended_by": found.ended_by,
    }
