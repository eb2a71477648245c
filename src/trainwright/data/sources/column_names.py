"""Validation of the contract's column names against the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.split import split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Place, Problem
from trainwright.data.base.messages import nearest_option, quoted, some
from trainwright.data.base.table import PartName
from trainwright.data.formats.file_format import is_untyped, known_format
from trainwright.data.sources.source_file import SourceFile

_MOST_ABOVE = 20


def name_problems(section: TableData, sources: Mapping[PartName, SourceFile]) -> list[Problem]:
    """Problems of contract columns absent from the training file, and of training columns absent
    from other files."""
    source = sources["train"]
    names = source.frame.columns
    listed = enumerate(section.target_columns)
    wanted = [(f"data.target.{at}", name) for at, name in listed]
    if isinstance(section.target, str):
        wanted = [("data.target", section.target)]
    wanted += [(f"data.exclude.{i}", name) for i, name in enumerate(section.exclude)]
    wanted += [(f"data.columns.{as_key(name)}", name) for name in section.columns]
    wanted += [(f"data.reading.numbers.{as_key(name)}", name) for name in section.reading.numbers]
    wanted += [(f"data.split.{field}", name) for field, name in split_columns(section.split)]
    wanted += [("data.weight", section.weight)] if section.weight else []
    problems = [
        absent_column(path, name, names, source.place())
        for path, name in wanted
        if name not in names
    ]
    if section.target_columns[0] not in names and (above := _lines_above(section, source)):
        fix = (
            f"line {above + 1} looks like the header: --set data.reading.skip_lines={above} leaves "
            "out the lines above it"
        )
        problems[0] = replace(problems[0], fix=fix)
    problems += _useless_numbers(section, source)
    unused = {section.weight, *section.exclude}
    unused |= {name for name, column in section.columns.items() if column.kind == "ignored"}
    needed = [name for name in names if name not in unused]
    for part, other in sources.items():
        there = set(other.frame.columns)
        lacking = [name for name in needed if name not in there]
        if part != "train" and lacking:
            problems.append(
                Problem(
                    f"the {part} file lacks columns of the training file",
                    path=f"data.{'val' if part == 'validation' else 'test'}_path",
                    found=f"no {quoted(lacking)}",
                    expected=f"the columns of {source.version.path}",
                    fix="add the columns, or list them in data.exclude",
                    place=other.place(),
                )
            )
    return problems


def _lines_above(section: TableData, source: SourceFile) -> int:
    """The lines above the first of a text file that holds the target's name, among its first; 0
    where none does."""
    if not section.reading.header or source.parts or not is_untyped(source.version.path):
        return 0
    first = source.frame.head(_MOST_ABOVE)
    holds = first.select(pl.any_horizontal(pl.all().str.strip_chars() == section.target_columns[0]))
    rows = holds.to_series().arg_true()
    line = int(source.lines[rows[0]]) if len(rows) else 1
    return line - 1 if line <= _MOST_ABOVE else 0


def _useless_numbers(section: TableData, source: SourceFile) -> list[Problem]:
    """The problems of numbers that are to be rewritten where nothing is: outside files, and in
    columns that are no text."""
    if not section.reading.numbers:
        return []
    if any(known_format(file.path) for file in source.files):
        types = source.frame.schema
        return [
            Problem(
                f"the column {name!r} is no text: its type in the file says what its numbers are",
                path=f"data.reading.numbers.{as_key(name)}",
                found=str(types[name]),
                expected="text",
                fix="leave it out of data.reading.numbers",
                place=source.place(),
            )
            for name in section.reading.numbers
            if name in types and types[name] != pl.String
        ]
    return [
        Problem(
            "only the numbers of files are rewritten",
            path="data.reading.numbers",
            found=source.version.path,
            expected="a file",
            fix="leave data.reading.numbers out, and give the numbers as 1234.5",
            place=source.place(),
        )
    ]


def absent_column(path: str, name: str, names: list[str], place: Place) -> Problem:
    """Problem of a column named at `path` that does not exist."""
    near = nearest_option(name, names)
    return Problem(
        f"there is no column {name!r}",
        path=path,
        found=name,
        expected=f"one of: {some(names, 12)}",
        fix=f"did you mean {near!r}?" if near else "name one of the columns",
        place=place,
    )
