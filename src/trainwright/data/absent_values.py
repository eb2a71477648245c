"""Words of a table that are read as missing, and rows without the name that a split goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from trainwright.contract.sections.data.split import GroupSplit, RandomSplit, StratifiedGroupSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.formatting import many
from trainwright.data.base.categories import counted_slices
from trainwright.data.base.inputs import PartName
from trainwright.data.base.messages import some
from trainwright.data.base.row_storage import slices_of
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.sources.source_file import SourceFile

_MOST = 4


def describe_words(
    section: TableData, source: SourceFile, columns: Sequence[ColumnType]
) -> list[str]:
    """Words in columns of text that count as missing by default, such as the `NA` of Namibia."""
    by_default = TableData.model_fields["missing_values"].default
    if section.missing_values != by_default:
        return []
    words = [word for word in by_default if any(map(str.isalpha, word))]
    rows: dict[tuple[str, str], int] = {}
    for column in columns:
        cells = source.frame[column.name]
        is_text = cells.dtype in (pl.String, pl.Categorical, pl.Enum)
        may_be_value = column.missing and column.kind not in ("numeric", "datetime") and is_text
        if not may_be_value or column.name in section.exclude:
            continue
        texts = (part.cast(pl.String).str.strip_chars() for part in slices_of(cells))
        counts = counted_slices(part.filter(part.is_in(words)) for part in texts)
        rows |= {(word, column.name): count for word, count in counts.iter_rows()}
    if not rows:
        return []
    listed = [
        f"{word!r} in {many(count, 'row')} of {name!r}" for (word, name), count in rows.items()
    ]
    kept = ", ".join(f'"{word}"' for word in by_default if word not in {word for word, _ in rows})
    return [
        f"read as missing: {some(listed, _MOST)} · where that is a value, write "
        f"data.missing_values: [{kept}]"
    ]


def describe_groups(section: TableData, frames: Mapping[PartName, pl.DataFrame]) -> list[str]:
    """Rows without the group or key by which the rows are split."""
    match section.split:
        case GroupSplit(column=name) | StratifiedGroupSplit(column=name) | RandomSplit(key=name):
            rows = sum(frame[name].null_count() for frame in frames.values() if name in frame)
        case _:
            rows = 0
    if not rows:
        return []
    return [
        f"{many(rows, 'row has', 'rows have')} no {name!r}: each is split by itself, as if it were "
        "the only one of its group · complete the column where such rows belong together"
    ]
