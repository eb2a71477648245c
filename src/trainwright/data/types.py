"""Prepared data of any modality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from trainwright.core.files import Json
from trainwright.data.base.applied_actions import AppliedAction
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage
from trainwright.data.base.table import Part
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.split.split_report import SplitReport

ENCODINGS: Mapping[str, type[Encoding]] = MappingProxyType(
    {"table": TableEncoder, "images": Pixels, "tokens": TextVocabulary}
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
    def table(self) -> TableEncoder:
        """Fitted features of a table."""
        return TableEncoder.of_kind(self.features)


def encoding_from_json(json: Json) -> Encoding:
    """The encoding that `to_json` wrote. Earlier versions wrote no kind for a table.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    kind = json.get("kind", "table")
    if kind not in ENCODINGS:
        raise ValueError(f"an encoding of kind {kind!r}")
    return ENCODINGS[kind].from_json(json)
