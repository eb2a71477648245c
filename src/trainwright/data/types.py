"""Prepared data of any modality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.data.base.applied_actions import AppliedAction
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage
from trainwright.data.base.table import Part
from trainwright.data.columns.target import Target
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.split.split_report import SplitReport

Encoding = TableEncoder | Pixels | TextVocabulary
"""Encoding of rows as inputs, by modality."""


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
        assert isinstance(self.features, TableEncoder), "only rows of a table have columns"
        return self.features


def encoding_from_json(json: Json) -> Encoding:
    """The encoding that `to_json` wrote; the default kind is a table."""
    match json.get("kind", "table"):
        case "images":
            return Pixels.from_json(json)
        case "tokens":
            return TextVocabulary.from_json(json)
        case _:
            return TableEncoder.from_json(json)
