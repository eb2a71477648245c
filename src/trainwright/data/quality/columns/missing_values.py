"""Missing values, placeholders for them, and whether they are missing at random."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import quoted
from trainwright.data.quality.columns.outliers import ends_within_gaps
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding, Severity

_MANY = 0.5
_RARELY_BY_CHANCE = 0.001
_FEWEST = 10
_DIFFERENCE = 0.02
_CLASSES = 100


def missing(data: ExaminedData) -> list[Finding]:
    """Columns with missing values, by descending share."""
    found = []
    for look in data.looks:
        count = look.cells.null_count()
        if not count or look.name in data.left_out:
            continue
        share = count / len(data)
        is_target = look.name == data.target
        found.append(
            Finding(
                "missing",
                "error" if is_target else "warning" if share > _MANY else "info",
                f"{look.name!r} is missing in {count:,} of {len(data):,} rows ({share:.1%})",
                count,
                data.places(look.cells.is_null()),
                (look.name,),
                "data.missing_target: drop excludes these rows"
                if is_target
                else "data.features.impute imputes numbers; missing words become a category of "
                "their own; data.quality.actions: {missing: drop} excludes training rows",
            )
        )
    return sorted(found, key=lambda finding: -finding.count)


def missing_words(data: ExaminedData) -> list[Finding]:
    """Words such as None read as missing in a categorical column, where they may be a category."""
    words = {
        look.name: count_values(data.raw[look.name].filter(look.cells.is_null()).drop_nulls())
        for look in data.looks
        if data.raw[look.name].dtype == pl.String and look.name not in data.left_out
    }
    usual = {
        word
        for look in data.looks
        if look.kind in ("numeric", "datetime") and look.name in words
        for word in words[look.name]["value"].to_list()
    }
    return [
        finding
        for look in data.looks
        if look.kind not in ("numeric", "datetime", "empty") and look.name in words
        for finding in _words_of(data, look, words[look.name], usual)
    ]


def _words_of(
    data: ExaminedData, look: ColumnView, words: pl.DataFrame, usual: set[str]
) -> Iterator[Finding]:
    for word, count in words.iter_rows():
        if not re.search(r"[^\W\d_]", word) or word in usual:
            continue
        yield Finding(
            "missing",
            "warning",
            f"{look.name!r} is {word.strip()!r} in {many(count, 'row')}, read as missing: it may "
            "be a category of its own",
            count,
            data.places((data.raw[look.name] == word).fill_null(False)),
            (look.name,),
            "remove the word from data.missing_values if it is a category",
        )


def missing_not_at_random(data: ExaminedData) -> list[Finding]:
    """Columns whose missingness depends on the target.

    For classes a chi-squared test of missingness by class, for numbers Welch's test of the target
    with and without a value; both at 0.001 over the number of columns (Bonferroni), with a
    difference of at least 2 points (or a tenth of the target's standard deviation).
    """
    looks = [
        look for look in data.features if _FEWEST <= look.cells.null_count() <= len(data) - _FEWEST
    ]
    if not looks or data.task == "none":
        return []
    limit = _RARELY_BY_CHANCE / len(looks)
    if data.task == "classes":
        said = partial(_by_class, *_coded(data.labels))
    else:
        said = partial(_by_number, data.answers)
    texts = [(look, said(look.cells.is_null().to_numpy(), limit)) for look in looks]
    return [_not_at_random(data, look, text) for look, text in texts if text]


def _not_at_random(data: ExaminedData, look: ColumnView, text: str) -> Finding:
    return Finding(
        "missing_not_at_random",
        "warning",
        f"{look.name!r} is not missing at random: {text}",
        look.cells.null_count(),
        data.places(look.cells.is_null()),
        (look.name,),
        "find out why: a value recorded only once the target is known leaks it",
    )


def _coded(labels: pl.Series) -> tuple[list[str], Integers]:
    """Class names, and class codes [N] from 1 on, 0 for a missing label."""
    codes = labels.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    return labels.drop_nulls().unique().sort().to_list(), codes


def _by_class(names: list[str], codes: Integers, absent: np.ndarray, limit: float) -> str:
    from scipy.special import chdtrc

    if not 2 <= len(names) <= _CLASSES:
        return ""
    sizes = np.bincount(codes, minlength=len(names) + 1)[1:].astype(np.float64)
    gone = np.bincount(codes[absent], minlength=len(names) + 1)[1:].astype(np.float64)
    rates = gone / np.maximum(sizes, 1)
    overall = gone.sum() / sizes.sum()
    if not 0 < overall < 1:
        return ""
    statistic = float((sizes * (rates - overall) ** 2).sum() / (overall * (1 - overall)))
    big = sizes >= _FEWEST
    if not big.any() or float(chdtrc(len(names) - 1, statistic)) > limit:
        return ""
    low, high = (int(np.flatnonzero(big)[pick(rates[big])]) for pick in (np.argmin, np.argmax))
    if rates[high] - rates[low] < _DIFFERENCE:
        return ""
    return f"{rates[high]:.1%} in class {names[high]!r}, {rates[low]:.1%} in class {names[low]!r}"


def _by_number(target: Floats, absent: np.ndarray, limit: float) -> str:
    from scipy.special import erfc

    with_value, without = target[~absent], target[absent]
    with_value, without = (v[np.isfinite(v)] for v in (with_value, without))
    if min(len(with_value), len(without)) < _FEWEST:
        return ""
    spread = float(np.nanstd(target)) or 1.0
    difference = float(without.mean() - with_value.mean())
    error = np.sqrt(with_value.var() / len(with_value) + without.var() / len(without))
    z = abs(difference) / max(float(error), 1e-300)
    if float(erfc(z / np.sqrt(2))) > limit or abs(difference) < spread / 10:
        return ""
    return (
        f"the target is {without.mean():.4g} on average where it is missing and "
        f"{with_value.mean():.4g} elsewhere"
    )


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

_FEWEST_PLACEHOLDERS = 20
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
    if len(others) < _FEWEST_PLACEHOLDERS:
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
