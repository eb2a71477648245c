"""`questions`: what a decoder must answer, besides its metric."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, Section

OF_CHOICES = ("acc", "acc_norm", "acc_bytes", "acc_tokens")
"""Metrics of questions with choices: the likeliest of them is the answer."""

OF_ANSWERS = ("exact_match", "token_f1")
"""Metrics of questions with reference answers, of what the model writes."""

QuestionMetric = Literal["acc", "acc_norm", "acc_bytes", "acc_tokens", "exact_match", "token_f1"]
Labels = Literal["text", "index", "letter"]


class FewShot(Section):
    """Answered questions that stand before each question (Brown et al. 2020, arXiv:2005.14165,
    section 2)."""

    path: str
    """A file of the same columns; none of its questions may be among those that are judged."""

    count: Annotated[int, Field(ge=1, le=100)] = 5
    """How many of them, drawn for each question by the contract's `seed` and the question's row."""


class QuestionSet(Section):
    """Questions of a file, a row each, that the trained decoder answers when it is judged: with
    `choices`, of which it takes the likeliest, or with reference answers, which it has to write.

    A choice is scored by the log-probability of its tokens after the prompt, as in the
    lm-evaluation-harness: `acc` takes the largest sum, `acc_norm` the largest sum a character,
    `acc_bytes` a byte of UTF-8 and `acc_tokens` a token. `exact_match` and `token_f1` compare what
    is written with the nearest reference, both normalised as for SQuAD (Rajpurkar et al. 2016,
    arXiv:1606.05250, section 6.1): lower case, without punctuation, articles and further spaces."""

    path: str
    """A `.jsonl`, `.csv` or `.parquet` file, relative to the contract's folder."""

    name: str = ""
    """What the questions are called; empty: the file's name without its ending."""

    metric: Auto | QuestionMetric = "auto"
    """What is judged; the others of its kind are reported. `auto`: `acc` of choices, `exact_match`
    of answers."""

    target: Literal["none", "baseline", "every_baseline"] | float = "every_baseline"
    """Target value. `baseline`: better than chance, or than the most frequent reference answer.
    `every_baseline`: of choices also better than the longest one and than the commonest place of
    the right one. `none`: reported and not judged."""

    question: str = "question"
    """Column of the question."""

    choices: str = "choices"
    """Column of the choices, a list; questions without this column have reference answers."""

    answer: str = "answer"
    """Column of the answer: of choices which one is right, else a text, or a list of texts of which
    each is right."""

    labels: Auto | Labels = "auto"
    """How `answer` names the right choice: by its `text`, by its `index` (counted from 0) or by a
    `letter` (A is the first). `auto`: the one that fits every row; refused where two do and
    differ."""

    prompt: str = "auto"
    """What the model reads, with columns in braces. `auto`: `Question: {question}`, a line break
    and `Answer:`; of chats the question itself, as a message of the user."""

    delimiter: str = "auto"
    """What stands between the prompt and a choice, and is scored with it. `auto`: a space; in chats
    nothing."""

    examples: Literal["none"] | FewShot = "none"
    """Answered questions before each question; in chats earlier turns."""

    stop: tuple[str, ...] = ("\n",)
    """What ends a written answer, besides the end of a document or of a turn."""

    tokens: Count = 32
    """Most tokens of a written answer, which is decoded greedily."""

    group: str = ""
    """Column of what several questions share, such as a passage: they are drawn together by the
    bootstrap. Empty: each question is by itself."""

    slice_by: tuple[str, ...] = ()
    """Columns by whose values the metric is reported too."""
