"""Text encoder: a column of texts, or a pair of them, as the tokens of a model's tokenizer, which
are kept in the cache as memory-mapped arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.table_data import Features
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Inputs, Part
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, slices_of
from trainwright.data.base.token_inputs import TextInputs
from trainwright.data.columns.typed_rows import share_filled
from trainwright.data.encoders.encoding import FrameEncoding, InputColumn, NewRows, names_of_kind
from trainwright.data.encoders.table_encoder import TableEncoder, TrainRows, fit_features
from trainwright.data.encoders.text_tokenizer import TextReading, TextTokenizer

_TOKENIZER = "tokenizer.json"
_LONGEST_TRIAL = 512
"""Most tokens of a row by which a stored model is tried."""


@final
@dataclass(frozen=True, slots=True)
class TextEncoder(FrameEncoding):
    """Nothing in it is fitted but the types of the columns, which `table` holds, and the tokens of
    the longest training row."""

    table: TableEncoder
    reading: TextReading
    longest: int

    modality: ClassVar[str] = "table"
    side_files: ClassVar[tuple[str, ...]] = (_TOKENIZER,)

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's own."""
        return self.reading.tokenizer

    @property
    def typed(self) -> TableEncoder:
        """The encoder of the columns, which has no inputs."""
        return self.table

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """The columns of texts."""
        return self.table.hashed_columns

    def read_new(self, rows: NewRows, /) -> TextInputs:
        """Typed as the training rows were, and tokenised."""
        return self.transform(self.table.read(rows.frame(), rows.source))

    def allow_unknown(self, columns: Collection[str], /) -> TextEncoder:
        """As `TableEncoder.allow_unknown`."""
        return replace(self, table=self.table.allow_unknown(columns))

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """The rows of the part's frame, tokenised a slice at a time."""
        return (self.transform(rows) for rows in slices_of(part.frame))

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Lengths of the texts."""
        return self.table.profile(part)

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """The columns of texts."""
        return self.table.signature(profile)

    def transform(self, frame: pl.DataFrame, _space: RowStorage = IN_MEMORY) -> TextInputs:
        """Tokens of typed rows."""
        return self.reading.tokenize(texts_of(frame, self.table))

    def trial_inputs(self) -> list[Inputs]:
        """An empty text, and two rows of the last token of the vocabulary: a short one, which is
        padded, and one as long as the training's; each ends as a text does."""
        empty = self.transform(self.table.blank_row())
        longest = min(self.tokenizer.max_length, self.longest, _LONGEST_TRIAL)
        lengths = np.array([1, longest], dtype=np.int64)
        last = np.full(1 + longest, self.tokenizer.vocabulary - 1, dtype=np.uint32)
        last[[0, -1]] = empty.tokens[-1] if len(empty.tokens) else last[-1]
        starts, firsts = np.array([0, 1], dtype=np.int64), (lengths + 1) // 2
        pad = self.tokenizer.pad
        return [empty, TextInputs(last, starts, lengths, firsts, pad, empty.is_paired)]

    def shape_json(self, outputs: int) -> Json:
        """The longest row."""
        return {"kind": "texts", "length": self.longest, "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number, and the vocabulary."""
        return f"{self.table.describe(rows)} · {self.tokenizer.vocabulary:,} tokens"

    def describe_cuts(self, parts: Sequence[Part], /) -> str:
        """Rows that were cut, and the share of the tokens that they lost."""
        cuts = [TextInputs.of_kind(part.inputs).cut for part in parts]
        rows, lost = sum(one.rows for one in cuts), sum(one.lost for one in cuts)
        if not rows:
            return ""
        share = lost / sum(one.tokens for one in cuts)
        length = self.tokenizer.max_length
        return (
            f"{many(rows, 'row')} of {sum(map(len, parts)):,} longer than {length:,} tokens: cut, "
            f"{share:.2%} of all tokens lost"
        )

    def identity(self) -> Json:
        """What decides every encoded row, for the version of the data."""
        return {
            "columns": self.table.identity(),
            "tokenizer": self.tokenizer.sha256,
            "max_length": self.tokenizer.max_length,
        }

    def to_json(self) -> Json:
        """What `from_json` reads, without the tokenizer itself: that is a file of its own."""
        return {
            "kind": "texts",
            "table": self.table.to_json(),
            "max_length": self.tokenizer.max_length,
            "pad": self.tokenizer.pad,
            "longest": self.longest,
        }

    def beside(self) -> Mapping[str, str]:
        """`tokenizer.json`, as the tokenizers library writes it."""
        return {_TOKENIZER: self.tokenizer.content}

    @classmethod
    def from_json(cls, json: Json) -> TextEncoder:
        """Inverse of `to_json`, with the content of `tokenizer.json` under its name."""
        tokenizer = TextTokenizer(json[_TOKENIZER], json["max_length"], json["pad"])
        table = TableEncoder.from_json(json["table"])
        return cls(table, TextReading(tokenizer), json["longest"])


def texts_of(frame: pl.DataFrame, table: TableEncoder) -> list[list[str]]:
    """The columns of texts of typed rows; a missing text is empty."""
    names = names_of_kind(table.columns, "text")
    return [frame[name].cast(pl.String).fill_null("").to_list() for name in names]


def fit_text_encoder(
    rows: TrainRows, section: Features, reading: TextReading
) -> tuple[TextEncoder, TextInputs]:
    """Encoder of the training rows' columns of texts, and their tokens."""
    bare, _ = fit_features(TrainRows(rows.frame, (), rows.cleaning, rows.target), section, {})
    filled = share_filled(rows.frame, rows.columns)
    table = replace(bare, columns=rows.columns, filled=filled)
    inputs = reading.tokenize(texts_of(rows.frame, table))
    longest = int(inputs.lengths.max(initial=1))
    return TextEncoder(table, reading, longest), inputs
