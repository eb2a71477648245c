"""Run the data quality checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from trainwright.contract.sections.data.column import Column
from trainwright.contract.sections.data.quality import FindingKind
from trainwright.contract.sections.data.split import Split
from trainwright.core.blas import one_blas_thread
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.quality.columns import (
    implausible_values,
    outliers,
    time_series,
    value_formats,
)
from trainwright.data.quality.columns import missing_values as absence
from trainwright.data.quality.columns.leak_findings import leaks
from trainwright.data.quality.columns.mixed_units import mixed_units
from trainwright.data.quality.columns.placeholders import placeholders
from trainwright.data.quality.columns.totals import totals_row
from trainwright.data.quality.columns.useless_columns import (
    constant_columns,
    few_rows,
    identifier,
    rare_category,
    redundant_columns,
)
from trainwright.data.quality.content import text_quality
from trainwright.data.quality.copies import duplicates
from trainwright.data.quality.copies.near_duplicates import near_duplicates
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding, Subset, worst_first
from trainwright.data.quality.labels import class_balance
from trainwright.data.quality.labels.label_errors import label_errors

if TYPE_CHECKING:
    from trainwright.data.images.raw_images import RawImages
    from trainwright.data.quality.copies.near_duplicate_images import ImageGroups

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
    few_rows,
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
    class_balance.class_imbalance,
    class_balance.rare_class,
    class_balance.ordered_target,
    text_quality.short_text,
    text_quality.long_text,
    text_quality.repeated_text,
    text_quality.markup,
    text_quality.line_breaks,
    text_quality.mojibake,
)
"""Checks about as cheap as reading the data. Leaks are separate: the audit of a split checks for
them too."""

OF_A_TARGET: tuple[Check, ...] = (
    class_balance.class_imbalance,
    class_balance.rare_class,
    class_balance.ordered_target,
)
"""Checks of the target by itself, made of each of several."""

SLOW: tuple[tuple[str, Check], ...] = (
    ("near duplicates", near_duplicates),
    ("numbers in two units", mixed_units),
    ("rows unlike all others", outliers.strange_rows),
    ("other languages", text_quality.other_language),
    ("label errors", label_errors),
)
"""Expensive checks (sorting, searching, fitting), each with its progress label."""

BY_MODELS = ("rows unlike all others", "label errors")
"""Those that fit models on the rows."""


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
        "class_imbalance": (class_balance.class_imbalance,),
        "rare_class": (class_balance.rare_class,),
        "rare_category": (rare_category,),
        "ordered_target": (class_balance.ordered_target,),
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
"""Checks by finding kind, without column constraints and multivariate outliers."""


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
    `audited`: the leakage audit also runs on these rows and finds leaks itself. Labels of more rows
    than `most_judged` are judged on an even subsample."""
    if not len(data):
        return ()
    found: list[Finding] = []
    if subset != "by_models":
        found += implausible_values.against_schema(data, columns)
        found += [] if audited else leaks(data)
        for check in QUICK:
            found += check(data)
    for what, slow in SLOW if effort == "all" else ():
        if subset != "all" and (what in BY_MODELS) != (subset == "by_models"):
            continue
        tell(what)
        is_judged = slow is label_errors and len(data) > most_judged
        found += slow(data.take(spread_rows(len(data), most_judged)) if is_judged else data)
    return worst_first(found)


@one_blas_thread()
def find_target_faults(data: ExaminedData) -> tuple[Finding, ...]:
    """Findings on the target alone, for another one of several."""
    return worst_first(one for check in OF_A_TARGET for one in check(data))


def unanswered(found: Sequence[Finding], split: Split) -> tuple[Finding, ...]:
    """Findings without those that the split already fixes."""
    if split.kind not in ("time", "group", "stratified_group"):
        return tuple(found)
    return tuple(one for one in found if one.kind != "ordered_target")


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
            class_balance.class_imbalance,
            class_balance.rare_class,
            class_balance.ordered_target,
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
