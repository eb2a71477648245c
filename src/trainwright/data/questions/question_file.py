"""Questions of a file, with choices or with reference answers, and how written answers are
compared.

Written answers are normalised as for SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250, section
6.1).
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import final

from trainwright.contract.sections.data.sources import USUAL
from trainwright.contract.sections.metric import Labels, QuestionSet
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.messages import nearest_option
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import FileVersion, SourceFile

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MOST_PROBLEMS = 6
_READING = USUAL.model_copy(update={"nested": "text"})


def normalise_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, the articles a, an and the, and further spaces."""
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


@final
@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """A question. With `choices`, `right` is the number of the right one, else 0; `answers` are the
    texts that are right. `cells` are all columns of its row, `row` its number (0-based)."""

    text: str
    choices: tuple[str, ...]
    right: int
    answers: tuple[str, ...]
    cells: Mapping[str, str]
    row: int


@final
@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The questions of a file, all with choices or all without."""

    questions: tuple[ReadQuestion, ...]
    version: FileVersion

    @property
    def has_choices(self) -> bool:
        """Is one of several choices right?"""
        return bool(self.questions[0].choices)


class _Unreadable(ValueError):
    """What is wrong with a row."""

    def __init__(self, message: str, found: str, expected: str, fix: str) -> None:
        super().__init__(message)
        self.problem = Problem(message, "", found, expected, fix)


def read_questions(section: QuestionSet, path: str, folder: Path, where: str) -> QuestionFile:
    """The questions of the file `path`, by the columns of the section; `where` is the contract path
    to blame.

    Raises:
        DataMistake: it cannot be read, lacks a column, or has rows that are no questions; the first
            few are named.
    """
    source = read_source(path, folder, f"{where}.path", _READING)
    needed = {"question": section.question, "answer": section.answer, "group": section.group}
    needed |= {f"slice_by.{at}": name for at, name in enumerate(section.slice_by)}
    _check_columns(needed, source, where)
    has_choices = section.choices in source.frame.columns
    read = _with_choices if has_choices else _with_answers
    found: list[ReadQuestion] = []
    problems: list[Problem] = []
    for row, values in enumerate(source.frame.iter_rows(named=True)):
        cells = {name: "" if value is None else str(value) for name, value in values.items()}
        try:
            found.append(read(section, cells, row))
        except _Unreadable as wrong:
            place = source.place(row)
            problems.append(replace(wrong.problem, path=f"{where}.path", place=place))
            if len(problems) == _MOST_PROBLEMS:
                break
    if not found and not problems:
        problems = [Problem("the file has no questions", f"{where}.path", found=path)]
    if problems:
        raise DataMistake(problems)
    questions = _labelled(found, section, where) if has_choices else found
    return QuestionFile(tuple(questions), source.version)


def _check_columns(needed: Mapping[str, str], source: SourceFile, where: str) -> None:
    columns = source.frame.columns
    problems = [
        Problem(
            f"the file has no column {name!r}",
            path=f"{where}.{key}",
            found=", ".join(columns[:10]),
            fix=_nearest(name, columns),
            place=source.place(),
        )
        for key, name in needed.items()
        if name and name not in columns
    ]
    if problems:
        raise DataMistake(problems)


def _nearest(name: str, columns: Sequence[str]) -> str:
    near = nearest_option(name, columns)
    return f"did you mean {near!r}?" if near else "name one of its columns"


def _with_choices(section: QuestionSet, cells: Mapping[str, str], row: int) -> ReadQuestion:
    text = _text_of(section, cells)
    choices = _listed(cells[section.choices])
    if len(choices) < 2:
        raise _Unreadable(
            "a question has fewer than two choices",
            repr(cells[section.choices])[:80],
            'a list of texts in JSON, for example ["yes", "no"]',
            "write them as a list",
        )
    if not all(choices) or len(set(choices)) < len(choices):
        raise _Unreadable(
            "two choices of a question are the same, or one is empty",
            repr(cells[section.choices])[:80],
            "different texts",
            "repair the row, or remove it",
        )
    return ReadQuestion(text, choices, 0, (), MappingProxyType(dict(cells)), row)


def _with_answers(section: QuestionSet, cells: Mapping[str, str], row: int) -> ReadQuestion:
    text, written = _text_of(section, cells), cells[section.answer]
    answers = _listed(written) or (written,)
    if not all(normalise_answer(one) for one in answers):
        raise _Unreadable(
            "nothing remains of a reference answer without articles and punctuation",
            repr(written)[:80],
            "a text with another word or a number",
            "repair the row, remove it, or give it choices",
        )
    return ReadQuestion(text, (), 0, answers, MappingProxyType(dict(cells)), row)


def _text_of(section: QuestionSet, cells: Mapping[str, str]) -> str:
    if text := cells[section.question]:
        return text
    raise _Unreadable("a question is empty", "''", "a text", "repair the row, or remove it")


def _listed(cell: str) -> tuple[str, ...]:
    """The texts of a JSON list; none of another value."""
    if not cell.startswith("["):
        return ()
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return ()
    return tuple(one if isinstance(one, str) else json.dumps(one) for one in found)


def _by_text(question: ReadQuestion, label: str) -> int:
    return question.choices.index(label)


def _by_index(question: ReadQuestion, label: str) -> int:
    at = int(label)
    if not 0 <= at < len(question.choices):
        raise ValueError(label)
    return at


def _by_letter(question: ReadQuestion, label: str) -> int:
    at = string.ascii_uppercase.index(label)
    if len(label) != 1 or at >= len(question.choices):
        raise ValueError(label)
    return at


_READERS: Mapping[Labels, Callable[[ReadQuestion, str], int]] = MappingProxyType(
    {"text": _by_text, "index": _by_index, "letter": _by_letter}
)


def _labelled(
    questions: Sequence[ReadQuestion], section: QuestionSet, where: str
) -> Iterator[ReadQuestion]:
    """The questions with their right choices.

    Raises:
        DataMistake: no way of reading the labels fits, or two do.
    """
    labels = [one.cells[section.answer] for one in questions]
    tried = _READERS if section.labels == "auto" else {section.labels: _READERS[section.labels]}
    found = {name: _read_labels(read, questions, labels) for name, read in tried.items()}
    fitting = {name: rights for name, rights in found.items() if len(rights) == len(labels)}
    if not fitting:
        best = max(found.values(), key=len)
        raise DataMistake(
            Problem(
                "an answer names none of the choices",
                path=f"{where}.answer",
                found=f"{labels[len(best)]!r:.60} in row {questions[len(best)].row + 1}",
                expected=f"the {', '.join(tried)} of a choice",
                fix="repair the row, or remove it",
            )
        )
    if len(set(fitting.values())) > 1:
        names = sorted(fitting)
        raise DataMistake(
            Problem(
                f"answers can be read as the {' or the '.join(names)} of a choice, which differ",
                path=f"{where}.labels",
                found="auto",
                fix=" or ".join(f"write {where}.labels: {name}" for name in names),
            )
        )
    (rights, *_) = fitting.values()
    for question, right in zip(questions, rights, strict=True):
        yield replace(question, right=right, answers=(question.choices[right],))


def _read_labels(
    read: Callable[[ReadQuestion, str], int],
    questions: Sequence[ReadQuestion],
    labels: Sequence[str],
) -> tuple[int, ...]:
    """The numbers of the right choices, up to the first label that names none."""
    found = []
    for question, label in zip(questions, labels, strict=True):
        try:
            found.append(read(question, label))
        except ValueError:
            break
    return tuple(found)
