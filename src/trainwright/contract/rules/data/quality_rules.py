"""Rules on what columns may hold and what happens to what is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import get_args

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.quality import POSSIBLE, FindingKind
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Problem


def check_actions(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Every action can be done to what is found."""
    for name in data.quality.actions:
        if name not in get_args(FindingKind):
            close = get_close_matches(name, get_args(FindingKind), n=1, cutoff=0.5)
            yield Problem(
                "there is no such kind of finding",
                path=f"data.quality.actions.{name}",
                found=name,
                expected=f"one of: {', '.join(POSSIBLE)}",
                fix=f"did you mean {close[0]}?" if close else "choose one of them",
            )
    asked = data.quality.asked()
    for kind, action in asked.items():
        possible = POSSIBLE.get(kind, ("report",))
        if action not in possible:
            yield Problem(
                f"nothing can be done so to {kind}",
                path=f"data.quality.actions.{kind}",
                found=action,
                expected=", ".join(possible),
                fix="choose one of these, or remove the line",
            )
    slow: set[FindingKind] = {"near_duplicates", "mixed_units", "other_language", "label_error"}
    searched = [kind for kind, action in asked.items() if kind in slow and action != "report"]
    if searched and data.quality.look == "quick":
        yield Problem(
            "an action needs what a quick look leaves out",
            path="data.quality.look",
            found=f"quick, with an action for {', '.join(searched)}",
            expected="all",
            fix="remove data.quality.look, or these actions",
        )


def check_column_rules(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A range has its least number first, and a pattern is a regular expression."""
    for name, column in data.columns.items():
        if column.range != "any" and column.range[0] > column.range[1]:
            yield Problem(
                "no number is in this range",
                path=f"data.columns.{as_key(name)}.range",
                found=f"{column.range[0]:g} to {column.range[1]:g}",
                expected="the least number, then the largest",
                fix=f"write range: [{column.range[1]:.15g}, {column.range[0]:.15g}]",
            )
        try:
            re.compile(column.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            yield Problem(
                "the pattern is not a regular expression",
                path=f"data.columns.{as_key(name)}.pattern",
                found=f"{column.pattern!r}: {error}",
                expected="a regular expression such as [A-Z]{2}[0-9]+",
                fix="correct it, or remove the line",
            )


QUALITY_RULES = (check_actions, check_column_rules)
