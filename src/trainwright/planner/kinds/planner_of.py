"""The planner of each kind of data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainwright.contract.document import Contract
from trainwright.data.read_table import DataFacts
from trainwright.planner.kinds.data_planner import DataPlanner, RowPlanner
from trainwright.planner.kinds.image_planner import ImagePlanner
from trainwright.planner.kinds.table_planner import TablePlanner
from trainwright.planner.kinds.token_planner import TokenPlanner

PLANNERS: Mapping[str, type[DataPlanner[Any]]] = MappingProxyType(
    {"table": TablePlanner, "images": ImagePlanner, "tokens": TokenPlanner}
)
"""By the kind of the `data` section, where it has more to say than a `RowPlanner`."""


def planner_of(contract: Contract, facts: DataFacts) -> DataPlanner[Any]:
    """The planner of the contract's data."""
    planner = PLANNERS.get(contract.data.kind, RowPlanner)
    return planner(contract, contract.data, facts)
