"""What a decoder reads of a question: the prompt with its examples, and the choices behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from trainwright.contract.sections.metric import QuestionSet
from trainwright.core.errors import DataMistake, Mistake, Problem
from trainwright.data.base.messages import some
from trainwright.data.base.token_inputs import Tokens
from trainwright.data.encoders.vocabulary import TextVocabulary, TokenEncoding
from trainwright.data.questions.question_file import QuestionFile, ReadQuestion

_COLUMN = re.compile(r"\{([^{}]+)\}")
_BETWEEN = "\n\n"
"""Between an example and what follows, as in the lm-evaluation-harness."""


@final
@dataclass(frozen=True, slots=True)
class PromptWriter:
    """Writes prompts for a model with this encoding. `examples` are drawn for each question by
    `seed` and its row."""

    section: QuestionSet
    encoding: TokenEncoding
    examples: tuple[ReadQuestion, ...] = ()
    seed: int = 0

    def write(self, question: ReadQuestion) -> tuple[str, ...]:
        """The prompt in pieces, between which no token reaches; of texts it is one.

        Raises:
            Mistake: a question holds a mark of the template.
        """
        shown = self._drawn(question.row)
        asked = [(self._filled(one), one.answers[0]) for one in shown]
        if not self.encoding.has_turns:
            before = (f"{text}{self.delimiter}{answer}{_BETWEEN}" for text, answer in asked)
            return ("".join([*before, self._filled(question)]),)
        messages = [
            {"role": role, "content": content}
            for turns in asked
            for role, content in zip(("user", "assistant"), turns, strict=True)
        ]
        messages.append({"role": "user", "content": self._filled(question)})
        return tuple(self.encoding.ask(json.dumps(messages)))

    @property
    def delimiter(self) -> str:
        """Between a prompt and its answer."""
        if self.section.delimiter != "auto":
            return self.section.delimiter
        return "" if self.encoding.has_turns else " "

    @property
    def _template(self) -> str:
        if self.section.prompt != "auto":
            return self.section.prompt
        question = f"{{{self.section.question}}}"
        return question if self.encoding.has_turns else f"Question: {question}\nAnswer:"

    def _filled(self, question: ReadQuestion) -> str:
        return _COLUMN.sub(lambda found: question.cells[found[1]], self._template)

    def _drawn(self, row: int) -> Sequence[ReadQuestion]:
        if self.section.examples == "none":
            return ()
        generator = np.random.default_rng([self.seed, row, 0x66657773])
        chosen = generator.permutation(len(self.examples))[: self.section.examples.count]
        return [self.examples[at] for at in chosen.tolist()]

    def check(self, asked: QuestionFile, where: str) -> None:
        """Check the prompt against the columns, and the examples against the questions.

        Raises:
            DataMistake: a name in braces is no column, or an example is one of the questions.
        """
        for column in _COLUMN.findall(self._template):
            for each in (asked.questions[0], *self.examples[:1]):
                if column not in each.cells:
                    raise _unknown_column(column, each.cells, where)
        if self.section.examples == "none":
            return
        known = {one.text for one in asked.questions}
        if repeated := [one.row + 1 for one in self.examples if one.text in known]:
            raise DataMistake(
                Problem(
                    "some examples are among the questions that are judged",
                    path=f"{where}.examples.path",
                    found=f"rows {some(repeated)} of {self.section.examples.path}",
                    expected="other questions",
                    fix="name a file of other questions, or remove examples",
                )
            )
        if len(self.examples) < self.section.examples.count:
            raise DataMistake(
                Problem(
                    "the file has fewer examples than stand before a question",
                    path=f"{where}.examples.count",
                    found=f"{len(self.examples)} rows, count {self.section.examples.count}",
                    fix=f"change it to {len(self.examples)}",
                )
            )


def _unknown_column(column: str, cells: Mapping[str, str], where: str) -> DataMistake:
    return DataMistake(
        Problem(
            f"the prompt names a column {column!r} that the questions lack",
            path=f"{where}.prompt",
            found=", ".join(cells),
            expected="names of columns in braces",
            fix="remove prompt, or name one of its columns",
        )
    )


def encode_continuation(
    vocabulary: TextVocabulary, pieces: Sequence[str], continuation: str
) -> tuple[Tokens, Tokens]:
    """The tokens of a prompt [P] and of what continues it [C].

    One piece and its continuation are tokenised together, so that a token may reach over the
    border: what stands behind the tokens of the prompt alone is the continuation, and spaces at the
    end of the prompt belong to it, as in the lm-evaluation-harness (`TemplateLM._encode_pair`).
    Where that leaves it without a token, and of several pieces, the parts are tokenised apart.
    """
    if len(pieces) == 1:
        (prompt,) = pieces
        kept = prompt.rstrip()
        before, whole = vocabulary.encode_each([kept, prompt + continuation])
        if len(before) and len(whole) > len(before):
            return whole[: len(before)], whole[len(before) :]
    *read, last = vocabulary.encode_each([*pieces, continuation])
    return np.concatenate(read), last


def asked_of(mistake: Mistake, where: str) -> DataMistake:
    """The same problems, of a set of questions."""
    return DataMistake(replace(one, path=f"{where}.path") for one in mistake.problems)
