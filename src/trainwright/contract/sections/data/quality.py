"""`data.quality` and `data.audit`: the faults that are looked for in data, and findings that a
person vouches for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import Field

from trainwright.contract.sections.section import Section

FindingKind = Literal[
    "exact_duplicates",
    "near_duplicates",
    "conflicting_labels",
    "missing",
    "missing_not_at_random",
    "constant",
    "identifier",
    "redundant_columns",
    "few_rows",
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
    "corrupt_image",
    "mislabelled_extension",
    "image_size",
    "leak",
    "suspicious_feature",
    "text_overlap",
    "group_overlap",
    "future_rows",
    "train_test_difference",
    "few_test_rows",
    "undecidable",
    "unsplit_trees",
    "packing",
    "cut_answers",
    "padding",
    "too_few_validations",
    "disk",
    "sampled",
]
"""What a finding is about. The guide to data quality says what each means and what can be done."""


Action = Literal["report", "drop", "cap", "impute", "relabel", "fail"]
"""What happens to what was found. `report`: nothing. `drop`: the training rows (of `leak`,
`suspicious_feature` and `identifier` the columns) are excluded. `cap`: numbers beyond the ends are
put at the ends. `impute`: they count as missing. `relabel`: training rows get the likelier class.
`fail`: no training."""

_ROWS: tuple[Action, ...] = ("report", "drop", "fail")
_NUMBERS: tuple[Action, ...] = ("report", "drop", "cap", "impute", "fail")
_COLUMNS: tuple[Action, ...] = ("report", "drop", "fail")
_ONLY: tuple[Action, ...] = ("report", "fail")

POSSIBLE: Mapping[FindingKind, tuple[Action, ...]] = MappingProxyType(
    {
        "exact_duplicates": _ROWS,
        "near_duplicates": _ROWS,
        "conflicting_labels": _ROWS,
        "missing": _ROWS,
        "missing_not_at_random": _ONLY,
        "constant": _ONLY,
        "identifier": _COLUMNS,
        "redundant_columns": _ONLY,
        "few_rows": _ONLY,
        "mixed_units": _ROWS,
        "mixed_formats": _ONLY,
        "variant_spellings": _ROWS,
        "out_of_range": _NUMBERS,
        "unexpected_value": _ROWS,
        "pattern_mismatch": _ROWS,
        "not_unique": _ROWS,
        "forbidden_missing": _ROWS,
        "unlikely_values": ("report", "drop", "impute", "fail"),
        "capped": _ROWS,
        "stuck": _ROWS,
        "time_gaps": _ONLY,
        "outliers": _NUMBERS,
        "skewed": _ONLY,
        "class_imbalance": _ONLY,
        "rare_class": _ONLY,
        "rare_category": _ONLY,
        "ordered_target": _ONLY,
        "label_error": ("report", "drop", "relabel", "fail"),
        "short_text": _ROWS,
        "long_text": _ROWS,
        "repeated_text": _ROWS,
        "markup": _ROWS,
        "line_breaks": _ROWS,
        "mojibake": _ROWS,
        "other_language": _ROWS,
        "leak": _COLUMNS,
        "suspicious_feature": _COLUMNS,
    }
)
"""The actions that a kind of finding of a table can have; kinds that are not here only report."""

BindingFinding = Literal[
    "exact_duplicates",
    "near_duplicates",
    "text_overlap",
    "group_overlap",
    "future_rows",
    "leak",
    "contamination",
]
"""Findings without which the verdict could be another: what they name is tried."""


class Quality(Section):
    """Data quality checks before training, and the action on their findings."""

    look: Literal["all", "quick"] = "all"
    """`quick` leaves out what sorts, searches or fits something: near duplicates, numbers in two
    units, isolated rows, other languages and label errors. Tables only."""

    actions: dict[str, Action] = Field(default_factory=dict)
    """What happens to each kind of finding, for example `{exact_duplicates: drop}`; `report` where
    nothing is said. The guide to data quality lists the kinds and what can be done to each. What is
    fitted (the ends to cap at, the likelier class) is fitted on the training rows alone. Validation
    and test rows are never dropped or relabelled; where `cap` and `impute` change what a model sees
    of a column, they do so for every row, new ones too, and the report says so. Tables only."""

    def asked(self) -> dict[FindingKind, Action]:
        """The actions by kind, in the order of the kinds."""
        return {kind: self.actions[kind] for kind in get_args(FindingKind) if kind in self.actions}


class Accepted(Section):
    """A finding that does not make the verdict invalid, and why."""

    finding: BindingFinding
    """What was found, as the run names it: `group_overlap`, `future_rows`, `exact_duplicates`,
    `near_duplicates`, `leak`, `text_overlap` of a text, or `contamination` of a set of
    questions."""

    columns: tuple[str, ...] = ()
    """The columns that the finding names, or the set of questions; empty where it names rows,
    images or text."""

    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
    """Why the score holds all the same, for example `the same patients are measured again`. It is
    shown wherever the verdict is."""


class Audit(Section):
    """The leakage audit, whose findings are tried by experiment when the model is judged."""

    accept: tuple[Accepted, ...] = ()
    """Findings that may change the decision: each by its name, with a reason. A run with a finding
    that changes the decision and is not listed here is *invalid*."""
