"""The planner of each kind of data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.contract.document import Contract
from trainwright.core.lazy_table import LazyTable
from trainwright.data.read_table import DataFacts
from trainwright.planner.kinds.data_planner import DataPlanner, RowPlanner

_HERE = "trainwright.planner.kinds"

PLANNERS: Mapping[str, type[DataPlanner[Any]]] = LazyTable(
    {
        "table": f"{_HERE}.table_planner:TablePlanner",
        "images": f"{_HERE}.image_planner:ImagePlanner",
        "tokens": f"{_HERE}.token_planner:TokenPlanner",
        "chats": f"{_HERE}.chat_planner:ChatPlanner",
        "preferences": f"{_HERE}.preference_planner:PreferencePlanner",
        "series": f"{_HERE}.series_planner:SeriesPlanner",
        "pairs": f"{_HERE}.pair_planner:PairPlanner",
        "captions": f"{_HERE}.caption_planner:CaptionPlanner",
    }
)
"""By the kind of the `data` section, where it has more to say than a `RowPlanner`."""


def planner_of(contract: Contract, facts: DataFacts) -> DataPlanner[Any]:
    """The planner of the contract's data."""
    planner = PLANNERS.get(contract.data.kind, RowPlanner)
    return planner(contract, contract.data, facts)
