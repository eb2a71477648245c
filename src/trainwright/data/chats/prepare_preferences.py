"""Preparation of pairs of answers: read, divided by prompts, written by the template and
tokenised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.chats import PreferenceData
from trainwright.core.files import hash_bytes, hash_value
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers, Part, PartName
from trainwright.data.base.token_inputs import PreferenceInputs
from trainwright.data.chats.chat_encoding import ChatEncoding, PreferenceEncoding, render_chats
from trainwright.data.chats.chat_messages import (
    ANSWERS,
    PairTable,
    describe_unread,
    read_preferred_pairs,
)
from trainwright.data.chats.prepare_chats import (
    PartShares,
    PromptGroups,
    read_template,
    report_prompts,
    split_chats,
)
from trainwright.data.columns.class_target import Preferred
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.bpe import read_pieces
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.text.text_sources import PARTS
from trainwright.data.types import Prepared

_OF_ANSWERS = ("chosen_tokens", "rejected_tokens")


@final
@dataclass(frozen=True, slots=True)
class RawPreferences(Raw):
    """Pairs of answers as tokens, those of the training part first, then those of the others.
    `order` [N] is the row of each in the table."""

    table: PairTable
    encoding: PreferenceEncoding
    inputs: PreferenceInputs
    groups: PromptGroups
    order: Integers
    facts: DataFacts
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Keys that are not read, and pairs that contradict each other."""
        notes = (("note", note) for note in describe_unread(self.table.chats))
        return (*notes, *(("warning", note) for note in self.notes))


def read_preferences(section: PreferenceData, folder: Path) -> RawPreferences:
    """Read, divide and tokenise the pairs of a contract.

    Raises:
        DataMistake: rows that are no pairs of answers, or too few of them; a tokenizer that cannot
            be read. Mistake: a template that is a program, without the permission. MissingExtra.
    """
    template = read_template(section.template, ANSWERS, section.tokenizer, folder)
    table = read_preferred_pairs(section, folder)
    shares = PartShares(section.validation, section.test)
    groups = split_chats(table.chosen, ANSWERS, shares)
    symbols = read_pieces(folder / section.tokenizer, section.tokenizer)
    encoding = PreferenceEncoding(ChatEncoding(TextVocabulary("subwords", symbols), template))
    order = np.argsort(groups.parts, kind="stable")
    pieces = render_chats(table.as_chats, template)
    inputs = encoding.encode_pairs(
        [pieces[2 * row + side] for row in order.tolist() for side in (0, 1)]
    )
    counts = np.bincount(groups.parts, minlength=len(PARTS))
    facts = DataFacts(
        rows=len(table.chosen),
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=table.source.files,
        given=frozenset(),
        part_rows={str(part): int(n) for part, n in zip(PARTS, counts, strict=True)},
        documents={
            "train": tuple(longest_of(inputs)[: counts[0]].tolist()),
            "others": tuple(longest_of(inputs)[counts[0] :].tolist()),
        },
    )
    notes = _describe_contradictions(table)
    return RawPreferences(table, encoding, inputs, groups, order, facts, notes)


def _describe_contradictions(table: PairTable) -> tuple[str, ...]:
    """Pairs whose rejected answer is preferred to the chosen one by another pair of the prompt, or
    by a chain of others: strongly connected answers of the graph of preferences."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    texts = (tuple(one[:2] for one in chat.messages) for chat in table.chats)
    answers = np.array([numbers.setdefault(text, len(numbers)) for text in texts]).reshape(-1, 2)
    size = len(numbers)
    graph = coo_array((np.ones(len(answers)), (answers[:, 0], answers[:, 1])), shape=(size, size))
    _, parts = connected_components(graph, directed=True, connection="strong")
    rows = np.flatnonzero(parts[answers[:, 0]] == parts[answers[:, 1]])
    if not len(rows):
        return ()
    return (
        f"{many(len(rows), 'pair')} of {len(answers):,} contradict each other: of the same prompt, "
        f"an answer is preferred to one that others prefer to it ({table.source.rows_text(rows)})",
    )


def prepare_preferences(raw: RawPreferences, section: PreferenceData) -> Prepared:
    """Parts with pairs as rows; pairs of one prompt are one unit."""
    train, validation, test = (
        _part(raw, name, np.flatnonzero(raw.groups.parts[raw.order] == at))
        for at, name in enumerate(PARTS)
    )
    return Prepared(
        train=train,
        validation=validation,
        test=test,
        features=raw.encoding,
        target=Preferred(raw.encoding.tokens),
        split=report_prompts(raw.facts, raw.groups),
        version=hash_value(
            {
                "scheme": 1,
                "files": [file.sha256 for file in raw.facts.files],
                "parts": hash_bytes(raw.groups.parts.astype("<i8").tobytes()),
                "encoding": raw.encoding.to_json(),
                "columns": [section.prompt, section.chosen, section.rejected],
                "long": section.long_documents,
            }
        ),
    )


def longest_of(inputs: PreferenceInputs) -> Integers:
    """Tokens of the prompt of each pair with its longer answer, [N]."""
    longest: Integers = inputs.tokens_of_documents().reshape(-1, 2).max(axis=1)
    return longest


def keep_short_pairs(part: Part, context: int) -> Part:
    """The pairs of a part that fit into a window."""
    kept = np.flatnonzero(longest_of(PreferenceInputs.of_kind(part.inputs)) <= context + 1)
    if len(kept) == len(part):
        return part
    return replace(
        part,
        frame=part.frame[kept],
        inputs=part.inputs.take(kept),
        target=part.target[kept],
        rows=part.rows[kept],
        units=part.units[kept],
    )


def _part(raw: RawPreferences, name: PartName, places: Integers) -> Part:
    inputs, rows = raw.inputs.take(places), raw.order[places]
    lengths = inputs.answers.lengths.reshape(-1, 2)
    own = pl.DataFrame(dict(zip(_OF_ANSWERS, lengths.T, strict=True)))
    others = raw.table.columns.drop(own.columns, strict=False)[rows]
    frame = pl.concat([own, others], how="horizontal")
    return Part(name, frame, inputs, np.zeros(len(rows)), rows, raw.groups.prompts[rows])
