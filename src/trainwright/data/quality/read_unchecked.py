"""Lenient reading for the checks: invalid cells become findings, not errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base.cells.cleaned_cells import Cleaning
from trainwright.data.quality.column_settings import (
    column_settings_of,
    examined_target,
    key_columns,
    other_targets,
)
from trainwright.data.quality.examined_data import ExaminedData, Task, examine, together
from trainwright.data.read_table import RawTable, read_sources
from trainwright.data.sources.column_names import name_problems
from trainwright.data.split.hidden_columns import without_hidden
from trainwright.data.types import Prepared


def examine_table(section: TableData, folder: Path, *, targeted: bool = True) -> ExaminedData:
    """Rows of all files of a section, concatenated; rows of validation and test files belong to
    these parts, all others to training. `targeted`: the section's target is explicit, not its
    default.

    Raises:
        DataMistake: a file is missing, damaged or not what its name says, or a column that is named
            is absent.
    """
    sources = read_sources(section, folder)
    if targeted and (problems := name_problems(section, sources)):
        raise DataMistake(problems)
    frames = {part: source.frame for part, source in sources.items()}
    data = examine(
        together(list(frames.values())),
        examined_target(section) if targeted else "",
        section.columns,
        Cleaning.of(section),
        (*section.exclude, *key_columns(section), *(other_targets(section) if targeted else ())),
    )
    codes = {"train": 0, "validation": 1, "test": 2}
    parts = [np.full(frame.height, codes[part]) for part, frame in frames.items()]
    return replace(data, parts=np.concatenate(parts))


def examine_prepared(
    raw: RawTable, prepared: Prepared, section: TableData, target: str = ""
) -> ExaminedData:
    """Rows already read and split, with the part of each; of several targets with the first, or
    another one."""
    data = examine(
        together([without_hidden(frame) for frame in raw.frames.values()]),
        target or examined_target(section),
        column_settings_of(section, raw.frames["train"]),
        Cleaning((), {}),
        (*section.exclude, *key_columns(section), *other_targets(section, target)),
    )
    start, rows, parts = 0, [], []
    for name in raw.frames:
        # Rows at the end of a file excluded for a missing target take no position.
        places = int(raw.positions[name].max(initial=-1)) + 1
        if len(raw.facts.files) == len(raw.frames):
            places = raw.facts.files[list(raw.frames).index(name)].rows
        code = np.zeros(places, dtype=np.int8)
        # Training rows last: under cross-validation the test part overlaps the others.
        for at, part in ((2, prepared.test), (1, prepared.validation), (0, prepared.train)):
            of_this_file = part.name == name or (name == "train" and part.name not in raw.frames)
            if of_this_file:
                code[part.rows] = at
        rows.append(start + raw.positions[name])
        parts.append(code[raw.positions[name]])
        start += places
    of_labels = prepared.target.task == "multilabel"
    task: Task = "classes" if prepared.target.classes or of_labels else "numbers"
    data = replace(data, rows=np.concatenate(rows), parts=np.concatenate(parts))
    return _with_task(data, task)


def divided(data: ExaminedData, like: ExaminedData) -> ExaminedData:
    """All rows of a file with the parts and task of `like`; rows excluded there count as
    training."""
    parts = data.parts.copy()
    parts[like.rows] = like.parts
    return _with_task(replace(data, parts=parts), like.task)


def _with_task(data: ExaminedData, task: Task) -> ExaminedData:
    """Rows with the training's task, which a few distinct numbers alone do not determine."""
    possible = data.task != "none" and (
        task == "classes" or data.of_name(data.target).kind == "numeric"
    )
    return replace(data, task=task) if possible else data
