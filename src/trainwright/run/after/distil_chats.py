"""Chats whose training answers a decoder has written: distillation at the level of sequences (Kim
and Rush 2016, arXiv:1606.07947, section 3.2). Needs torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.chats import ChatData
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, hash_file
from trainwright.data.chats.chat_messages import Chat
from trainwright.data.chats.prepare_chats import RawChats, prepare_chats, read_raw_chats
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.text_generation import (
    DOCUMENT_END,
    DecodingOptions,
    TextGenerator,
    text_generator,
)
from trainwright.run.after.generate_text import read_writer
from trainwright.run.teacher.token_teacher import check_unseen
from trainwright.tracking.run_folder import RunFolder

ANSWERED_BY = "answered_by"
"""Column of the SHA-256 of the bundle that wrote the last answer; empty where it is the given
one."""


@final
@dataclass(frozen=True, slots=True)
class DistilledChats:
    """Rows of all chats in their order, how many of them train, how many of those the teacher
    answered, and a doubt about what it has seen."""

    rows: tuple[Json, ...]
    training: int
    answered: int
    doubt: str


def distil_chats(
    teacher: RunFolder, path: Path, overrides: Sequence[str], tokens: int
) -> DistilledChats:
    """The chats of a contract, in which the model of a run has written the last answer of each
    training chat, greedily and with at most so many tokens. An answer that does not end by itself
    is not taken; validation and test chats keep theirs.

    Raises:
        Mistake: the contract has no chats, the run answers none, or it was trained on test chats.
    """
    predictor = read_writer(teacher)
    encoding = TokenEncoding.of_kind(predictor.features)
    document = read_contract(path, overrides)
    contract, folder = document.contract, document.source.folder
    _check_kinds(contract, encoding, teacher)
    section = ChatData.of(contract.data)
    raw = read_raw_chats(section, folder)
    prepared = prepare_chats(raw, section)
    same = TokenEncoding.of_kind(prepared.features).vocabulary == encoding.vocabulary
    doubt = check_unseen(teacher.path, prepared, contract, raw, comparable=same)
    ends = (DOCUMENT_END, *filter(None, [encoding.turn_end]))
    generator = text_generator(predictor, encoding, DecodingOptions(tokens, 0.0, stop=ends))
    sha256 = hash_file(teacher.bundle / MANIFEST)
    rows = tuple(_rows(raw, section, encoding, generator, sha256))
    training = int((raw.groups.parts == 0).sum())
    return DistilledChats(rows, training, sum(bool(one[ANSWERED_BY]) for one in rows), doubt)


def _rows(
    raw: RawChats,
    section: ChatData,
    encoding: TokenEncoding,
    generator: TextGenerator,
    sha256: str,
) -> Iterator[Json]:
    others = raw.table.columns.to_dicts()
    for row, (chat, part) in enumerate(zip(raw.table.chats, raw.groups.parts, strict=True)):
        messages = [{"role": one.role, "content": one.content} for one in chat.messages]
        written = ""
        last = chat.count_to_last(section.loss_on) - 1
        # What stands before the first answer divides the parts, so it is kept unchanged.
        if part == 0 and last > 0 and chat.messages[last].role == "assistant":
            written = _answer(chat, last, encoding, generator, row)
        if written:
            messages = [*messages[:last], {"role": "assistant", "content": written}]
        tools = {section.tools or "tools": chat.tools} if chat.tools else {}
        yield {
            **others[row],
            "messages": messages,
            **tools,
            ANSWERED_BY: sha256 if written else "",
        }


def _answer(
    chat: Chat, last: int, encoding: TokenEncoding, generator: TextGenerator, row: int
) -> str:
    """What the teacher answers to the messages before the last answer; empty if it does not end
    by itself."""
    before = [{"role": one.role, "content": one.content} for one in chat.messages[:last]]
    found = generator.generate(encoding.ask(json.dumps(before), chat.tools), row)
    return found.text.strip() if found.ended_by == "stop" else ""


def _check_kinds(contract: Contract, encoding: TokenEncoding, teacher: RunFolder) -> None:
    if contract.data.kind != "chats":
        raise Mistake(
            Problem(
                "only the answers of chats are written by a teacher",
                path="data.kind",
                found=contract.data.kind,
                expected="chats",
                fix="name a contract of chats, or learn its probabilities by training.teacher",
            )
        )
    if not encoding.has_turns:
        raise Mistake(
            Problem(
                f"the model of run {teacher.name} was trained on texts, and answers no messages",
                expected="a model that was trained on chats",
                fix="name a run with data.kind: chats",
            )
        )
