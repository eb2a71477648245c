"""Prepared data of any modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import final

from trainwright.core.files import Json
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.base.applied_actions import AppliedAction
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage
from trainwright.data.base.table import Part
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.encoding import Encoding, FrameEncoding, TypedColumns
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.text_encoder import TextEncoder
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.split.fold_split import Folds
from trainwright.data.split.split_report import SplitReport, report_folds

ENCODINGS: Mapping[str, type[Encoding]] = MappingProxyType(
    {"table": TableEncoder, "texts": TextEncoder, "images": Pixels, "tokens": TextVocabulary}
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
