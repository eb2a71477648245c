"""Text pairs as tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs.text_inputs import TextInputs
from trainwright.data.base.inputs.text_pair_inputs import TextPairInputs
from trainwright.data.base.row_distribution import safe_quantiles
from trainwright.data.base.table import Inputs, Part
from trainwright.data.encoders.encoding import Encoding, InputColumn, NewRows
from trainwright.data.encoders.text_tokenizer import TextTokenizer
from trainwright.data.pairs.base_captions import TOKENIZER, BaseCaptions
from trainwright.data.pairs.caption_tokenizer import CaptionTokenizer

_LONGEST_TRIAL = 64


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
        length = min(self.longest, _LONGEST_TRIAL)
        last = np.full(length, self.texts.size - 1, np.uint32)
        lengths = np.array([length], dtype=np.int64)
        text = TextInputs(last, np.zeros(1, np.int64), lengths, lengths, self.texts.pad)
        return [TextPairInputs(text, text)]

    def shape_json(self, outputs: int) -> Json:
        """The tokens of the texts."""
        # A base has as many positions as it has; ours as a text may have.
        length = self.longest if self.tokenizer_json else self.texts.max_length
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
        texts = self.texts
        return texts.tokenizer.content if isinstance(texts, BaseCaptions) else ""

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
        texts: CaptionTokenizer | BaseCaptions
        if told["unit"] == "base":
            tokenizer = TextTokenizer(json[TOKENIZER], told["max_length"], told["pad"])
            texts = BaseCaptions(tokenizer)
        else:
            texts = CaptionTokenizer.from_json(told)
        return cls(texts, longest, str(json["query"]), str(json["passage"]), negatives)
