"""The century of two-digit years."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.parse_cells import FORMS, UNTIL, parse_moments
from trainwright.data.columns.column_kinds import names_birth
from trainwright.data.columns.doubts import Doubt

_FAR_AHEAD = 10


def settle_century(cells: Cells, doubt: Doubt) -> Doubt:
    """The doubt, with the last year that its two-digit years mean. A birth is not in the future,
    nor are most dates of a column, nor do its dates pause for many years from today on or end a
    century after their beginning."""
    forms = doubt.settings.format.split(FORMS)
    short = [form for form in forms if "%y" in form and UNTIL not in form]
    if not short or cells.dtype != pl.String:
        return doubt
    this_year = datetime.now(UTC).year
    moments = (parse_moments(one.drop_nulls(), FORMS.join(short)) for one in cells.slices())
    years = pl.concat([one.dt.year().drop_nulls() for one in moments])
    years = years.sort()
    ahead = years.filter(years > this_year)
    if not len(ahead):
        return doubt
    is_past = (
        names_birth(cells.name)
        or 2 * len(ahead) > len(years)
        or int(ahead[0]) > this_year + _FAR_AHEAD
        or int(ahead[-1]) > int(years[0]) + 100 - _FAR_AHEAD
    )
    if not is_past:
        return doubt
    forms = [f"{form}{UNTIL}{this_year}" if form in short else form for form in forms]
    settings = doubt.settings.model_copy(update={"format": FORMS.join(forms)})
    reason = (
        f"two-digit years would put {many(len(ahead), 'date')} after {this_year}, up to "
        f"{ahead[-1]}, and are read as years until {this_year}"
    )
    reason = "; ".join(filter(None, (doubt.reason, reason)))
    return replace(doubt, settings=settings, reason=reason)
