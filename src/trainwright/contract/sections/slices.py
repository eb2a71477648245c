"""`slices`: parts of the evaluation rows that must not be worse than their floor."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.sections.section import Count, Section


class Slice(Section):
    """A part of the evaluation rows: one for each value of `column`, or the rows `where`."""

    column: str = ""
    """Each value of this column is a slice, named `column=value`."""

    where: str = ""
    """The rows for which this SQL condition holds, for example `age >= 65 AND sex = 'Female'`."""

    name: str = ""
    """What a `where` slice is called; the condition itself if empty."""

    metric: str = "auto"
    """What is measured on the slice. `auto`: the contract's metric."""

    floor: Literal["none"] | float = "none"
    """The worst value allowed: the least for metrics to maximise, the largest for errors. `none`:
    the slice is reported and not judged."""

    min_rows: Count = 30
    """Slices with fewer rows are reported and not judged: their floor stays undecided."""
