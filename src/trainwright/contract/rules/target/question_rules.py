"""Rules on `questions`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import QuestionSet
from trainwright.core.errors import Problem


def question_names(questions: tuple[QuestionSet, ...]) -> tuple[str, ...]:
    """What each set of questions is called."""
    return tuple(one.name or PurePath(one.path).stem for one in questions)


def check_questions(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Questions are for models that continue a text, and each set has a name of its own."""
    if not contract.questions:
        return
    if not contract.model.traits.writes_text:
        yield Problem(
            f"a model of kind {contract.model.kind} answers no questions",
            path="questions",
            found=f"model.kind {contract.model.kind}",
            expected="a decoder, model.kind: gpt",
            fix="remove questions",
        )
        return
    names = question_names(contract.questions)
    for at, (name, one) in enumerate(zip(names, contract.questions, strict=True)):
        path = f"questions.{at}"
        if name in names[:at]:
            yield Problem(
                f"two sets of questions are called {name!r}",
                path=path,
                expected="a name for each",
                fix=f"write name: {name}-{at + 1}",
            )
        if isinstance(one.target, float) and not 0 <= one.target <= 1:
            yield Problem(
                "a share of questions lies between 0 and 1",
                path=f"{path}.target",
                found=f"{one.target:g}",
                fix="write for example 0.5",
            )
