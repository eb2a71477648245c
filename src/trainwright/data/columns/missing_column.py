"""New rows without a column that the model was trained on."""

from __future__ import annotations

from trainwright.core.errors import Problem
from trainwright.data.base.messages import nearest_option, some
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.sources.source_file import SourceFile


def missing_column(column: ColumnType, names: list[str], file: SourceFile) -> Problem:
    """The rows of a file lack a feature column."""
    near = nearest_option(column.name, names)
    return Problem(
        f"there is no column {column.name!r}, which the model was trained on",
        path=column.name,
        found=f"columns {some(names, 8)}",
        expected=f"a {column.kind} column, for example {column.example!r}",
        fix=f"rename {near!r}" if near else "add the column, empty where it is not known",
        place=file.place(),
    )
