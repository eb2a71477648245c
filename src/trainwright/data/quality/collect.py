"""Every check of the data, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from trainwright.contract.data import Column
from trainwright.data.images import RawImages
from trainwright.data.quality import classes, duplicates, forms, order, ranges, spread, texts
from trainwright.data.quality import missing as absence
from trainwright.data.quality.examined import Examined
from trainwright.data.quality.finding import Finding, worst_first
from trainwright.data.quality.label_errors import label_errors
from trainwright.data.quality.leaks import leaks
from trainwright.data.quality.near import near_duplicates
from trainwright.data.quality.pictures import blank_images, examine_images
from trainwright.data.quality.units import mixed_units
from trainwright.data.quality.whole_columns import (
    constant,
    identifier,
    rare_category,
    redundant_columns,
)

Check = Callable[[Examined], list[Finding]]
Effort = Literal["all", "quick"]

QUICK: tuple[Check, ...] = (
    leaks,
    duplicates.exact_duplicates,
    duplicates.conflicting_labels,
    absence.missing,
    absence.missing_not_at_random,
    constant,
    identifier,
    redundant_columns,
    rare_category,
    forms.wrong_type,
    forms.mixed_formats,
    forms.odd_flags,
    forms.units_as_text,
    forms.variant_spellings,
    forms.surrounding_spaces,
    ranges.unlikely_values,
    ranges.capped,
    order.stuck,
    order.time_gaps,
    spread.outliers,
    spread.skewed,
    classes.class_imbalance,
    classes.rare_class,
    classes.ordered_target,
    texts.short_text,
    texts.long_text,
    texts.repeated_text,
    texts.markup,
    texts.line_breaks,
    texts.mojibake,
)
"""Checks that cost about as much as reading the data."""

SLOW: tuple[tuple[str, Check], ...] = (
    ("near duplicates", near_duplicates),
    ("numbers in two units", mixed_units),
    ("rows unlike all others", spread.strange_rows),
    ("other languages", texts.other_language),
    ("label errors", label_errors),
)
"""Checks that sort, search or fit something, each with what it looks for."""


def find_faults(
    data: Examined,
    columns: Mapping[str, Column],
    effort: Effort = "all",
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Finding, ...]:
    """All findings, the worst first. `tell` hears what is looked for while it takes long."""
    if not len(data):
        return ()
    found = ranges.against_schema(data, columns)
    for check in QUICK:
        found += check(data)
    for what, slow in SLOW if effort == "all" else ():
        tell(what)
        found += slow(data)
    return worst_first(found)


def find_image_faults(raw: RawImages) -> tuple[Finding, ...]:
    """Findings of images and their labels."""
    data = examine_images(raw)
    checks: tuple[Check, ...] = (
        duplicates.exact_duplicates,
        duplicates.conflicting_labels,
        classes.class_imbalance,
        classes.rare_class,
        classes.ordered_target,
    )
    return worst_first([*blank_images(raw), *(one for check in checks for one in check(data))])
