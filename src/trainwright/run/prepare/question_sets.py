"""The sets of questions of a contract: read, and checked against the model that answers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.rules.target.question_rules import question_names
from trainwright.contract.sections.metric import OF_ANSWERS, OF_CHOICES, QuestionSet
from trainwright.core.errors import ContractMistake, DataMistake, Mistake, Problem
from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import Tokens
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.data.questions.prompts import PromptWriter, asked_of, encode_continuation
from trainwright.data.questions.question_file import QuestionFile, read_questions


@final
@dataclass(frozen=True, slots=True)
class LoadedQuestions:
    """A set of questions with its prompts in pieces [N], as a model with this encoding reads
    them; `where` is its path in the contract."""

    section: QuestionSet
    name: str
    where: str
    file: QuestionFile
    writer: PromptWriter
    prompts: tuple[tuple[str, ...], ...]

    def units(self) -> Integers:
        """What the bootstrap draws: questions, or groups of them."""
        if not self.section.group:
            return np.arange(len(self.prompts))
        groups = [one.cells[self.section.group] for one in self.file.questions]
        return np.unique(groups, return_inverse=True)[1].astype(np.int64)

    def encoded_choices(self) -> list[list[tuple[Tokens, Tokens]]]:
        """Tokens of the prompt and of each choice behind it, a list a question."""
        vocabulary, delimiter = self.writer.encoding.vocabulary, self.writer.delimiter
        return [
            [encode_continuation(vocabulary, pieces, delimiter + one) for one in question.choices]
            for question, pieces in zip(self.file.questions, self.prompts, strict=True)
        ]


def load_questions(
    contract: Contract, folder: Path, encoding: Encoding
) -> tuple[LoadedQuestions, ...]:
    """Every set of questions of a contract, relative to `folder`.

    Raises:
        Mistake: a file cannot be read, or the model cannot answer its questions.
    """
    names = question_names(contract.questions)
    loaded = []
    for at, (name, section) in enumerate(zip(names, contract.questions, strict=True)):
        where = f"questions.{at}"
        file = read_questions(section, section.path, folder, where)
        _check_metric(section, file, where)
        shown = section.examples
        examples = (
            () if shown == "none" else read_questions(section, shown.path, folder, where).questions
        )
        writer = PromptWriter(section, TokenEncoding.of_kind(encoding), examples, contract.seed)
        writer.check(file, where)
        try:
            prompts = tuple(writer.write(one) for one in file.questions)
        except Mistake as mistake:
            raise asked_of(mistake, where) from mistake
        one = LoadedQuestions(section, name, where, file, writer, prompts)
        _check_lengths(one, contract.model.context_length)
        loaded.append(one)
    return tuple(loaded)


def _check_metric(section: QuestionSet, file: QuestionFile, where: str) -> None:
    known: Sequence[str] = OF_CHOICES if file.has_choices else OF_ANSWERS
    if section.metric != "auto" and section.metric not in known:
        kind = "choices" if file.has_choices else "reference answers"
        raise ContractMistake(
            Problem(
                f"questions with {kind} have no {section.metric}",
                path=f"{where}.metric",
                found=section.metric,
                expected=", ".join(known),
                fix=f"write {where}.metric: {known[0]}",
            )
        )


def _check_lengths(loaded: LoadedQuestions, context: int) -> None:
    """Refuse choices that the model cannot read whole."""
    for question, encoded in zip(loaded.file.questions, loaded.encoded_choices(), strict=True):
        longest = max((len(one) for _, one in encoded), default=0)
        if longest > context:
            raise DataMistake(
                Problem(
                    "a choice is longer than the model reads",
                    path=f"{loaded.where}.path",
                    found=f"{longest:,} tokens in row {question.row + 1}",
                    expected=f"at most {context:,}, the context",
                    fix="shorten the choice, or remove the row",
                )
            )
