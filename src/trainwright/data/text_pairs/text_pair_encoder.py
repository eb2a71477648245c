"""Text pairs as tokens, or as columns of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, NotAvailable, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import safe_quantiles
from trainwright.data.base.inputs import Floats, Inputs, Part, TableInputs
from trainwright.data.base.pair_inputs import TextPairInputs
from trainwright.data.base.token_inputs import TextInputs
from trainwright.data.columns.retrieval_targets import unit_rows
from trainwright.data.encoders.encoding import Encoding, InputColumn, NewRows
from trainwright.data.pairs.caption_tokenizer import (
    TOKENIZER,
    BaseCaptions,
    CaptionTokenizer,
    caption_pieces,
    read_caption_tokens,
    trial_text,
)

_MOST_TERMS = 2000
_ROWS = 1024


@final
@dataclass(frozen=True, slots=True)
class TextPairEncoder(Encoding):
    """The tokens of the training texts, of which the longest has `longest`, the columns of new
    queries and passages, and how many hard `negatives` a training row has."""

    texts: CaptionTokenizer | BaseCaptions
    longest: int
    query: str
    passage: str
    negatives: int = 0

    modality: ClassVar[str] = "text_pairs"
    side_files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    profiled_rows: ClassVar[int] = 1000

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """The query: a model that was trained on it knows its passage."""
        return (self.query,)

    def read_new(self, rows: NewRows, /) -> TextInputs:
        """Queries of a frame, or passages if it has none."""
        frame = rows.frame()
        return self.read_column(frame, self.column_of(frame), rows.source)

    def column_of(self, frame: pl.DataFrame) -> str:
        """The queries, or passages of a frame without."""
        is_of_passages = self.query not in frame.columns and self.passage in frame.columns
        return self.passage if is_of_passages else self.query

    def read_column(self, frame: pl.DataFrame, column: str, source: str) -> TextInputs:
        """The texts of a column.

        Raises:
            DataMistake: there is none, or a text is missing.
        """
        if column not in frame.columns:
            raise DataMistake(
                Problem(
                    f"{source} have no column {column!r}",
                    found=", ".join(frame.columns[:10]) or "no column",
                    expected=f"texts in {column!r}",
                    fix="rename the column of the texts",
                )
            )
        texts = frame[column].cast(pl.String)
        if missing := texts.null_count():
            raise DataMistake(
                Problem(
                    f"{many(missing, 'row has', 'rows have')} no text",
                    found=f"{column!r} is missing",
                    expected="a text in every row",
                    fix="repair these rows, or leave them out",
                )
            )
        return self.texts.tokenize(texts.to_list())

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Lengths of queries and passages."""
        inputs = TextPairInputs.of_kind(part.inputs)
        sides = {"query_tokens": inputs.queries, "passage_tokens": inputs.passages}
        return {name: safe_quantiles(one.lengths.astype(np.float64)) for name, one in sides.items()}

    def signature(self, _profile: Mapping[str, Json], /) -> list[InputColumn]:
        """The two columns."""
        return [InputColumn(self.query, "text"), InputColumn(self.passage, "text")]

    def trial_inputs(self) -> list[Inputs]:
        """A text of the last token as query and passage."""
        text = trial_text(self.texts, self.longest)
        return [TextPairInputs(text, text)]

    def shape_json(self, outputs: int) -> Json:
        """The tokens of the texts."""
        # A base has as many positions as it has; ours as a text may have.
        length = self.longest if self.texts.content else self.texts.max_length
        return {
            "kind": self.modality,
            "vocabulary": self.texts.size,
            "length": length,
            "negatives": self.negatives,
            "outputs": outputs,
        }

    def describe(self, rows: int) -> str:
        """Their number, and the vocabulary."""
        hard = f", {many(self.negatives, 'hard negative')} each" if self.negatives else ""
        return f"{many(rows, 'pair')} of texts of {self.texts.size:,} {self.texts.unit}{hard}"

    def describe_cuts(self, parts: Sequence[Part], /) -> str:
        """Texts that were cut."""
        inputs = [TextPairInputs.of_kind(part.inputs) for part in parts]
        cut = sum(one.queries.cut.rows + one.passages.cut.rows for one in inputs)
        return f"{many(cut, 'text')} longer than {self.texts.max_length} tokens: cut" if cut else ""

    @property
    def tokenizer_json(self) -> str:
        """That of a base, as the tokenizers library writes it; empty for tokens of our own."""
        return self.texts.content

    def beside(self) -> Mapping[str, str]:
        """`tokenizer.json` of a base."""
        return {TOKENIZER: self.tokenizer_json} if self.tokenizer_json else {}

    def identity(self) -> Json:
        """What decides every encoded pair."""
        return {**self.to_json(), "texts": self.texts.identity()}

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": self.modality,
            "texts": self.texts.to_json(),
            "longest": self.longest,
            "query": self.query,
            "passage": self.passage,
            "negatives": self.negatives,
        }

    @classmethod
    def from_json(cls, json: Json) -> TextPairEncoder:
        """Inverse of `to_json`."""
        longest, negatives, told = json["longest"], json["negatives"], json["texts"]
        if type(longest) is not int or longest < 1 or type(negatives) is not int:
            raise ValueError("features.json names texts of no length")
        texts = read_caption_tokens(told, json)
        return cls(texts, longest, str(json["query"]), str(json["passage"]), negatives)


@final
@dataclass(frozen=True, slots=True)
class TextPairTerms(Encoding):
    """Counts of `terms`, which are sorted, in a query and in its passage, N x [2 T]; or with
    `rarity` their TF-IDF weights, each text of length 1. What no term counts is counted in one
    further column of `counts`, by which a passage has its length."""

    terms: tuple[str, ...]
    rarity: tuple[float, ...]
    query: str
    passage: str

    modality: ClassVar[str] = "text_pairs"

    @property
    def width(self) -> int:
        """Numbers of a text."""
        return len(self.terms) + (not self.rarity)

    def count(self, texts: Sequence[str]) -> Floats:
        """Numbers of texts [N, width]."""
        places = {term: at for at, term in enumerate(self.terms)}
        found = np.zeros((len(texts), self.width))
        for row, text in enumerate(texts):
            for term, count in Counter(caption_pieces(text, "words")).items():
                if term in places:
                    found[row, places[term]] += count
                elif not self.rarity:
                    found[row, -1] += count
        return unit_rows(found * np.array(self.rarity)) if self.rarity else found

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """A part of pairs."""
        for start in range(0, len(part), _ROWS):
            frame = part.frame[start : start + _ROWS]
            yield self.encode(frame[self.query].to_list(), frame[self.passage].to_list())

    def encode(self, queries: Sequence[str], passages: Sequence[str]) -> TableInputs:
        """Both as numbers, float32 [N, 2 width]."""
        numbers = np.concatenate([self.count(queries), self.count(passages)], axis=1)
        return TableInputs(numbers.astype(np.float32), np.empty((len(numbers), 0), np.int64))

    def read_new(self, _rows: NewRows, /) -> Inputs:
        """Refused: it is compared with on labelled pairs alone."""
        raise NotAvailable(Problem("a baseline of pairs is judged on pairs, not asked"))

    def trial_inputs(self) -> list[Inputs]:
        """Empty texts."""
        return [self.encode([""], [""])]

    def shape_json(self, outputs: int) -> Json:
        """Columns of numbers."""
        return {"kind": "table", "numeric": 2 * self.width, "cardinalities": [], "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number."""
        return f"terms of {many(rows, 'pair')}"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": "terms_of_text_pairs",
            "terms": list(self.terms),
            "rarity": list(self.rarity),
            "query": self.query,
            "passage": self.passage,
        }

    @classmethod
    def from_json(cls, json: Json) -> TextPairTerms:
        """Inverse of `to_json`."""
        terms, rarity = tuple(json["terms"]), tuple(map(float, json["rarity"]))
        if rarity and len(terms) != len(rarity):
            raise ValueError("terms of other pairs")
        return cls(terms, rarity, str(json["query"]), str(json["passage"]))


def common_terms(texts: Sequence[str], most: int = _MOST_TERMS) -> dict[str, int]:
    """The commonest words of texts, sorted, and in how many texts each occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(caption_pieces(text, "words")))
    often = sorted((-count, term) for term, count in counts.items())[:most]
    return {term: counts[term] for term in sorted(term for _, term in often)}
