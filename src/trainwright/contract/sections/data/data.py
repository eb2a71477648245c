"""`data`: what is learned from. The table of kinds of data: their sections, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.section import SectionUnion, tagged_by
from trainwright.core.lazy_imports import LazyTable

_HERE = "trainwright.contract.sections.data"

DATA_SECTIONS: Mapping[str, type[Feeding]] = LazyTable(
    {
        "table": f"{_HERE}.table_data:TableData",
        "images": f"{_HERE}.images:ImageData",
        "tokens": f"{_HERE}.tokens:TokenData",
        "series": f"{_HERE}.series:SeriesData",
        "chats": f"{_HERE}.chats:ChatData",
        "preferences": f"{_HERE}.chats:PreferenceData",
        "pairs": f"{_HERE}.pairs:PairData",
        "text_pairs": f"{_HERE}.text_pairs:TextPairData",
        "captions": f"{_HERE}.captions:CaptionData",
    }
)

Data = Annotated[Feeding, SectionUnion(DATA_SECTIONS, tagged_by("kind", default="table"))]
"""The rows of a table, images with labels or captions, texts, series, chats, or preferences."""


def query_of(data: Feeding) -> str:
    """The column that names the query of each row; empty where nothing is ranked."""
    return data.query if isinstance(data, TableData) else ""


def fold_count(data: Feeding) -> int:
    """The folds that a contract asks for; 0 where the data is divided once."""
    folds = data.folding.folds
    return 0 if folds == "off" else folds
