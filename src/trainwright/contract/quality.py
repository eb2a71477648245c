"""`data.quality`: the faults that are looked for in data."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.section import Section

FindingKind = Literal[
    "exact_duplicates",
    "near_duplicates",
    "conflicting_labels",
    "missing",
    "missing_not_at_random",
    "constant",
    "identifier",
    "redundant_columns",
    "wrong_type",
    "mixed_units",
    "mixed_formats",
    "variant_spellings",
    "surrounding_spaces",
    "out_of_range",
    "unexpected_value",
    "pattern_mismatch",
    "not_unique",
    "forbidden_missing",
    "unlikely_values",
    "capped",
    "stuck",
    "time_gaps",
    "outliers",
    "skewed",
    "class_imbalance",
    "rare_class",
    "rare_category",
    "ordered_target",
    "label_error",
    "short_text",
    "long_text",
    "repeated_text",
    "markup",
    "line_breaks",
    "mojibake",
    "other_language",
    "blank_image",
    "leak",
    "suspicious_feature",
    "group_overlap",
    "future_rows",
    "train_test_difference",
    "few_test_rows",
    "disk",
]
"""What a finding is about. The guide to data quality says what each means and what can be done."""


class Quality(Section):
    """Which faults are looked for in the data before a training, and what happens to them."""

    look: Literal["all", "quick"] = "all"
    """`quick` leaves out what sorts, searches or fits something: near duplicates, numbers in two
    units, isolated rows, other languages and label errors. Tables only."""
