"""Chats: spellings, templates, the tokens of answers, and parts by prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.chats import ChatData
from trainwright.core.errors import DataMistake, Mistake
from trainwright.core.process import code_allowed
from trainwright.data.base.inputs import Part
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.chats.chat_encoding import ChatEncoding
from trainwright.data.chats.chat_messages import Message
from trainwright.data.chats.chat_template import NO_ANSWER, ChatTemplate
from trainwright.data.chats.prepare_chats import RawChats, prepare_chats, read_raw_chats
from trainwright.data.types import encoding_from_json

Rows = Sequence[Mapping[str, Any]]
ASKED = [
    Message("system", "Be brief."),
    Message("user", "Weather?"),
    Message("function_call", '{"name": "weather"}'),
    Message("observation", '{"sky": "rain"}'),
    Message("assistant", "Rain."),
]
SAID = [{"role": message.role, "content": message.content} for message in ASKED]
BRIEF = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def talk(number: int, answer: str = "Yes.") -> dict[str, Any]:
    asked = {"role": "user", "content": f"Question {number}?"}
    return {"messages": [asked, {"role": "assistant", "content": answer}]}


OTHERS = [talk(number) for number in range(6)]


def raw_chats(folder: Path, rows: Rows, **fields: Any) -> tuple[RawChats, ChatData]:
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = {"cache": "off"}
    values = {"kind": "chats", "path": "chats.jsonl", "reading": reading, **fields}
    section = ChatData.model_validate(values, strict=False)
    return read_raw_chats(section, folder), section


def parts_of(folder: Path, rows: Rows, **fields: Any) -> tuple[Part, ...]:
    prepared = prepare_chats(*raw_chats(folder, rows, **fields))
    return prepared.train, prepared.validation, prepared.test


def answers_of(folder: Path, rows: Rows, **fields: Any) -> list[tuple[str, str]]:
    """Role and text of every answer, by row."""
    prepared = prepare_chats(*raw_chats(folder, rows, **fields))
    words = ChatEncoding.of_kind(prepared.features).vocabulary
    found = []
    for part in (prepared.train, prepared.validation, prepared.test):
        inputs = TokenInputs.of_kind(part.inputs)
        for row, role, start, length in zip(
            part.rows, part.frame["role"], inputs.starts, inputs.lengths, strict=True
        ):
            text = words.decode(inputs.tokens[start : start + length])
            found.append((int(row), role, text))
            assert not isinstance(inputs.mask, str)
            assert inputs.mask[start : start + length].all()
            assert not inputs.mask[start - 1]
    return [(role, text) for row, role, text in found if row == 0]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": SAID},
        {
            "conversations": [
                {"from": old, "value": one.content}
                for old, one in zip(
                    ("system", "human", "function_call", "observation", "gpt"), ASKED, strict=True
                )
            ]
        },
    ],
    ids=["messages", "sharegpt"],
)
def test_messages_in_both_spellings(tmp_path: Path, row: dict[str, Any]) -> None:
    column = next(iter(row))
    rows = [row, *({column: one["messages"]} for one in OTHERS)]
    raw, _ = raw_chats(tmp_path, rows)
    assert list(raw.table.chats[0].messages) == ASKED
    assert answers_of(tmp_path, rows, vocabulary="bytes") == [
        ("function_call", '<tool_call>\n{"name": "weather"}\n</tool_call><|im_end|>'),
        ("assistant", "Rain.<|im_end|>"),
    ]


def test_parquet_holds_the_same_chats(tmp_path: Path) -> None:
    pl.DataFrame({"messages": [SAID, *(one["messages"] for one in OTHERS)]}).write_parquet(
        tmp_path / "chats.parquet"
    )
    section = ChatData(kind="chats", path="chats.parquet")
    assert list(read_raw_chats(section, tmp_path).table.chats[0].messages) == ASKED


def test_instructions_are_two_messages(tmp_path: Path) -> None:
    rows = [
        {"instruction": f"Add {n}.", "input": "2" if n == 0 else "", "output": "Done."}
        for n in range(5)
    ]
    raw, _ = raw_chats(tmp_path, rows)
    assert raw.table.chats[0].messages == (
        Message("user", "Add 0.\n\n2"),
        Message("assistant", "Done."),
    )
    assert raw.table.chats[1].messages[0] == Message("user", "Add 1.")


def test_only_the_chosen_roles_are_learned(tmp_path: Path) -> None:
    rows = [{"messages": SAID}, *OTHERS]
    learned = answers_of(tmp_path, rows, loss_on=["assistant"])
    assert [role for role, _ in learned] == ["assistant"]
    everyone = ["system", "user", "assistant", "function_call", "observation"]
    learned = answers_of(tmp_path, rows, loss_on=everyone)
    assert [role for role, _ in learned] == [one.role for one in ASKED]


@pytest.mark.parametrize("template", ["chatml", "tokenizer"])
def test_a_message_of_weight_0_is_not_learned(tmp_path: Path, template: str) -> None:
    before = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Go away"}]
    row = {"messages": [*before[:1], {**before[1], "weight": 0}, *BRIEF]}
    fields = {"vocabulary": "bytes", "template": template, "tokenizer": "tokenizer.json"}
    program = (
        "{% for one in messages %}<|im_start|>{{ one.role }}{{ one.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"
    )
    (tmp_path / "chat_template.jinja").write_text(program)
    with code_allowed(True):
        learned = answers_of(tmp_path, [row, *OTHERS], **fields)
    assert learned == [("assistant", "Hello<|im_end|>")]
    last = {"messages": [*BRIEF, {"role": "user", "content": "?"}, {**before[1], "weight": 0.0}]}
    assert answers_of(tmp_path, [last, *OTHERS], vocabulary="bytes") == learned


def test_keys_that_are_not_read_are_named(tmp_path: Path) -> None:
    thought = {"role": "assistant", "content": "4", "reasoning_content": "2 + 2", "name": ""}
    tool = {**BRIEF[0], "tool_call_id": "1", "weight": 1}
    raw, _ = raw_chats(tmp_path, [{"messages": [tool, thought]}] * 2 + list(OTHERS))
    (said,) = (text for _, text in raw.remarks if "not" in text)
    assert "tool_call_id (2 messages), reasoning_content (2 messages)" in said
    assert "name (" not in said
    raw, _ = raw_chats(tmp_path, [{"messages": [{**BRIEF[0], "name": None}, BRIEF[1]]}, *OTHERS])
    assert not [text for _, text in raw.remarks if "not" in text]


def test_what_the_templates_write(tmp_path: Path) -> None:
    raw, _ = raw_chats(tmp_path, [{"messages": SAID}, *OTHERS])
    chat = raw.table.chats[0]
    wanted = {
        "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWeather?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "weather"}\n</tool_call><|im_end|>\n'
        '<|im_start|>user\n<tool_response>\n{"sky": "rain"}\n</tool_response><|im_end|>\n'
        "<|im_start|>assistant\nRain.<|im_end|>",
        "llama3": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief."
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWeather?<|eot_id|>"
        '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "weather"}<|eot_id|>'
        '<|start_header_id|>ipython<|end_header_id|>\n\n{"sky": "rain"}<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\nRain.<|eot_id|>",
        "plain": "### system\nBe brief.\x1e\n\n### user\nWeather?\x1e\n\n### assistant\n"
        '{"name": "weather"}\x1e\n\n### observation\n{"sky": "rain"}\x1e\n\n### assistant\n'
        "Rain.\x1e",
    }
    for name, text in wanted.items():
        template = ChatTemplate(name, ("assistant", "function_call"))
        pieces = template.pieces(chat)
        assert "".join(piece.text for piece in pieces) == text
        assert [piece.answer for piece in pieces if piece.answer != NO_ANSWER] == [2, 4]
        asked = "".join(template.prompt(chat._replace(messages=chat.messages[:4])))
        assert text.startswith(asked)
        assert text.removeprefix(asked) == f"Rain.{template.end()}"


def test_tools_follow_the_system_message(tmp_path: Path) -> None:
    rows = [{"messages": SAID, "api": "weather()"}, *({**one, "api": None} for one in OTHERS)]
    raw, _ = raw_chats(tmp_path, rows, tools="api")
    first = raw.encoding.template.pieces(raw.table.chats[0])
    assert first[1].text == "Be brief.\n\nTools:\nweather()<|im_end|>"
    assert [one.answer for one in first if one.answer != NO_ANSWER] == [2, 4]


def test_chats_of_one_prompt_are_in_one_part(tmp_path: Path) -> None:
    rows = [talk(number % 20, f"Answer {number}.") for number in range(60)]
    rows += [{"messages": [{"role": "system", "content": "x"}, *talk(3)["messages"]]}]
    rows[0]["messages"][0]["content"] = "  question   0? "
    parts = parts_of(tmp_path, rows, validation=0.2, test=0.2)
    of_prompt: dict[int, set[str]] = {}
    for part in parts:
        for row in part.rows.tolist():
            of_prompt.setdefault(3 if row == 60 else row % 20, set()).add(part.name)
        assert len(set(part.units.tolist())) < len(part) / 2
    assert all(len(names) == 1 for names in of_prompt.values())
    assert sum(len(part) for part in parts) == 61
    again = parts_of(tmp_path, rows[::-1], validation=0.2, test=0.2)
    assert [len(part) for part in again] == [len(part) for part in parts]


def test_the_vocabulary_knows_the_training_chats_alone(tmp_path: Path) -> None:
    rows = [talk(number, chr(0x4E00 + number)) for number in range(12)]
    raw, _ = raw_chats(tmp_path, rows)
    known = {row for row in range(12) if chr(0x4E00 + row) in raw.encoding.vocabulary.symbols}
    assert known == set(np.flatnonzero(raw.groups.parts == 0).tolist())


def test_marks_are_tokens_of_bpe(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    raw, _ = raw_chats(tmp_path, OTHERS, vocabulary="bpe", vocabulary_size=300)
    words = raw.encoding.vocabulary
    assert len(words.encode("<|im_start|>")) == len(words.encode("<|im_end|>")) == 1
    assert words.decode(words.encode("a<|im_end|>b")) == "a<|im_end|>b"
    assert words.size <= 300
    assert encoding_from_json(raw.encoding.to_json()) == raw.encoding


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "user", "content": "Hi"}], "a chat has no answer"),
        ([{"role": "robot", "content": "Hi"}], "message 1 has an unknown role"),
        ([{"content": "Hi"}], "message 1 has an unknown role"),
        ([{"role": "user", "content": None}], "message 1 has no text"),
        ([{"role": "user", "content": [{"type": "text"}]}], "message 1 has no text"),
        ([BRIEF[0], {**BRIEF[1], "weight": 0}], "a chat has no answer"),
        ([BRIEF[0], {**BRIEF[1], "weight": 0.5}], "message 2 has a weight of its own"),
        ([BRIEF[0], {**BRIEF[1], "weight": "no"}], "message 2 has a weight of its own"),
        ([], "a row has no list of messages"),
        ([*BRIEF, {"role": "assistant", "content": "<|im_end|>"}], "a message holds a mark"),
    ],
)
def test_rows_that_are_no_chats_are_refused(tmp_path: Path, messages: Rows, said: str) -> None:
    with pytest.raises(DataMistake) as refused:
        raw_chats(tmp_path, [*OTHERS, {"messages": messages}])
    (problem,) = refused.value.problems
    assert said in problem.message
    assert problem.place.line == 7
    assert problem.fix


def test_one_prompt_has_no_three_parts(tmp_path: Path) -> None:
    with pytest.raises(DataMistake, match="too few prompts"):
        raw_chats(tmp_path, [talk(1), talk(2), talk(1, "No.")])


CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)


def write_tokenizer(folder: Path, template: str) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.BPE({chr(one): one for one in range(256)}, [])).save(
        str(folder / "tokenizer.json")
    )
    config = {"chat_template": template, "bos_token": {"content": "<s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


PROGRAM = {"template": "tokenizer", "vocabulary": "tokenizer", "tokenizer": "tokenizer.json"}


def test_a_program_writes_what_the_same_template_of_ours_writes(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    write_tokenizer(tmp_path, CHATML)
    many = [*talk(9)["messages"], *BRIEF]
    with code_allowed(True):
        raw, _ = raw_chats(tmp_path, [{"messages": many}, *OTHERS], **PROGRAM)
        chat = raw.table.chats[0]
        ours = ChatTemplate("chatml", ("assistant", "function_call"))
        assert raw.encoding.template.end() == ours.end()
        written = raw.encoding.template.pieces(chat)
        assert [one for one in written if one.answer != NO_ANSWER] == [
            one for one in ours.pieces(chat) if one.answer != NO_ANSWER
        ]
        assert "".join(one.text for one in written) == "".join(
            one.text for one in ours.pieces(chat)
        )
    assert encoding_from_json(raw.encoding.to_json()) == raw.encoding
    with pytest.raises(Mistake, match="is a program"):
        raw.encoding.template.prompt(chat)


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.__class__.__name__ }}",
        "{% for a in range(11) %}{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ raise_exception('no') }}",
        "{% for",
        "",
        "always the same",
        "{% for message in messages %}{{ loop.last }}{{ message['content'] }}#{% endfor %}",
    ],
)
def test_programs_that_the_sandbox_stops(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them one with more rounds than a lowered limit."""
    pytest.importorskip("tokenizers")
    monkeypatch.setattr("jinja2.sandbox.MAX_RANGE", 10)
    write_tokenizer(tmp_path, template)
    many = [*talk(9)["messages"], *BRIEF]
    with code_allowed(True), pytest.raises(Mistake) as refused:
        raw_chats(tmp_path, [{"messages": many}, *OTHERS], **PROGRAM)
    assert refused.value.problems[0].path == "data.template"


def test_a_program_needs_permission(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    write_tokenizer(tmp_path, CHATML)
    with pytest.raises(Mistake, match="is a program") as refused:
        raw_chats(tmp_path, OTHERS, **PROGRAM)
    assert "--allow-code" in refused.value.problems[0].fix
