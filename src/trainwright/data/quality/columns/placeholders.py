"""Placeholders for missing values: words and sentinel dates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.messages import quoted
from trainwright.data.quality.columns.outliers import ends_within_gaps
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding, Severity

_SURE = frozenset(
    {"n/a", "#n/a", "n.a.", "n.a", "nan", "null", "nil", "none given", "missing", "undefined", "-"}
    | {"--", "---", "..", "...", "??", "???", "#value!", "#ref!", "#div/0!", "not available", "tbd"}
    | {"no data", "not recorded", "<na>", "<null>"}
)
"""Words that are never a value."""

_SIGNS = frozenset({"-", "--", "---", "..", "..."})
"""Of these, values in the right context: minus next to plus, one dash and two."""

_PERHAPS = frozenset({"unknown", "none", "unspecified", "not specified", "other/unknown", "blank"})
"""Words that may be a category of their own."""

_NONE = np.array(
    [
        *("0001-01-01", "1601-01-01", "1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01"),
        *("1970-01-01", "2099-12-31", "2999-12-31", "9999-12-31"),
    ],
    dtype="datetime64[us]",
).astype(np.int64)
"""Sentinel dates, in microseconds."""

_FEWEST = 20
_FEW = 0.01
_NEAR_NONE = 0.25
_MICROSECONDS_PER_DAY = 24 * 3600 * 1_000_000


def placeholders(data: ExaminedData) -> list[Finding]:
    """Categories and remote dates that are placeholders for missing values."""
    looks = [look for look in data.looks if look.name not in data.left_out]
    found = [
        finding
        for look in looks
        if look.kind in ("categorical", "text") and look.values.dtype == pl.String
        for finding in _words(data, look)
    ]
    return found + [one for look in looks if look.kind == "datetime" for one in _dates(data, look)]


def _words(data: ExaminedData, look: ColumnView) -> Iterator[Finding]:
    plain = look.values.str.to_lowercase().str.strip_chars("()[]<> ")
    whole = look.values.str.to_lowercase().str.strip_chars()
    signs = _of_signs(look.values)
    ways: tuple[tuple[frozenset[str], Severity], ...] = ((_SURE, "warning"), (_PERHAPS, "info"))
    for words, severity in ways:
        known = pl.Series(sorted(words - _SIGNS if signs else words)).implode()
        rows = (plain.is_in(known) | whole.is_in(known)).fill_null(False)
        # A column with few other values means them.
        if not rows.any() or int(rows.sum()) > len(data) / 2:
            continue
        spellings = look.values.filter(rows).unique(maintain_order=True).to_list()
        text = f"{look.name!r} is {quoted(spellings)} in {many(int(rows.sum()), 'row')}"
        yield _finding(data, look, rows, f"{text}: possibly a placeholder for missing", severity)


def _of_signs(values: pl.Series) -> bool:
    """Does a column contain a plus sign, or no letters and digits at all?"""
    different = values.drop_nulls().unique()
    pluses = different.str.contains(r"^\s*\++\s*$")
    return bool(pluses.any()) or not different.str.contains(r"[\p{L}\p{N}]").any()


def _dates(data: ExaminedData, look: ColumnView) -> Iterator[Finding]:
    """Dates at either end, separated by a gap: a sentinel date in any number of rows, if the gap is
    a quarter of the range of the others; any other date in at most 1 % of the rows, if it is the
    whole range."""
    moments = np.sort(look.values.drop_nulls().cast(pl.Int64).to_numpy())
    others = moments[~np.isin(moments, _NONE)]
    if len(others) < _FEWEST:
        return
    few = int(_FEW * len(others))
    span = max(int(others[-1 - few] - others[few]), _MICROSECONDS_PER_DAY)
    low, high = map(int, ends_within_gaps(others, few, span))
    values = look.values.cast(pl.Int64)
    apart = int(_NEAR_NONE * span)
    none = values.is_in(pl.Series(_NONE).implode())
    rows = (values < low) | (values > high)
    rows &= ~none | (values < low - apart) | (values > high + apart)
    rows = rows.fill_null(False)
    if not rows.any():
        return
    odd = look.values.filter(rows).unique().sort()
    shown = quoted(str(moment)[:10] for moment in odd.to_list())
    ends = [str(end)[:10] for end in look.values.filter(~rows).drop_nulls().sort()[[0, -1]]]
    text = f"{look.name!r} is {shown} in {many(int(rows.sum()), 'row')}, far from the others "
    yield _finding(data, look, rows, f"{text}({ends[0]} to {ends[1]})", "warning")


def _finding(
    data: ExaminedData, look: ColumnView, rows: pl.Series, message: str, severity: Severity
) -> Finding:
    return Finding(
        "unlikely_values",
        severity,
        message,
        int(rows.sum()),
        data.places(rows),
        (look.name,),
        "if it means missing, add the spelling to data.missing_values; otherwise fix the rows",
    )
