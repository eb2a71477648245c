"""Chat preparation: read, divided by prompts, written by the template and encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.chats import ChatData, Role
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json, hash_bytes, hash_value
from trainwright.core.formatting import many
from trainwright.core.lazy_imports import need_tokenizers
from trainwright.data.base.inputs import Integers, Part, PartName
from trainwright.data.base.token_inputs import AnswerSpans, TokenInputs
from trainwright.data.chats.chat_encoding import ChatEncoding, EncodedChats, render_chats
from trainwright.data.chats.chat_messages import Chat, ChatTable, describe_unread, read_chats
from trainwright.data.chats.chat_template import ChatTemplate, Piece, read_jinja
from trainwright.data.columns.class_target import NextToken
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.bpe import read_pieces, train_pieces, with_marks
from trainwright.data.encoders.vocabulary import TextVocabulary, fit_characters
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.cache import cache_value, open_cache
from trainwright.data.split.split_report import SplitReport
from trainwright.data.text.text_sources import PARTS
from trainwright.data.types import Prepared

_KEY_BYTES = 8
_BETWEEN = "\x1f"
_PARTS = 3

ROLE, TURN, TOKENS = "role", "turn", "tokens"
"""Columns of an answer: who wrote it, the number of its message, and its length."""

_SCHEMA = pl.Schema({ROLE: pl.String(), TURN: pl.Int64(), TOKENS: pl.Int64()})


class PromptGroups(NamedTuple):
    """The prompt of each chat and its part (0 training, 1 validation, 2 test), int64 [N]."""

    prompts: Integers
    parts: Integers


class PartShares(NamedTuple):
    """PartShares of the validation and the test part."""

    validation: float
    test: float


def split_chats(chats: Sequence[Chat], roles: Sequence[Role], shares: PartShares) -> PromptGroups:
    """Divide chats so that those of one prompt are in one part.

    Prompts are ordered by their BLAKE2b hash; the first have the validation part, the next the test
    part. So the order of the rows does not matter.

    Raises:
        DataMistake: there are too few prompts for three parts.
    """
    keys = [_key(chat, roles) for chat in chats]
    hashes, prompts = np.unique(np.array(keys, dtype=np.uint64), return_inverse=True)
    if len(hashes) < _PARTS:
        raise _too_few(len(hashes), len(chats))
    ends = np.cumsum(np.bincount(prompts))
    validation = _upto(ends, 0, shares.validation, len(chats), 2)
    test = _upto(ends, validation, shares.test, len(chats), 1)
    of_prompt = np.zeros(len(hashes), dtype=np.int64)
    of_prompt[:validation], of_prompt[validation:test] = 1, 2
    return PromptGroups(prompts.astype(np.int64), of_prompt[prompts])


def _upto(ends: Integers, first: int, share: float, chats: int, left: int) -> int:
    """Where a part ends that begins at the prompt `first`: at its share of the chats, with at least
    one prompt, and so that at least `left` prompts are left."""
    before = int(ends[first - 1]) if first else 0
    wanted = before + max(1, round(chats * share))
    end = int(np.searchsorted(ends, wanted)) + 1
    return min(end, len(ends) - left)


def _key(chat: Chat, roles: Sequence[Role]) -> int:
    """Hash of what stands before the first answer, whatever the system message, white space and
    case; of a chat that begins with an answer, of this."""
    first = next(at for at, one in enumerate(chat.messages) if one.role in roles)
    asked = [one.content for one in chat.messages[:first] if one.role != "system"]
    words = (" ".join(text.casefold().split()) for text in asked or [chat.messages[first].content])
    digest = hashlib.blake2b(_BETWEEN.join(words).encode(), digest_size=_KEY_BYTES).digest()
    return int.from_bytes(digest, "little")


def _too_few(prompts: int, chats: int) -> DataMistake:
    return DataMistake(
        Problem(
            "there are too few prompts for a training, a validation and a test part",
            path="data.path",
            found=f"{prompts:,} different prompts in {chats:,} chats",
            expected=f"at least {_PARTS}",
            fix="give more chats",
        )
    )


@final
@dataclass(frozen=True, slots=True)
class RawChats(Raw):
    """Chats as tokens, those of the training part first, then those of the others. `order` [C] is
    the row of each in the table."""

    table: ChatTable
    encoding: ChatEncoding
    encoded: EncodedChats
    groups: PromptGroups
    order: Integers
    facts: DataFacts
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Notes on the chats, and on what their tokens leave of them."""
        notes = (*self.notes, *self.encoding.vocabulary.losses())
        return tuple(("note", note) for note in notes)


def read_raw_chats(section: ChatData, folder: Path) -> RawChats:
    """Read, divide and tokenise the chats of a contract. The vocabulary is fitted on the training
    part only.

    Raises:
        DataMistake: rows that are no chats with an answer, or too few of them; a tokenizer that
            cannot be read. Mistake: a template that is a program, without the permission.
        MissingExtra: the vocabulary needs a library that is not installed.
    """
    template = read_template(section.template, section.loss_on, section.tokenizer, folder)
    table = read_chats(section, folder)
    shares = PartShares(section.validation, section.test)
    groups = split_chats(table.chats, section.loss_on, shares)
    pieces = render_chats(table, template)
    order = np.argsort(groups.parts, kind="stable")
    training = np.flatnonzero(groups.parts == 0)
    vocabulary = _vocabulary([pieces[row] for row in training.tolist()], template, section, folder)
    encoding = ChatEncoding(vocabulary, template)
    encoded = encoding.encode_chats([pieces[row] for row in order.tolist()])
    counts = np.bincount(groups.parts, minlength=len(PARTS))
    facts = DataFacts(
        rows=len(table.chats),
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=table.source.files,
        given=frozenset(),
        part_rows={str(part): int(n) for part, n in zip(PARTS, counts, strict=True)},
        documents={"": _training_lengths(encoded, len(training))},
        answers=_training_answers(table, encoded, training),
    )
    notes = (*_notes(encoded), *describe_unread(table.chats))
    return RawChats(table, encoding, encoded, groups, order, facts, notes)


def prepare_chats(raw: RawChats, section: ChatData) -> Prepared:
    """Parts with answers as rows; chats of one prompt are one unit."""
    ends = np.cumsum([raw.facts.part_rows[part] for part in PARTS])
    train, validation, test = (
        _part(raw, name, start, stop)
        for name, start, stop in zip(PARTS, [0, *ends[:-1]], ends, strict=True)
    )
    return Prepared(
        train=train,
        validation=validation,
        test=test,
        features=raw.encoding,
        target=NextToken(raw.encoding.vocabulary.size),
        split=report_prompts(raw.facts, raw.groups),
        version=hash_value(
            {
                "scheme": 1,
                "files": [file.sha256 for file in raw.facts.files],
                "parts": hash_bytes(raw.groups.parts.astype("<i8").tobytes()),
                "encoding": raw.encoding.to_json(),
                "columns": [section.messages, section.system, section.tools],
                "windows": section.windows,
                "long": section.long_documents,
            }
        ),
    )


def new_chats(table: ChatTable, encoding: ChatEncoding) -> Part:
    """Chats of another table as a part, to evaluate a fitted model."""
    encoded = encoding.encode_chats(render_chats(table, encoding.template))
    order = np.arange(len(table.chats))
    part = _answers(table, encoded, order, order, "test", 0, len(order))
    return _counted(part, encoding.vocabulary)


def _part(raw: RawChats, name: PartName, start: int, stop: int) -> Part:
    prompts = raw.groups.prompts
    part = _answers(raw.table, raw.encoded, raw.order, prompts, name, start, stop)
    return _counted(part, raw.encoding.vocabulary)


def _counted(part: Part, vocabulary: TextVocabulary) -> Part:
    """The part, which knows the bytes of its tokens."""
    inputs = TokenInputs.of_kind(part.inputs)
    return replace(part, inputs=replace(inputs, byte_counts=vocabulary.byte_counts()))


def _answers(
    table: ChatTable,
    encoded: EncodedChats,
    order: Integers,
    prompts: Integers,
    name: PartName,
    start: int,
    stop: int,
) -> Part:
    """The answers of the chats from `start` to `stop`."""
    chosen = np.flatnonzero((encoded.chats >= start) & (encoded.chats < stop))
    rows, turns = order[encoded.chats[chosen]], encoded.messages[chosen]
    starts = encoded.starts[chosen]
    lengths = encoded.stops[chosen] - starts
    inputs = TokenInputs(encoded.tokens, starts, lengths, encoded.begins, mask=encoded.mask)
    writers = [
        table.chats[row].messages[turn].role
        for row, turn in zip(rows.tolist(), turns.tolist(), strict=True)
    ]
    own = pl.DataFrame({ROLE: writers, TURN: turns, TOKENS: lengths}, schema_overrides=_SCHEMA)
    others = table.columns.drop(own.columns, strict=False)[rows]
    target = NextToken(0).encode(pl.Series(lengths))
    return Part(
        name, pl.concat([own, others], how="horizontal"), inputs, target, rows, prompts[rows]
    )


def read_template(
    name: str, answers: tuple[Role, ...], tokenizer: str, folder: Path
) -> ChatTemplate:
    """The template of a contract.

    Raises:
        DataMistake: the tokenizer has none. Mistake: it is a program, without the permission.
    """
    if name != "tokenizer":
        return ChatTemplate(name, answers)
    return ChatTemplate(name, answers, read_jinja(folder / tokenizer, tokenizer))


def _vocabulary(
    training: list[list[Piece]], template: ChatTemplate, section: ChatData, folder: Path
) -> TextVocabulary:
    """Vocabulary of the training chats."""
    texts = [piece.text for chat in training for piece in chat]
    match section.vocabulary:
        case "characters":
            return fit_characters("".join(set().union(*map(set, texts))))
        case "bytes":
            return TextVocabulary("bytes")
        case "tokenizer":
            return TextVocabulary(
                "subwords", read_pieces(folder / section.tokenizer, section.tokenizer)
            )
        case "bpe":
            return TextVocabulary("subwords", _learned(texts, template, section, folder))
        case _:
            assert_never(section.vocabulary)


def _learned(texts: list[str], template: ChatTemplate, section: ChatData, folder: Path) -> str:
    """Merges learned on texts, with the marks of the template as tokens of their own."""
    need_tokenizers("data.vocabulary")
    marks = template.special
    size = section.vocabulary_size - len(marks)
    key = hash_value({"scheme": 1, "texts": hash_value(texts), "size": size, "marks": list(marks)})

    def learn() -> Json:
        return {"symbols": with_marks(train_pieces(_without(texts, marks), size), marks)}

    cache = open_cache(section.reading.cache, folder)
    return str(cache_value(cache, key, f"merges of {section.path}", learn)["symbols"])


def _without(texts: list[str], marks: tuple[str, ...]) -> list[str]:
    """Texts without marks."""
    for mark in marks:
        texts = [text.replace(mark, "") for text in texts]
    return texts


def _training_lengths(encoded: EncodedChats, chats: int) -> tuple[int, ...]:
    """Tokens of each training chat."""
    ends = np.append(encoded.begins[1:], len(encoded.tokens))
    lengths = (ends - encoded.begins)[:chats]
    return tuple(lengths.tolist())


def _training_answers(table: ChatTable, encoded: EncodedChats, rows: Integers) -> AnswerSpans:
    """The answers of the training chats, which stand in these rows."""
    chosen = encoded.chats < len(rows)
    chats = encoded.chats[chosen]
    begins = encoded.begins[chats]
    return AnswerSpans(
        chats,
        encoded.messages[chosen],
        encoded.starts[chosen] - begins,
        encoded.stops[chosen] - begins,
        rows,
        tuple(table.source.rows_text(rows[at : at + 1]) for at in range(len(rows))),
    )


def _notes(encoded: EncodedChats) -> tuple[str, ...]:
    tokens, learned = len(encoded.tokens), int(encoded.mask.sum())
    answers = many(len(encoded.starts), "answer")
    return (f"{answers} with {learned:,} of {tokens:,} tokens: {learned / tokens:.1%} are learned",)


def report_prompts(facts: DataFacts, groups: PromptGroups) -> SplitReport:
    """Report of a division by prompts."""
    prompts = len(np.unique(groups.prompts))
    kept = {
        str(part): len(np.unique(groups.prompts[groups.parts == at]))
        for at, part in enumerate(PARTS)
    }
    return SplitReport(
        kind="prompt",
        reason=f"those of the same prompt are in one part: {prompts:,} different prompts",
        rows=dict(facts.part_rows),
        class_shares={},
        target_mean={},
        groups=kept,
        groups_on_two_sides=0,
        time_ranges={},
        future_rows_in_training=0,
        duplicate_rows=0,
    )
