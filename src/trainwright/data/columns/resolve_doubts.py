"""Ambiguous columns of a section, resolved as `init` would write them; doubtful texts; words that
are read as missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import polars as pl

from trainwright.contract.sections.data.split import (
    GroupSplit,
    RandomSplit,
    StratifiedGroupSplit,
    TimeSplit,
    split_columns,
)
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import counted_slices
from trainwright.data.base.cleaned_cells import ANSWERS, Cells, Cleaning
from trainwright.data.base.inputs import PartName
from trainwright.data.base.messages import quoted, some
from trainwright.data.base.parse_cells import (
    LARGEST,
    folded,
    may_be_misspelt,
    to_labels,
    to_numbers,
)
from trainwright.data.base.row_storage import RowStorage, slices_of, spread_rows
from trainwright.data.columns.column_kinds import WORDS, ColumnType
from trainwright.data.columns.doubts import Doubt, find_doubt
from trainwright.data.formats.file_format import known_format
from trainwright.data.sources.source_file import SourceFile

_MOST_SPELLINGS = 2000
_MOST_WORDS = 4


def find_class_spellings(cells: Cells) -> Doubt | None:
    """Proposed canonical spelling of each class; None if spellings are unique."""
    if cells.dtype != pl.String or not cells.present or not cells.not_numbers:
        return None
    if cells.distinct > _MOST_SPELLINGS:
        return None
    counts = counted_slices(to_labels(one.drop_nulls()) for one in cells.slices())
    spellings = _yes_or_no(counts) or one_spelling(counts)
    if not spellings:
        return None
    known = len(counts)
    shown = some([f"{one!r} for {other!r}" for one, other in spellings.items()], 3)
    reason = f"{known - len(spellings):,} classes in {many(known, 'spelling')}: {shown}"
    return Doubt(cells.name, Column(values=dict(spellings)), reason)


def _yes_or_no(counts: pl.DataFrame) -> Mapping[str, str]:
    """For each spelling of yes and no (`TRUE`, `1`, `y`) another one of its side: that of the pair
    that most rows are written in. Nothing where other classes stand beside these, which may be
    codes, or where each side has one spelling."""
    plain = folded(counts["value"], "kept").to_list()
    sides = {word: side for pair in ANSWERS for side, word in enumerate(pair)}
    found = [sides.get(word, -1) for word in plain]
    if len(found) < 3 or set(found) != {0, 1}:
        return {}
    rows = dict.fromkeys(plain, 0)
    for word, count in zip(plain, counts["count"], strict=True):
        rows[word] += count
    whole = [pair for pair in ANSWERS if set(pair) <= set(rows)]
    pair = max(whole, key=lambda pair: sum(rows[word] for word in pair), default=())
    values = counts["value"].to_list()
    # The commonest spelling comes first.
    wanted = [
        next(at for at, word in enumerate(plain) if found[at] == side and word in (pair or plain))
        for side in (0, 1)
    ]
    chosen = [values[at] for at in wanted]
    named = {value: chosen[side] for value, side in zip(values, found, strict=True)}
    return {value: name for value, name in named.items() if value != name}


def one_spelling(spellings: pl.DataFrame) -> Mapping[str, str]:
    """Map from each word of `counted` that is a variant (case, blanks, hyphens or a final full
    stop) of a more frequent one to that one."""
    spellings = spellings.with_columns(folded(spellings["value"], "kept").alias("plain"))
    spellings = spellings.filter(may_be_misspelt(pl.col("plain")))
    first = pl.col("value").first().over("plain").alias("first")
    others = spellings.with_columns(first).filter(pl.col("value") != pl.col("first"))
    return dict(zip(others["value"].to_list(), others["first"].to_list(), strict=True))


FREE_TEXT = "free text"
"""How the reason of a column begins that is no feature because its texts hardly repeat."""

_LOOKED_AT = 10_000
_WORDS = 5
_MOST_CAPITALS = 0.5


def find_free_text(column: ColumnType, values: pl.Series) -> Doubt | None:
    """The proposal that a column is a text; None for names, addresses and codes."""
    if not column.reason.startswith(FREE_TEXT) or not _are_sentences(values):
        return None
    reason = f"{column.reason}, of several words each"
    return Doubt(column.name, Column(kind="text"), reason)


def _are_sentences(values: pl.Series) -> bool:
    """Whether most values have several words, and most words no capital and no digit in front."""
    texts = values[spread_rows(len(values), _LOOKED_AT)].drop_nulls()
    if texts.dtype != pl.String or not len(texts):
        return False
    words = texts.str.count_matches(WORDS)
    if (words >= _WORDS).sum() * 2 <= len(texts):
        return False
    capitals = texts.str.count_matches(r"(?:^|\s)[^\p{L}\s]*(?:\p{Lu}|\p{N})")
    return int(capitals.sum()) <= _MOST_CAPITALS * int(words.sum())


_FEWEST_VALUES = 2


@final
@dataclass(frozen=True, slots=True)
class Proposed:
    """A section without ambiguous columns, and the resolved doubts."""

    section: TableData
    doubts: tuple[Doubt, ...] = ()
    cells: Mapping[str, Cells] = field(default_factory=dict)
    """Types of the training columns that were examined and unambiguous."""

    @property
    def reads_anew(self) -> bool:
        """Must the files be read again with other settings?"""
        return any(doubt.numbers and not doubt.settings.unit for doubt in self.doubts)


def decide_columns(section: TableData, source: SourceFile, space: RowStorage) -> Proposed:
    """Decide the columns that the contract does not set and the training file leaves ambiguous. The
    contract's settings are kept."""
    cleaning, decided = Cleaning.of(section), _named_by_split(section)
    found = []
    clear: dict[str, Cells] = {}
    for series in source.frame.get_columns():
        if series.name in decided or not _is_open(section, series.name):
            written = section.columns.get(series.name, Column())
            if "%y" in written.format and series.name not in section.exclude:
                from trainwright.data.columns.centuries import settle_century

                cells = Cells(series, cleaning.cells, space)
                century = settle_century(cells, Doubt(series.name, written, ""))
                found += [century] if century.reason else []
            continue
        cells = Cells(series, cleaning.cells, space)
        doubt = find_doubt(cells)
        if doubt and "%y" in doubt.settings.format:
            # Imported here, as above: few columns have two-digit years.
            from trainwright.data.columns.centuries import settle_century

            doubt = settle_century(cells, doubt)
        if doubt is None or not _applies(doubt, section, source):
            doubt = find_class_spellings(cells) if series.name in section.target_columns else None
        if doubt is None:
            # Counted while the cells are in memory: they are built once.
            clear[series.name] = cells.counted()
        else:
            found.append(doubt)
    return Proposed(with_doubts(section, found), tuple(found), clear)


def decide_problems(
    section: TableData,
    problems: Sequence[Problem],
    cells: Sequence[Cells],
    doubts: Sequence[Doubt],
) -> tuple[Doubt, ...]:
    """Doubts that only typed rows show: infinite numbers, which become missing, and a table without
    an evident feature, where possible features are kept even if a doubt has excluded them."""
    excluded = {doubt.column for doubt in doubts if doubt.settings.kind == "ignored"}
    by_name = {
        one.name: one for one in cells if _is_open(section, one.name) or one.name in excluded
    }
    for name in _named_by_split(section) - excluded | set(section.target_columns):
        by_name.pop(name, None)
    if any(problem.kind == "no_feature" for problem in problems):
        found = (_only_feature(one) for one in by_name.values())
        return tuple(doubt for doubt in found if doubt is not None)
    named = [problem.path for problem in problems if problem.kind == "infinite"]
    return tuple(_infinite(by_name[name]) for name in named if name in by_name)


def _infinite(cells: Cells) -> Doubt:
    spellings: list[str] = []
    for one in cells.slices():
        large = to_numbers(one).series.abs() > LARGEST
        spellings += to_labels(one.filter(large)).unique().to_list()
    values = dict.fromkeys(sorted(set(spellings)), "")
    reason = f"{quoted(values)} are infinite or too large, and become missing"
    return Doubt(cells.name, Column(kind="numeric", values=values), reason)


def _only_feature(cells: Cells) -> Doubt | None:
    """Doubt for a column that would be excluded, but is the only one."""
    if cells.is_nested or cells.dtype == pl.Datetime("us") or cells.distinct < _FEWEST_VALUES:
        return None
    if not cells.not_numbers:
        reason = "numbers like an identifier, but there is no other column"
        return Doubt(cells.name, Column(kind="numeric"), reason)
    reason = "text that hardly repeats, and there is no other column"
    return Doubt(cells.name, Column(kind="text"), reason)


def with_doubts(section: TableData, doubts: Sequence[Doubt]) -> TableData:
    """The section with the proposals applied."""
    if not doubts:
        return section
    columns = {**section.columns, **{doubt.column: doubt.settings for doubt in doubts}}
    numbers = {doubt.column: doubt.numbers for doubt in doubts if doubt.numbers}
    reading = section.reading.model_copy(update={"numbers": {**section.reading.numbers, **numbers}})
    return section.model_copy(update={"columns": columns, "reading": reading})


def said(settings: Column) -> dict[str, Json]:
    """Settings of a proposal that differ from the defaults."""
    return dict(settings.model_dump(mode="json", exclude_defaults=True))


def _is_open(section: TableData, name: str) -> bool:
    written = section.columns.get(name, Column())
    return (
        written.kind == "auto"
        and written.format == "auto"
        and not written.unit
        and not written.values
        and written.unreadable == "refuse"
        and not written.allowed
        and name not in (section.weight, *section.exclude)
        and name not in section.reading.numbers
    )


def _named_by_split(section: TableData) -> set[str]:
    """Columns that divide the rows by what they name: a time is decided like any other column."""
    keys = () if isinstance(section.split, TimeSplit) else split_columns(section.split)
    return {name for _, name in keys}


def _applies(doubt: Doubt, section: TableData, source: SourceFile) -> bool:
    in_files = all(known_format(file.path) for file in source.files)
    if doubt.numbers and not in_files:
        return False
    if doubt.column not in section.target_columns:
        return True
    # Target classes are final; target numbers may have a unit or commas.
    return bool(doubt.settings.unit or doubt.numbers)


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
        if not (may_be_value and is_text) or column.name in section.exclude:
            continue
        for part in slices_of(cells):
            texts = part.cast(pl.String).str.strip_chars().alias("word")
            for word, count in texts.filter(texts.is_in(words)).value_counts().iter_rows():
                key = word, column.name
                rows[key] = rows.get(key, 0) + count
    if rows:
        listed = [
            f"{word!r} in {many(count, 'row')} of {name!r}" for (word, name), count in rows.items()
        ]
        found = {word for word, _ in rows}
        kept = ", ".join(f'"{word}"' for word in by_default if word not in found)
        notes.append(
            f"read as missing: {some(listed, _MOST_WORDS)} · where that is a value, write "
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
