"""Read tables into typed frames, reporting all problems at once."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, final

import polars as pl

from trainwright.contract.sections.data.sources import FRAME
from trainwright.contract.sections.data.split import (
    ColumnSplit,
    FileSplit,
    GroupSplit,
    RandomSplit,
    StratifiedGroupSplit,
    TimeSplit,
)
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake, MissingExtra, Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.lazy_imports import need_pyarrow
from trainwright.data.base.cleaned_cells import Cells, Cleaning, zones_of
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import some
from trainwright.data.base.row_storage import (
    IN_MEMORY,
    IS_SMALL,
    InFiles,
    Placing,
    RowStorage,
    place_rows,
    taken,
)
from trainwright.data.base.token_inputs import AnswerSpans
from trainwright.data.columns.column_kinds import ColumnType, Inferred, infer_column
from trainwright.data.columns.doubtful_dates import check_formats
from trainwright.data.columns.doubts import Doubt
from trainwright.data.columns.resolve_doubts import (
    decide_columns,
    decide_problems,
    describe_absent,
    with_doubts,
)
from trainwright.data.columns.target_column import (
    TargetColumn,
    TargetFacts,
    class_problems,
    facts_of_target,
    find_targets,
)
from trainwright.data.columns.typed_rows import rows_with_targets, type_rows, with_answers
from trainwright.data.sources.cache import scratch_folder
from trainwright.data.sources.find_source import (
    name_problems,
    read_query,
    read_source,
    skipped_notes,
)
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.source_file import FileVersion, SourceFile
from trainwright.data.split.hidden_columns import with_moments
from trainwright.data.split.split_file import WrittenSplit, read_split_file, with_parts

_MOST_NAMES = 4


@final
@dataclass(frozen=True, slots=True)
class DataFacts:
    """Facts about the data for the plan. `rows` counts all files; `given` names the parts with
    their own file; `columns` excludes the target. `documents` are the tokens of the training
    documents by source, `answers` lie in chats, `placing` is the storage of the rows of a table,
    `doubts` its ambiguous columns, `choices` what `auto` means by the rows, if trees learn."""

    rows: int
    columns: tuple[ColumnType, ...]
    target: TargetFacts
    files: tuple[FileVersion, ...]
    given: frozenset[str]
    part_rows: Mapping[str, int]
    documents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    placing: Placing = IS_SMALL
    doubts: tuple[Doubt, ...] = ()
    answers: AnswerSpans | Literal["none"] = field(default="none", compare=False)
    choices: Callable[[bool], Mapping[str, tuple[Json, str]]] = lambda _: {}

    def to_json(self) -> Json:
        """All fields, as JSON."""
        return {
            "rows": self.rows,
            "columns": [column.to_json() for column in self.columns],
            "target": self.target.to_json(),
            "files": [file.to_json() for file in self.files],
            "given": sorted(self.given),
            "part_rows": dict(self.part_rows),
        }


class Raw(ABC):
    """Data of any kind before the split."""

    __slots__ = ()

    facts: DataFacts
    notes: tuple[str, ...]

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """What was excluded or is worth a note, each with the label of its line."""
        return ()

    @property
    def decoded_rows(self) -> int:
        """Rows whose content is in memory; the others are known by their files alone."""
        return self.facts.rows


@final
@dataclass(frozen=True, slots=True)
class RawTable(Raw):
    """Typed rows before the split. `frames` holds `train` and the given parts; `positions` int64 is
    the 0-based row of each in its file; `notes` are messages, `absent` of missing words and groups;
    `space` stores rows and arrays."""

    frames: Mapping[PartName, pl.DataFrame]
    positions: Mapping[PartName, Integers]
    columns: tuple[ColumnType, ...]
    cleaning: Cleaning
    facts: DataFacts
    notes: tuple[str, ...]
    space: RowStorage = IN_MEMORY
    absent: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The excluded columns, by reason, and what was read as missing or has no group."""
        ignored = [column for column in self.columns if column.kind == "ignored"]
        reasons = list(dict.fromkeys(column.reason for column in ignored))
        shown = [
            f"{some([c.name for c in ignored if c.reason == reason], _MOST_NAMES)} ({reason})"
            for reason in reasons
        ]
        more = " · more in the report" * (len(shown) > _MOST_NAMES)
        excluded = (("excluded", " · ".join(shown[:_MOST_NAMES]) + more),) if shown else ()
        return (*excluded, *(("note", text) for text in self.absent))


def read_table(
    section: TableData,
    folder: Path,
    given: Mapping[str, Frame] = NO_FRAMES,
    instants: Collection[str] = (),
) -> RawTable:
    """Read the files of a section, relative to `folder`, and type their columns.

    Types are inferred from the training file only, applied to the others; `instants` are in UTC.

    Raises:
        DataMistake: with every problem that could be found at once.
        MissingExtra: a package that reads a source is not installed.
    """
    sources = read_sources(section, folder, given)
    if problems := name_problems(section, sources):
        raise DataMistake(problems)
    placing, space = _placed(section, sources, folder)
    sources = with_answers(section, sources, space)
    proposed = decide_columns(section, sources["train"], space)
    section, doubts = proposed.section, proposed.doubts
    known = proposed.cells
    if proposed.reads_anew:
        sources = with_answers(section, read_sources(section, folder, given), space)
        known = {}
    typed = _typed(section, sources, space, known, instants)
    if later := decide_problems(section, typed.problems, typed.cells, doubts):
        anew = {doubt.column for doubt in later}
        doubts = (*(doubt for doubt in doubts if doubt.column not in anew), *later)
        section = with_doubts(section, later)
        typed = _typed(section, sources, space, {}, instants)
    if typed.problems:
        raise DataMistake(typed.problems)
    written = read_split_file(section.split, folder)
    frames = dict(typed.frames)
    frames["train"] = with_parts(frames["train"], typed.cells, written, space)
    frames = with_moments(frames, section.split, space)
    raw = _raw(sources, frames, (typed.columns, typed.targets, typed.cleaning), written, space)
    absent = describe_absent(section, sources["train"], typed.columns, raw.frames)
    facts = replace(raw.facts, placing=placing, doubts=doubts)
    return replace(raw, facts=facts, notes=(*raw.notes, *absent), absent=absent)


@final
@dataclass(frozen=True, slots=True)
class _Typed:
    """Typed files of a section, with all problems; `cells` are the training file's."""

    columns: tuple[ColumnType, ...]
    targets: tuple[TargetColumn, ...]
    cleaning: Cleaning
    cells: Sequence[Cells]
    frames: Mapping[PartName, pl.DataFrame]
    problems: Sequence[Problem]


def _typed(
    section: TableData,
    sources: Mapping[PartName, SourceFile],
    space: RowStorage,
    known: Mapping[str, Cells],
    instants: Collection[str],
) -> _Typed:
    """`known` are training cells already cleaned in the same way, but for their zones."""
    written = {name for name, column in section.columns.items() if column.format != "auto"}
    zones = zones_of(sources["train"].frame.drop(*instants, *written, strict=False))
    cleaning = replace(Cleaning.of(section), zones=zones)
    trained = [Cells(one, cleaning.cells, space) for one in sources["train"].frame]
    trained = [one if one.name in zones else known.get(one.name, one) for one in trained]
    inferred = _infer_columns(section, trained, sources["train"])
    columns = tuple(one.type for one in inferred)
    problems = [problem for one in inferred for problem in one.problems]
    if not problems and all(column.kind == "ignored" for column in columns):
        reasons = "; ".join(f"{column.name}: {column.reason}" for column in columns[:8])
        problems.append(
            Problem(
                "no column is left to learn from",
                path="data.columns",
                found=reasons or "only the target",
                expected="at least one feature",
                fix="set the kind of a column in data.columns",
                place=sources["train"].place(),
                kind="no_feature",
            )
        )
    targets = find_targets(section, trained, sources["train"])
    problems += [problem for target in targets for problem in target.problems]
    labels = {c.name: c.labels() for c in trained if c.dtype == pl.String and c.distinct <= 2}
    cleaning = cleaning.with_booleans(labels)
    frames: dict[PartName, pl.DataFrame] = {}
    for part, source in sources.items():
        cells = [Cells(one, cleaning.cells, space) for one in source.frame if part != "train"]
        frames[part], found = type_rows(cells or trained, columns, targets, source, space)
        problems += [problem for problem in found if problem not in problems]
    if not section.has_several_targets:
        problems += class_problems(targets[0], frames, sources)
    return _Typed(columns, targets, cleaning, trained, frames, problems)


def _placed(
    section: TableData, sources: Mapping[PartName, SourceFile], folder: Path
) -> tuple[Placing, RowStorage]:
    rows = sum(source.frame.height for source in sources.values())
    placing = place_rows(section.reading, rows, sources["train"].frame.width)
    if placing.rows_in == "memory":
        return placing, IN_MEMORY
    need_pyarrow("data.reading.rows_in")
    return placing, InFiles(scratch_folder(section.reading.cache, folder))


def read_sources(
    section: TableData, folder: Path, given: Mapping[str, Frame] = NO_FRAMES
) -> dict[PartName, SourceFile]:
    """Source file of each given part, uncleaned.

    Raises:
        DataMistake: with every problem of every file, or of a format of dates that cannot be read.
        MissingExtra: as `read_table`.
    """
    check_formats(section)
    first = "path" if section.path or not section.train_path else "train_path"
    wanted: list[tuple[PartName, str, str]] = [
        ("train", f"data.{first}", section.path or section.train_path),
        ("validation", "data.val_path", section.val_path),
        ("test", "data.test_path", section.test_path),
    ]
    if section.sql.query:
        source = read_query(section.sql, folder, section.file_reading)
        if few := _row_problems(source, "train", "data.sql.query"):
            raise DataMistake(few)
        return {"train": source}
    if not wanted[0][2]:
        raise DataMistake(
            Problem("no data is named", path="data.path", fix="name a file: data.path: rows.csv")
        )
    sources: dict[PartName, SourceFile] = {}
    problems: list[Problem] = []
    for part, path, written in wanted:
        if not written:
            continue
        try:
            sources[part] = read_source(written, folder, path, section.file_reading, given)
            problems += _row_problems(sources[part], part, path)
        except MissingExtra:
            raise
        except Mistake as mistake:
            problems += [_on_path(problem, path) for problem in mistake.problems]
    if problems:
        raise DataMistake(problems)
    return sources


def _on_path(problem: Problem, path: str) -> Problem:
    """The problem, with the contract path of its file."""
    return problem if problem.path else replace(problem, path=path)


def _row_problems(source: SourceFile, part: PartName, path: str) -> list[Problem]:
    rows = source.frame.height
    if rows > 1 or (rows and part != "train"):
        return []
    if part == "test" and source.version.path.startswith(FRAME):
        return []  # all rows are for fitting: a judgement says that there are none
    return [
        Problem(
            "the file has only one row" if rows else "the file has a header and no rows",
            path=path,
            found=f"{rows} row{'' if rows == 1 else 's'}",
            expected="rows to learn from" if part == "train" else "at least one row",
            fix="export the data again, or name another file",
            place=source.place(),
        )
    ]


def _infer_columns(
    section: TableData, cells: Sequence[Cells], source: SourceFile
) -> list[Inferred]:
    """The type of each column but the targets."""
    inferred = []
    for column in cells:
        name = column.name
        if name in section.target_columns:
            continue
        written = section.columns.get(name, Column())
        is_time = isinstance(section.split, TimeSplit) and name == section.split.column
        reason = _left_out(section, column)
        inferred.append(infer_column(column, written, reason, source, keep=is_time))
    return inferred


def _left_out(section: TableData, cells: Cells) -> str:
    """Why the contract excludes a column from the features; empty if it does not."""
    if cells.name in (section.weight, *section.exclude):
        return "weight of the row" if cells.name == section.weight else "listed in data.exclude"
    match section.split:
        case GroupSplit(column=name) | StratifiedGroupSplit(column=name) if name == cells.name:
            return "group of the split"
        case RandomSplit(key=name) | FileSplit(key=name) if name == cells.name:
            return "row key of the split"
        case ColumnSplit(column=name) if name == cells.name:
            return "part of the split"
        case TimeSplit(column=name) if name == cells.name:
            return "" if _is_date(section, cells) else "time of the split"
        case _:
            return ""


def _is_date(section: TableData, cells: Cells) -> bool:
    written = section.columns.get(cells.name, Column())
    is_told = written.kind == "datetime" or written.format != "auto"
    return is_told or (written.kind == "auto" and cells.not_numbers > 0)


def _raw(
    sources: Mapping[PartName, SourceFile],
    frames: Mapping[PartName, pl.DataFrame],
    known: tuple[tuple[ColumnType, ...], tuple[TargetColumn, ...], Cleaning],
    written: WrittenSplit,
    space: RowStorage,
) -> RawTable:
    columns, targets, cleaning = known
    kept: dict[PartName, pl.DataFrame] = {}
    places: dict[PartName, Integers] = {}
    notes, dropped = list[str](), 0
    for part, frame in frames.items():
        answered = rows_with_targets(frame.select([one.name for one in targets]), space)
        kept[part] = frame
        if len(answered) < frame.height:
            kept[part] = space.frame(taken(frame, answered))
        places[part] = sources[part].positions(answered)
        if left := sum(file.rows for file in sources[part].files) - len(answered):
            dropped += left
            notes.append(f"{many(left, 'row')} of {sources[part].version.path} excluded: no target")
    notes += [note for source in sources.values() for note in skipped_notes(source)]
    notes += [f"{c.name} excluded: {c.reason}" for c in columns if c.kind == "ignored"]
    facts = DataFacts(
        rows=sum(frame.height for frame in kept.values()),
        columns=columns,
        target=facts_of_target(targets, kept["train"], dropped, space),
        files=(
            *(replace(file, part=part) for part, one in sources.items() for file in one.files),
            *written.files,
        ),
        given=frozenset(part for part in kept if part != "train"),
        part_rows={part: frame.height for part, frame in kept.items()},
    )
    return RawTable(kept, places, columns, cleaning, facts, tuple(notes), space)
