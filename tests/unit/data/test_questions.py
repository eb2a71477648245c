"""Files of questions, their prompts and tokens, and questions in the training text."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from trainwright.contract.sections.metric import FewShot, QuestionSet
from trainwright.core.errors import DataMistake
from trainwright.data.audit.question_overlap import overlapping_questions
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.encoders.vocabulary import TextVocabulary, fit_characters
from trainwright.data.questions.prompts import PromptWriter, encode_continuation
from trainwright.data.questions.question_file import QuestionFile, ReadQuestion, read_questions

BYTES = TextVocabulary("bytes")


def read(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> QuestionFile:
    path = folder / "asked.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_questions(QuestionSet(path="asked.jsonl", **keys), path.name, folder, "questions.0")


@pytest.mark.parametrize(
    ("answers", "labels"),
    [([1, 0], "auto"), (["no", "up"], "auto"), (["B", "A"], "letter"), (["1", "0"], "index")],
)
def test_the_right_choice_is_named_by_text_index_or_letter(
    tmp_path: Path, answers: list[Any], labels: str
) -> None:
    rows = [
        {"question": "a?", "choices": ["yes", "no"], "answer": answers[0]},
        {"question": "b?", "choices": ["up", "down", "off"], "answer": answers[1]},
    ]
    found = read(tmp_path, rows, labels=labels)
    assert [one.right for one in found.questions] == [1, 0]
    assert [one.answers for one in found.questions] == [("no",), ("up",)]


def test_a_csv_has_its_choices_as_json(tmp_path: Path) -> None:
    (tmp_path / "asked.csv").write_text('question,choices,answer\na?,"[""x"", ""y""]",1\n')
    section = QuestionSet(path="asked.csv")
    found = read_questions(section, "asked.csv", tmp_path, "questions.0")
    assert found.questions[0].choices == ("x", "y")
    assert found.has_choices


def test_answers_may_be_several(tmp_path: Path) -> None:
    rows = [{"question": "a?", "answer": ["one", "1"]}, {"question": "b?", "answer": 7}]
    found = read(tmp_path, rows)
    assert [one.answers for one in found.questions] == [("one", "1"), ("7",)]
    assert not found.has_choices


GOOD = {"question": "a?", "choices": ["x", "y"], "answer": 0}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": ""}, "a question is empty"),
        ({"choices": ["x"]}, "fewer than two choices"),
        ({"choices": "x, y"}, "fewer than two choices"),
        ({"choices": ["x", "x"]}, "the same"),
        ({"choices": ["x", ""]}, "empty"),
        ({"answer": 2}, "names none of the choices"),
        ({"answer": "z"}, "names none of the choices"),
    ],
)
def test_a_row_that_is_no_question_is_named(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    with pytest.raises(DataMistake, match=said):
        read(tmp_path, [GOOD, {**GOOD, **row}])


def test_a_reference_of_which_nothing_remains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMistake, match="nothing remains"):
        read(tmp_path, [{"question": "Which letter?", "answer": "A"}])


def asked(text: str, row: int = 0, answer: str = "x") -> ReadQuestion:
    cells = MappingProxyType({"question": text, "topic": "t"})
    return ReadQuestion(text, (), 0, (answer,), cells, row)


def test_prompts_have_examples_drawn_for_each_row() -> None:
    section = QuestionSet(path="q", examples=FewShot(path="e", count=2))
    examples = tuple(asked(f"e{at}?", at, f"a{at}") for at in range(9))
    writer = PromptWriter(section, BYTES, examples, seed=1)
    prompts = [writer.write(asked("Why?", row))[0] for row in range(20)]
    assert prompts == [writer.write(asked("Why?", row))[0] for row in range(20)]
    assert len(set(prompts)) > 10
    for prompt in prompts:
        first, second, last = prompt.split("\n\n")
        assert last == "Question: Why?\nAnswer:"
        numbers = [one.partition(": e")[2][0] for one in (first, second)]
        assert len(set(numbers)) == 2
        for one, number in zip((first, second), numbers, strict=True):
            assert one == f"Question: e{number}?\nAnswer: a{number}"


def test_braces_in_a_cell_are_no_columns() -> None:
    writer = PromptWriter(QuestionSet(path="q", prompt="{topic}: {question}"), BYTES)
    assert writer.write(asked("what is {topic}?")) == ("t: what is {topic}?",)


def test_a_continuation_is_what_stands_behind_the_prompt() -> None:
    prompt, rest = encode_continuation(BYTES, ["Answer: "], "yes")
    assert (bytes(prompt.tolist()), bytes(rest.tolist())) == (b"Answer:", b" yes")
    prompt, rest = encode_continuation(BYTES, ["ab", "c "], "yes")
    assert (bytes(prompt.tolist()), bytes(rest.tolist())) == (b"abc ", b"yes")


def test_a_token_may_reach_over_the_border() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2, "c": 3}, [("a", "b")])
    text = tokenizers.Tokenizer(model).to_str()
    vocabulary = TextVocabulary("subwords", text)
    prompt, rest = encode_continuation(vocabulary, ["ca"], "bc")
    assert (prompt.tolist(), rest.tolist()) == ([3, 2], [3])
    # Nothing would be left of the continuation.
    prompt, rest = encode_continuation(vocabulary, ["ca"], "b")
    assert (prompt.tolist(), rest.tolist()) == ([3, 0], [1])


TRAINING = (
    "It was late. Which colour has the grass? Green. "
    + "the old man went down to the sea with his small boat and two nets at dawn. "
    + "and so on and so on and so on and so on and so on. " * 30
)


@pytest.mark.parametrize(
    ("question", "is_there"),
    [
        ("Which colour has the grass?", True),
        ("which COLOUR has... the grass", True),
        ("Which colour has the sky?", False),
        ("Grass has colour?", False),
        ("They say the old man went down to the sea with his small boat, but why?", True),
        ("They say an old man walked to the sea with a small boat, but why was that?", False),
        ("Count and so on and so on and so on and so on and so on, please do.", False),
        ("and so on and so on and so on and so on", True),
    ],
)
@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_questions_are_found_in_the_training_text(question: str, is_there: bool, kind: str) -> None:
    vocabulary = BYTES if kind == "bytes" else fit_characters(TRAINING)
    tokens = vocabulary.encode(TRAINING)
    train = TokenInputs(tokens, np.array([1]), np.array([len(tokens) - 1]))
    others = [asked(f"an unknown question of many words number {n} for them") for n in range(30)]
    found = overlapping_questions([asked(question), *others], train, vocabulary)
    assert bool(found.contaminated[0]) == is_there
    assert not found.contaminated[1:].any()


def test_only_the_training_part_is_searched() -> None:
    tokens = BYTES.encode(TRAINING)
    half = len(tokens) // 2
    late = TokenInputs(tokens, np.array([half]), np.array([len(tokens) - half]))
    found = overlapping_questions([asked("Which colour has the grass?")], late, BYTES)
    assert not found.contaminated.any()
    assert "8-grams" in found.method


def test_short_questions_are_told() -> None:
    tokens = BYTES.encode(TRAINING)
    train = TokenInputs(tokens, np.array([1]), np.array([len(tokens) - 1]))
    found = overlapping_questions([asked("the old man")], train, BYTES)
    assert not found.contaminated.any()
    assert "1 question of fewer than 4 words not looked for" in found.method
