"""Units of rows that an interval draws together."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from trainwright.contract.sections.data.split import GroupSplit, StratifiedGroupSplit, TimeSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.base.storage.row_storage import RowStorage, row_numbers
from trainwright.data.base.table import Integers, PartName
from trainwright.data.columns.target_kind import Target
from trainwright.data.split.groups import combined_label_codes
from trainwright.data.split.time_order import moments, time_units


def row_units(
    frames: Mapping[PartName, pl.DataFrame], section: TableData, target: Target, space: RowStorage
) -> dict[PartName, Integers]:
    """The unit [N] of each row of each part: its group, query or time, else itself."""
    match section.split:
        case GroupSplit(column=name) | StratifiedGroupSplit(column=name):
            codes = combined_label_codes((frame[name] for frame in frames.values()), space)
            return dict(zip(frames, codes, strict=True))
        case _ if target.query:
            from trainwright.data.split.query_split import query_units

            return {part: query_units(frame, section, target) for part, frame in frames.items()}
        case TimeSplit() as split:
            return {
                part: time_units(moments(frame, split.moment, space), space)
                for part, frame in frames.items()
            }
        case _:
            return {part: row_numbers(frame.height, space) for part, frame in frames.items()}
