"""Text pairs: division and encoding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import GroupSplit
from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.core.files import hash_bytes, hash_value
from trainwright.data.base.inputs import Integers, Part, PartName
from trainwright.data.base.pair_inputs import TextPairInputs
from trainwright.data.base.token_inputs import TextInputs
from trainwright.data.columns.retrieval_targets import PassageMatching
from trainwright.data.encoders.text_tokenizer import NO_TOKENIZER, TextTokenizer
from trainwright.data.pairs.caption_tokenizer import BaseCaptions, CaptionTokenizer, fit_captions
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.groups import group_codes
from trainwright.data.split.random_split import PARTS, Shares, rows_of_parts
from trainwright.data.split.split_report import check_crossing, report_split
from trainwright.data.split.splits import split_rows
from trainwright.data.text_pairs.text_pair_encoder import TextPairEncoder
from trainwright.data.text_pairs.text_pair_table import (
    NO_TEXT,
    QUERY_WORDS,
    CodedPairs,
    RawTextPairs,
    TextColumns,
    code_pairs,
    read_text_rows,
)
from trainwright.data.types import Prepared

_GROUP, _QUERY, _PASSAGE = " group", " query", " passage"
"""Columns of a split that no file has."""


def prepare_text_pairs(
    raw: RawTextPairs, section: TextPairData, seed: int, of_base: TextTokenizer = NO_TOKENIZER
) -> Prepared:
    """Divide off the parts that do not stand apart, by whole groups, which without `group` are the
    pairs of one query; fit tokens on the training pairs alone. The tokenizer of a base, if there is
    one, makes the tokens.

    Raises:
        DataMistake: the pairs cannot be divided so, or groups cross parts that stand apart.
    """
    split = GroupSplit(
        kind="group", column=_GROUP, validation=section.validation, test=section.test
    )
    frames = {part: _compared(pairs, section) for part, pairs in raw.parts.items()}
    shares = Shares.of(split, raw.facts.given)
    codes = split_rows(frames["train"], QUERY_WORDS, split, shares, seed)
    rows = rows_of_parts(codes)
    rows |= {
        part: np.arange(len(raw.parts[part].frame)) for part in PARTS if part in raw.facts.given
    }
    made = len(raw.facts.given) < len(PARTS) - 1
    compared = {part: frames[_source(raw, part)][rows[part]] for part in rows}
    report = report_split(compared, split, QUERY_WORDS, (_QUERY, _PASSAGE), made=made)
    if section.group:
        check_crossing(report, split, "data.group", section.group)
    tokenizer = _tokens(raw, section, rows["train"], of_base)
    parts = {part: _part(raw, section, tokenizer, part, rows[part]) for part in rows}
    longest = max(
        int(one.lengths.max(initial=1))
        for one in _texts(TextPairInputs.of_kind(parts["train"].inputs))
    )
    features = TextPairEncoder(
        tokenizer, longest, section.query, section.passage, len(section.negatives)
    )
    target = PassageMatching(section.passage, section.query)
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=report,
        version=_version(raw, rows, features, target),
    )


def labelled_text_pairs(
    data: str, encoder: TextPairEncoder, section: TextPairData
) -> tuple[Part, FileVersion, bool]:
    """Pairs of another table as a part, whose passages are the candidates; its file, and whether
    pairs of a group are one unit.

    Raises:
        DataMistake: they cannot be read.
    """
    at = Path(data).absolute()
    columns = TextColumns(section.query, section.passage)
    frame, version = read_text_rows(at.name, at.parent, "DATA", columns)
    coded = code_pairs({"train": frame}, columns)[0]["train"]
    is_grouped = bool(section.group) and section.group in frame.columns
    units = group_codes(frame[section.group]) if is_grouped else coded.codes[:, 0]
    queries, passages = (encoder.read_column(frame, one, data) for one in columns[:2])
    inputs = TextPairInputs(queries, passages)
    rows = np.arange(len(frame))
    return Part("test", frame, inputs, coded.codes, rows, units), version, is_grouped


def _tokens(
    raw: RawTextPairs, section: TextPairData, rows: Integers, of_base: TextTokenizer
) -> CaptionTokenizer | BaseCaptions:
    if of_base:
        return BaseCaptions(of_base)
    frame = raw.parts["train"].frame[rows]
    columns = (section.query, section.passage, *section.negatives)
    return fit_captions(
        (text for name in columns for text in frame[name].drop_nulls().to_list()), section.tokens
    )


def _texts(inputs: TextPairInputs) -> tuple[TextInputs, ...]:
    return inputs.queries, inputs.passages, *inputs.negatives


def _part(
    raw: RawTextPairs,
    section: TextPairData,
    tokenizer: CaptionTokenizer | BaseCaptions,
    part: PartName,
    rows: Integers,
) -> Part:
    """The pairs at some positions as a part. Its units are groups, or the pairs of one query; the
    target of training pairs holds what the loss must know of equal texts."""
    pairs = raw.parts[_source(raw, part)]
    frame, codes = pairs.frame[rows], pairs.codes[rows]
    learns = part == "train"
    hard = section.negatives if learns else ()
    tokens = [
        tokenizer.tokenize(_filled(frame, name, section.passage))
        for name in (section.query, section.passage, *hard)
    ]
    inputs = TextPairInputs(tokens[0], tokens[1], tuple(tokens[2:]))
    units = group_codes(frame[section.group]) if section.group else codes[:, 0]
    target = learned_codes(codes, pairs.negatives[rows]) if learns else codes
    return Part(part, frame, inputs, target, rows, units)


def _filled(frame: pl.DataFrame, name: str, passage: str) -> list[str]:
    """The texts of a column; where a hard negative is missing, and no loss counts it, the
    passage."""
    texts = frame[name].fill_null("")
    is_empty = (texts.str.strip_chars() == "").to_list()
    each = zip(texts.to_list(), frame[passage].to_list(), is_empty, strict=True)
    return [other if empty else text for text, other, empty in each]


def learned_codes(codes: Integers, negatives: Integers) -> Integers:
    """Codes that a loss compares [N, 2 + K + M]: query, passage, K hard negatives, and the M right
    passages of the query, `NO_TEXT` behind the end."""
    pairs = np.unique(codes, axis=0)
    _, starts, sizes = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    asked = np.searchsorted(pairs[starts, 0], codes[:, 0])
    most = int(sizes.max(initial=1))
    right = np.full((len(codes), most), NO_TEXT, dtype=np.int64)
    for at in range(most):
        has = sizes[asked] > at
        right[has, at] = pairs[starts[asked[has]] + at, 1]
    return np.concatenate([codes, negatives, right], axis=1)


def _source(raw: RawTextPairs, part: PartName) -> PartName:
    return part if part in raw.facts.given else "train"


def _compared(pairs: CodedPairs, section: TextPairData) -> pl.DataFrame:
    """The group of each pair, and what duplicates are found by."""
    queries, passages = (pl.Series(pairs.codes[:, at]) for at in (0, 1))
    group = pairs.frame[section.group] if section.group else queries
    return pairs.frame.select(QUERY_WORDS).with_columns(
        group.cast(pl.String).alias(_GROUP), queries.alias(_QUERY), passages.alias(_PASSAGE)
    )


def _version(
    raw: RawTextPairs,
    rows: Mapping[PartName, Integers],
    features: TextPairEncoder,
    target: PassageMatching,
) -> str:
    return hash_value(
        {
            "scheme": 1,
            "files": [file.sha256 for file in raw.facts.files],
            "split": {part: hash_bytes(r.astype("<i8").tobytes()) for part, r in rows.items()},
            "features": features.identity(),
            "target": target.identity(),
        }
    )
