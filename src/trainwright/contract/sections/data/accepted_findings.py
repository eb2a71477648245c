"""`data.audit`: findings of the leakage audit that a person vouches for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Section

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
