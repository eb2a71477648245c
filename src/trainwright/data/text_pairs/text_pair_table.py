"""Tables of text pairs: their rows, and which texts are equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.sources import USUAL
from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import some
from trainwright.data.columns.retrieval_targets import same_text
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.find_source import absent_column, read_source
from trainwright.data.sources.source_file import FileVersion

QUERY_WORDS = "query_words"
"""Column that is made of the queries: their words, to slice by."""

NO_TEXT = -1
"""Code of a hard negative that a row has not."""


class TextColumns(NamedTuple):
    """The columns of query, passage and group, which is empty for none, and of hard negatives."""

    query: str
    passage: str
    group: str = ""
    negatives: tuple[str, ...] = ()

    @classmethod
    def of(cls, section: TextPairData) -> TextColumns:
        """Those of a section."""
        return cls(section.query, section.passage, section.group, section.negatives)


class CodedPairs(NamedTuple):
    """Rows of a table, with the code of each query and passage [N, 2], and of each hard negative
    [N, K] among the passages, `NO_TEXT` for none. Equal texts have equal codes."""

    frame: pl.DataFrame
    codes: Integers
    negatives: Integers


@final
@dataclass(frozen=True, slots=True)
class RawTextPairs(Raw):
    """Pairs before they are divided, by part, with codes over all parts."""

    parts: Mapping[PartName, CodedPairs]
    facts: DataFacts
    own_passages: int = 0
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Queries of several passages, and negatives that are none."""
        said = []
        codes = np.unique(np.concatenate([one.codes for one in self.parts.values()]), axis=0)
        _, sizes = np.unique(codes[:, 0], return_counts=True)
        if several := int((sizes > 1).sum()):
            text = (
                f"{many(several, 'query has', 'queries have')} several passages, all of them right"
            )
            said.append(("equal", text))
        if self.own_passages:
            text = many(self.own_passages, "hard negative is", "hard negatives are")
            said.append(("equal", f"{text} a right passage of the same query: not used"))
        return tuple(said)


def read_text_pairs(section: TextPairData, folder: Path) -> RawTextPairs:
    """Read the tables of a section.

    Raises:
        DataMistake: every problem of a part at once.
    """
    columns = TextColumns.of(section)
    named: tuple[tuple[PartName, str, str], ...] = (
        ("train", section.path, "data.path"),
        ("validation", section.val_path, "data.val_path"),
        ("test", section.test_path, "data.test_path"),
    )
    frames: dict[PartName, pl.DataFrame] = {}
    versions: dict[PartName, FileVersion] = {}
    problems: list[Problem] = []
    for part, written, path in named:
        # Negatives are read where there is a training.
        asked = columns if part == "train" else columns._replace(negatives=())
        if written:
            try:
                frames[part], versions[part] = read_text_rows(written, folder, path, asked)
            except DataMistake as mistake:
                problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    counts = {str(part): len(frame) for part, frame in frames.items()}
    facts = DataFacts(
        rows=sum(counts.values()),
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=tuple(replace(one, part=part) for part, one in versions.items()),
        given=frozenset(part for part in frames if part != "train"),
        part_rows=counts,
    )
    parts, own = code_pairs(frames, columns)
    return RawTextPairs(parts, facts, own)


def read_text_rows(
    written: str, folder: Path, path: str, columns: TextColumns
) -> tuple[pl.DataFrame, FileVersion]:
    """The rows of a table, with its texts as texts, none of query and passage empty.

    Raises:
        DataMistake: it cannot be read, lacks a column, or a text is missing.
    """
    source = read_source(written, folder, path, USUAL)
    frame = source.frame
    wanted = [("query", columns.query), ("passage", columns.passage), ("group", columns.group)]
    wanted += [(f"negatives.{at}", name) for at, name in enumerate(columns.negatives)]
    problems = [
        absent_column(f"data.{field}", name, frame.columns, Place(written))
        for field, name in wanted
        if name and name not in frame.columns
    ]
    if problems:
        raise DataMistake(problems)
    texts = frame.with_columns(
        pl.col([columns.query, columns.passage, *columns.negatives]).cast(pl.String)
    )
    for field, name in wanted[:2]:
        empty = texts[name].fill_null("").str.strip_chars() == ""
        if empty.any():
            rows = np.flatnonzero(empty.to_numpy())
            problems.append(
                Problem(
                    f"{many(len(rows), 'pair has', 'pairs have')} no {field}",
                    path=f"data.{field}",
                    found=f"an empty {name!r} in row {some((rows + 1).tolist())}",
                    expected="a text in every row",
                    fix="add the texts, or remove these rows",
                    place=Place(written),
                )
            )
    if problems:
        raise DataMistake(problems)
    plain = [name for name in texts.columns if not texts[name].dtype.is_nested()]
    words = texts[columns.query].str.split(" ").list.len().cast(pl.Int64)
    return texts.select(plain).with_columns(words.alias(QUERY_WORDS)), source.version


def code_pairs(
    frames: Mapping[PartName, pl.DataFrame], columns: TextColumns
) -> tuple[dict[PartName, CodedPairs], int]:
    """Codes of the texts of all parts, and how many hard negatives are right passages of their
    query in the same table: the loss does not count them."""
    queries = _Codes([frame[columns.query] for frame in frames.values()])
    negatives = [frames["train"][name] for name in columns.negatives]
    passages = _Codes([*(frame[columns.passage] for frame in frames.values()), *negatives])
    pairs = {
        part: np.stack([queries.of(frame[columns.query]), passages.of(frame[columns.passage])], 1)
        for part, frame in frames.items()
    }
    right = {tuple(one) for one in pairs["train"].tolist()}
    found, own = {}, 0
    for part, frame in frames.items():
        count = len(columns.negatives) if part == "train" else 0
        hard = np.full((len(frame), count), NO_TEXT, dtype=np.int64)
        for at in range(count):
            codes = passages.of(frame[columns.negatives[at]])
            asked = pairs[part][:, 0].tolist()
            own += sum(one in right for one in zip(asked, codes.tolist(), strict=True))
            hard[:, at] = codes
        found[part] = CodedPairs(frame, pairs[part], hard)
    return found, own


@final
class _Codes:
    """Codes from 0 of the texts of some columns; equal ones have one."""

    def __init__(self, columns: list[pl.Series]) -> None:
        texts = pl.concat([same_text(one.cast(pl.String)).alias("text") for one in columns])
        known = texts.filter(texts.fill_null("") != "").unique().sort()
        self._table = pl.DataFrame({"text": known, "code": np.arange(len(known))})

    def of(self, texts: pl.Series) -> Integers:
        """Of each text [N]; `NO_TEXT` of an empty one."""
        asked = pl.DataFrame({"text": same_text(texts.cast(pl.String))})
        found = asked.join(self._table, on="text", how="left", maintain_order="left")
        return found["code"].fill_null(NO_TEXT).cast(pl.Int64).to_numpy()
