"""Prepared data of any modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from trainwright.core.files import Json, hash_bytes, hash_value
from trainwright.core.lazy_imports import LazyTable
from trainwright.data.base.inputs import Part
from trainwright.data.base.messages import AppliedAction
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding, FrameEncoding, TypedColumns
from trainwright.data.split.split_report import SplitReport, report_folds

if TYPE_CHECKING:
    from trainwright.data.split.fold_split import Folds

_HERE = "trainwright.data.encoders"

ENCODINGS: Mapping[str, type[Encoding]] = LazyTable(
    {
        "table": f"{_HERE}.table_encoder:TableEncoder",
        "rows": f"{_HERE}.rows_encoder:RowsEncoder",
        "texts": f"{_HERE}.text_encoder:TextEncoder",
        "images": f"{_HERE}.pixel_statistics:Pixels",
        "colours": f"{_HERE}.pixel_statistics:ColourStatistics",
        "tokens": f"{_HERE}.vocabulary:TextVocabulary",
        "chats": "trainwright.data.chats.chat_encoding:ChatEncoding",
        "preferences": "trainwright.data.chats.chat_encoding:PreferenceEncoding",
        "series": "trainwright.data.series.series_encoder:SeriesEncoder",
        "pairs": "trainwright.data.pairs.pair_encoder:PairEncoder",
        "text_pairs": "trainwright.data.text_pairs.text_pair_encoder:TextPairEncoder",
        "captions": "trainwright.data.captions.caption_encoding:CaptionEncoding",
        "terms_of_text_pairs": "trainwright.data.text_pairs.text_pair_encoder:TextPairTerms",
        "terms_of_pairs": "trainwright.data.pairs.pair_encoder:PairTerms",
    }
)
"""By their kind in JSON."""


@final
@dataclass(frozen=True, slots=True)
class Prepared:
    """Prepared data for training and evaluation. `done` records the contract's quality actions;
    `space` is the storage of the rows and derived arrays."""

    train: Part
    validation: Part
    test: Part
    features: Encoding
    target: Target
    split: SplitReport
    version: str
    done: tuple[AppliedAction, ...] = ()
    space: RowStorage = IN_MEMORY

    @property
    def table(self) -> TypedColumns:
        """What types the columns of a table."""
        return FrameEncoding.of_kind(self.features).typed

    def with_folds(self, folds: Folds, reports: Sequence[SplitReport]) -> Prepared:
        """This training on all rows, with what is known of its folds."""
        parts = {"whole": self.version, "folds": hash_bytes(folds.of_row.tobytes())}
        return replace(self, split=report_folds(self.split, reports), version=hash_value(parts))


def side_files(json: Json) -> tuple[str, ...]:
    """Files that stand beside the JSON of an encoding."""
    kind = json.get("kind", "table")
    return ENCODINGS[kind].side_files if kind in ENCODINGS else ()


def encoding_from_json(json: Json) -> Encoding:
    """The encoding that `to_json` wrote. Earlier versions wrote no kind for a table.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    kind = json.get("kind", "table")
    if kind not in ENCODINGS:
        raise ValueError(f"an encoding of kind {kind!r}")
    return ENCODINGS[kind].from_json(json)
