"""Run the data quality checks: rows read leniently, so that invalid cells become findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake
from trainwright.core.process import one_blas_thread
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.quality.columns import (
    implausible_values,
    outliers,
    time_series,
    value_formats,
)
from trainwright.data.quality.columns import missing_values as absence
from trainwright.data.quality.columns.missing_values import placeholders
from trainwright.data.quality.columns.mixed_units import mixed_units
from trainwright.data.quality.columns.outliers import totals_row
from trainwright.data.quality.columns.useless_columns import (
    constant_columns,
    few_rows,
    identifier,
    leaks,
    rare_category,
    redundant_columns,
)
from trainwright.data.quality.content import text_quality
from trainwright.data.quality.copies import duplicates
from trainwright.data.quality.copies.near_duplicates import near_duplicates
from trainwright.data.quality.examined_data import (
    ExaminedData,
    Task,
    column_settings_of,
    examine,
    examined_target,
    key_columns,
    other_targets,
    together,
)
from trainwright.data.quality.finding import Finding, Subset, worst_first
from trainwright.data.quality.labels import label_noise
from trainwright.data.quality.labels.label_errors import label_errors
from trainwright.data.read_table import RawTable, read_sources
from trainwright.data.sources.find_source import name_problems
from trainwright.data.split.hidden_columns import without_hidden
from trainwright.data.types import Prepared

if TYPE_CHECKING:
    from trainwright.data.images.raw_images import RawImages
    from trainwright.data.quality.copies.near_duplicate_images import ImageGroups


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


Check = Callable[[ExaminedData], list[Finding]]
Effort = Literal["all", "quick"]

QUICK: tuple[Check, ...] = (
    duplicates.exact_duplicates,
    duplicates.conflicting_labels,
    absence.missing,
    absence.missing_words,
    absence.missing_not_at_random,
    constant_columns,
    identifier,
    redundant_columns,
    rare_category,
    value_formats.wrong_type,
    value_formats.mixed_formats,
    value_formats.odd_flags,
    value_formats.units_as_text,
    value_formats.variant_spellings,
    value_formats.surrounding_spaces,
    implausible_values.unlikely_values,
    placeholders,
    implausible_values.capped,
    time_series.stuck,
    time_series.frozen,
    time_series.time_gaps,
    totals_row,
    outliers.outliers,
    outliers.skewed,
    label_noise.class_imbalance,
    label_noise.rare_class,
    text_quality.short_text,
    text_quality.long_text,
    text_quality.repeated_text,
    text_quality.markup,
    text_quality.line_breaks,
    text_quality.mojibake,
)
"""Checks about as cheap as reading the data. Leaks are separate: the audit of a split checks for
them too."""

OF_A_TARGET: tuple[Check, ...] = (label_noise.class_imbalance, label_noise.rare_class)
"""Checks of the target by itself, made of each of several."""

SLOW: tuple[tuple[str, Check], ...] = (
    ("near duplicates", near_duplicates),
    ("numbers in two units", mixed_units),
    ("other languages", text_quality.other_language),
    ("label errors", label_errors),
)
"""Expensive checks (sorting, searching, fitting), each with its progress label."""

BY_MODELS = ("label errors",)
"""Those that fit models on the rows."""

_COPIES = ("exact_duplicates", "near_duplicates")

CHECKS_OF: Mapping[FindingKind, tuple[Check, ...]] = MappingProxyType(
    {
        "exact_duplicates": (duplicates.exact_duplicates,),
        "near_duplicates": (near_duplicates,),
        "conflicting_labels": (duplicates.conflicting_labels,),
        "missing": (absence.missing, absence.missing_words),
        "missing_not_at_random": (absence.missing_not_at_random,),
        "constant": (constant_columns,),
        "identifier": (identifier,),
        "redundant_columns": (redundant_columns,),
        "few_rows": (few_rows,),
        "wrong_type": (value_formats.wrong_type,),
        "surrounding_spaces": (value_formats.surrounding_spaces,),
        "mixed_units": (mixed_units, value_formats.units_as_text),
        "mixed_formats": (value_formats.mixed_formats, value_formats.odd_flags),
        "variant_spellings": (value_formats.variant_spellings,),
        "unlikely_values": (implausible_values.unlikely_values, placeholders),
        "capped": (implausible_values.capped,),
        "stuck": (time_series.stuck, time_series.frozen),
        "time_gaps": (time_series.time_gaps,),
        "outliers": (outliers.outliers,),
        "skewed": (outliers.skewed,),
        "class_imbalance": (label_noise.class_imbalance,),
        "rare_class": (label_noise.rare_class,),
        "rare_category": (rare_category,),
        "ordered_target": (label_noise.ordered_target,),
        "label_error": (label_errors,),
        "short_text": (text_quality.short_text,),
        "long_text": (text_quality.long_text,),
        "repeated_text": (text_quality.repeated_text,),
        "markup": (text_quality.markup,),
        "line_breaks": (text_quality.line_breaks,),
        "mojibake": (text_quality.mojibake,),
        "other_language": (text_quality.other_language,),
        "leak": (leaks,),
        "suspicious_feature": (leaks,),
    }
)
"""Checks by finding kind, without column constraints."""


@one_blas_thread()
def find_kind(
    data: ExaminedData, kind: FindingKind, columns: Mapping[str, Column]
) -> list[Finding]:
    """Findings of one kind."""
    if kind in CHECKS_OF:
        found = [one for check in CHECKS_OF[kind] for one in check(data)]
    else:
        found = implausible_values.against_schema(data, columns)
    return [finding for finding in found if finding.kind == kind]


@one_blas_thread()
def find_faults(
    data: ExaminedData,
    columns: Mapping[str, Column],
    effort: Effort = "all",
    tell: Callable[[str], None] = lambda _: None,
    *,
    audited: bool = False,
    most_judged: int = sys.maxsize,
    subset: Subset = "all",
) -> tuple[Finding, ...]:
    """All findings, most severe first. `tell` receives the label of each expensive check;
    `audited`: the leakage audit also runs on these rows. It finds leaks and rows in order itself,
    and says which copies matter to the split: here they are informational. Labels of more rows than
    `most_judged` are judged on an even subsample."""
    if not len(data):
        return ()
    found: list[Finding] = []
    if subset != "by_models":
        found += implausible_values.against_schema(data, columns)
        found += few_rows(data)
        if audited:
            data = replace(data, parts=np.zeros_like(data.parts))
        else:
            found += [*leaks(data), *label_noise.ordered_target(data)]
        for check in QUICK:
            found += check(data)
    for what, slow in SLOW if effort == "all" else ():
        if subset != "all" and (what in BY_MODELS) != (subset == "by_models"):
            continue
        tell(what)
        is_judged = slow is label_errors and len(data) > most_judged
        found += slow(data.take(spread_rows(len(data), most_judged)) if is_judged else data)
    if audited:
        found = [replace(one, severity="info") if one.kind in _COPIES else one for one in found]
    return worst_first(found)


@one_blas_thread()
def find_target_faults(data: ExaminedData) -> tuple[Finding, ...]:
    """Findings on the target alone, for another one of several."""
    return worst_first(one for check in OF_A_TARGET for one in check(data))


@one_blas_thread()
def find_image_faults(
    raw: RawImages,
    data: ExaminedData,
    effort: Effort = "all",
    groups: ImageGroups | None = None,
    most_judged: int = sys.maxsize,
) -> tuple[Finding, ...]:
    """Findings of images, their files and their labels. `data` comes from `examine_images`,
    `groups` from `groups_of_raw` if already computed. Labels of more images than `most_judged` are
    judged on an even subsample."""
    # Imported here: a table waits for no image.
    from trainwright.data.quality.content.image_quality import blank_images, file_faults
    from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw, near_images
    from trainwright.data.quality.labels.image_labels import image_label_errors

    checks: tuple[Check, ...] = (duplicates.exact_duplicates, duplicates.conflicting_labels)
    of_classes = raw.facts.target.kind == "classes"
    if of_classes:
        checks += (
            label_noise.class_imbalance,
            label_noise.rare_class,
            label_noise.ordered_target,
        )
    of_pixels = blank_images(raw)
    of_labels: list[Finding] = []
    if effort == "all":
        known = groups_of_raw(raw) if groups is None else groups
        of_pixels += near_images(data, known, raw.decoded()[0])
        of_labels = image_label_errors(raw, data, most_judged) if of_classes else []
    of_rows = (one for check in checks for one in check(data))
    return worst_first([*_of_sample(raw, of_pixels), *file_faults(raw), *of_labels, *of_rows])


def _of_sample(raw: RawImages, found: list[Finding]) -> list[Finding]:
    """Pixel findings, with a note where only a sample was decoded."""
    if not raw.is_sample:
        return found
    note = f" (among the {len(raw.decoded()[0]):,} images decoded)"
    return [replace(one, message=one.message + note) for one in found]
