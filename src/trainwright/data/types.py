"""Data ready for a learner and a judge, of whatever kind."""

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
"""How rows of a file become inputs: of a table, of images, of a text."""


@final
@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a learner and a judge get of the data. `done` is what the contract's actions
    changed; `space` is where the rows lie, and what is made of them."""

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
        """The fitted features of a table; of other data there are none."""
        assert isinstance(self.features, TableEncoder), "only rows of a table have columns"
        return self.features


def encoding_from_json(json: Json) -> Encoding:
    """The encoding that `to_json` wrote; one without a kind is of a table."""
    match json.get("kind", "table"):
        case "images":
            return Pixels.from_json(json)
        case "tokens":
            return TextVocabulary.from_json(json)
        case _:
            return TableEncoder.from_json(json)
