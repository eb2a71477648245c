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


def describe_absent(
    section: TableData,
    source: SourceFile,
    columns: Sequence[ColumnType],
    frames: Mapping[PartName, pl.DataFrame],
) -> tuple[str, ...]:
    """Words in columns of text that count as missing by default, such as the `NA` of Namibia, and
    rows without the group or key by which they are split."""
    notes = []
    by_default = TableData.model_fields["missing_values"].default
    words = [word for word in by_default if any(map(str.isalpha, word))]
    rows: dict[tuple[str, str], int] = {}
    for column in columns if section.missing_values == by_default else ():
        cells = source.frame[column.name]
        may_be_value = column.missing and column.kind not in ("numeric", "datetime")
        is_text = cells.dtype in (pl.String, pl.Categorical, pl.Enum)
        if may_be_value and is_text and column.name not in section.exclude:
            texts = (part.cast(pl.String).str.strip_chars() for part in slices_of(cells))
            counts = counted_slices(part.filter(part.is_in(words)) for part in texts)
            rows |= {(word, column.name): count for word, count in counts.iter_rows()}
    if rows:
        listed = [
            f"{word!r} in {many(count, 'row')} of {name!r}" for (word, name), count in rows.items()
        ]
        found = {word for word, _ in rows}
        kept = ", ".join(f'"{word}"' for word in by_default if word not in found)
        notes.append(
            f"read as missing: {some(listed, _MOST)} · where that is a value, write "
            f"data.missing_values: [{kept}]"
        )
    match section.split:
        case GroupSplit(column=name) | StratifiedGroupSplit(column=name) | RandomSplit(key=name):
            alone = sum(frame[name].null_count() for frame in frames.values() if name in frame)
            if alone:
                notes.append(
                    f"{many(alone, 'row has', 'rows have')} no {name!r}: each is split by itself, "
                    "as the only one of its group · complete the column where rows belong together"
                )
        case _:
            pass
    return tuple(notes)
