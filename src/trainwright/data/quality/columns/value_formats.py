"""Inconsistent formats: mixed types, number and date formats, units and spellings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.formatting import many
from trainwright.data.base.categories import count_values
from trainwright.data.base.messages import quoted, some
from trainwright.data.base.parse_cells import (
    FORMS,
    folded,
    may_be_misspelt,
    one_unit,
    parse_moments,
    to_labels,
    to_numbers,
)
from trainwright.data.columns.doubtful_dates import find_dates
from trainwright.data.formats.number_formats import how_written
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding, Severity

_HALF = 0.5
_MOSTLY = 0.9
_MOST_SPELLINGS = 2000
_FIRST = 2000
_SIBLINGS = 3
_FEW_WORDS = 10
_YES, _NO = frozenset({"yes", "y", "true"}), frozenset({"no", "n", "false"})

DECIMAL_COMMA = r"^[+-]?\d+,\d+$|^[+-]?\d{1,3}(\.\d{3})+,\d+$"
THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"
WITH_UNIT = r"^[+-]?\d+(?:[.,]\d+)?\s*(\p{L}{1,5}|[%°€$£¥]\p{L}?)$|^([€$£¥])\s*\d+(?:[.,]\d+)?$"

_QUANTITIES = (
    ("mass", "MG G KG LB LBS OZ T"),
    ("length", "MM CM M KM IN FT YD MI"),
    ("volume", "ML CL DL L GAL"),
    (
        "time",
        "MS SEC MIN MINS HR HRS HOUR HOURS DAY DAYS WEEK WEEKS MONTH MONTHS YR YRS YEARS",
    ),
    ("temperature", "°C °F"),
    ("bytes", "KB MB GB TB"),
    ("share", "%"),
    ("money", "EUR USD GBP JPY CHF CAD AUD CNY INR SEK NOK DKK PLN CZK BRL ₹ ₩ ₽"),
)
QUANTITY_OF = MappingProxyType(
    {unit: quantity for quantity, units in _QUANTITIES for unit in units.split()}
)
"""What a unit measures. Other letters after a number name a class, a place or a rank: 1st, 2B."""


def wrong_type(data: ExaminedData) -> list[Finding]:
    """Non-numeric cells in number and date columns, and numbers stored as text. Informational for a
    column half of numbers and half of words, mostly distinct, such as ticket numbers."""
    return [finding for look in _kept(data) for finding in _wrong_type(data, look)]


def _wrong_type(data: ExaminedData, look: ColumnView) -> Iterator[Finding]:
    present = len(look.cells) - look.cells.null_count()
    if len(look.bad) and look.kind in ("numeric", "datetime"):
        yield _wrong(data, look, look.bad, f"a {look.kind} column holds")
        return
    if look.cells.dtype != pl.String or not present:
        return
    numbers = to_numbers(look.cells)
    if look.kind == "numeric" and _has_types(data):
        rows = look.cells.is_not_null().arg_true().cast(pl.Int64).to_numpy()
        yield _finding(data, look, rows, f"{look.name!r} holds numbers as text, in every row")
    elif look.kind != "numeric" and _HALF * present <= present - len(numbers.bad) < present:
        few = look.cells.gather(numbers.bad).n_unique() <= max(_FEW_WORDS, _HALF * len(numbers.bad))
        what = "most values are numbers, and it holds"
        yield _wrong(data, look, numbers.bad, what, "warning" if few else "info")
    elif look.kind != "numeric":
        yield from _commas(data, look, present)


def _commas(data: ExaminedData, look: ColumnView, present: int) -> Iterator[Finding]:
    for pattern, way, what in (
        (THOUSANDS, "thousands_comma", "thousands commas"),
        (DECIMAL_COMMA, "decimal_comma", "a decimal comma"),
    ):
        comma = look.cells.str.contains(pattern).fill_null(False)
        count = int(comma.sum())
        if count >= _MOSTLY * present:
            rows = comma.arg_true().cast(pl.Int64).to_numpy()
            text = f"{look.name!r} holds numbers with {what}, which are read as words"
            if how_written(look.cells) == "either":
                way = "decimal_comma or thousands_comma, whichever 1,234 is"
            fix = f"data.reading.numbers.{as_key(look.name)}: {way} (of files)"
            yield replace(_finding(data, look, rows, text), fix=fix)
            return


def _wrong(
    data: ExaminedData, look: ColumnView, bad: np.ndarray, what: str, severity: Severity = "warning"
) -> Finding:
    spellings = look.cells.gather(bad).cast(pl.String).unique(maintain_order=True).to_list()
    text = f"{look.name!r}: {what} {quoted(spellings)} in {many(len(bad), 'row')}"
    return _finding(data, look, bad, text, severity)


def _finding(
    data: ExaminedData,
    look: ColumnView,
    rows: np.ndarray,
    message: str,
    severity: Severity = "warning",
) -> Finding:
    return Finding(
        "wrong_type",
        severity,
        message,
        len(rows),
        data.places(rows),
        (look.name,),
        "fix the file, add a spelling to data.missing_values, or set the column's kind",
    )


def mixed_formats(data: ExaminedData) -> list[Finding]:
    """Columns with several number or date formats. The rows are those of the rarer formats."""
    found = []
    for look in _kept(data):
        if look.cells.dtype != pl.String or len(look.cells) == look.cells.null_count():
            continue
        ways = _number_ways(look.cells) or _date_ways(look.cells)
        if len(ways) < 2:
            continue
        common, *rarer = sorted(ways.items(), key=lambda pair: -int(pair[1].sum()))
        others = pl.DataFrame([mask.alias(str(i)) for i, (_, mask) in enumerate(rarer)])
        rows = others.select(pl.any_horizontal(pl.all())).to_series() & ~common[1]
        counts = [f"{name} in {int(mask.sum()):,}" for name, mask in (common, *rarer)]
        found.append(
            Finding(
                "mixed_formats",
                "warning",
                f"{look.name!r} has several formats: {some(counts)} rows",
                int(rows.sum()),
                data.places(rows),
                (look.name,),
                "use one format",
            )
        )
    return found


def odd_flags(data: ExaminedData) -> list[Finding]:
    """0/1 columns next to at least three yes/no columns."""
    two = [look for look in _kept(data) if look.values.drop_nulls().n_unique() == 2]
    words = [look for look in two if look.kind == "categorical" and _says(look, _YES, _NO)]
    numbers = [look for look in two if look.kind == "numeric" and _says(look, {"1"}, {"0"})]
    if len(words) < _SIBLINGS or not numbers or len(numbers) > len(words):
        return []
    names = tuple(look.name for look in numbers if look.name != data.target)
    text = f"{quoted(names)} is 0 and 1 where {quoted((look.name for look in words), 3)} say yes/no"
    return [Finding("mixed_formats", "info", text, len(names), columns=names)] if names else []


def _says(look: ColumnView, yes: Set[str], no: Set[str]) -> bool:
    values = {value.lower() for value in to_labels(look.values.drop_nulls().unique()).to_list()}
    return len(values & yes) == 1 and len(values & no) == 1


def _number_ways(cells: pl.Series) -> dict[str, pl.Series]:
    """Number formats of a column, with the rows of each."""
    present = cells.is_not_null()
    ways = {
        "decimal point": cells.str.contains(r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$"),
        "decimal comma": cells.str.contains(DECIMAL_COMMA),
        "commas of thousands": cells.str.contains(THOUSANDS),
    }
    ways["decimal comma"] &= ~ways["commas of thousands"]
    ways = {name: mask.fill_null(False) for name, mask in ways.items()}
    total = sum(int(mask.sum()) for mask in ways.values())
    if total < _MOSTLY * int(present.sum()) or int(ways["decimal point"].sum()) == total:
        return {}
    return {name: mask for name, mask in ways.items() if mask.any()}


def _date_ways(cells: pl.Series) -> dict[str, pl.Series]:
    """Date formats that jointly parse nearly every value, most common first; none if one suffices
    or the values are not dates."""
    first = cells.drop_nulls().unique(maintain_order=True)
    sample = first.head(_FIRST)
    if not len(sample) or not sample.str.contains(r"\d").all():
        return {}
    shape = sample.str.contains(
        r"^\d{1,4}[-/. ]\p{L}{3}|^\d{1,4}[-/.]\d{1,2}[-/.]\d|^\p{L}{3,9} \d"
    )
    if float(shape.to_numpy().mean()) < _MOSTLY:
        return {}
    counts = count_values(cells.drop_nulls())
    dates = find_dates(cells.name, counts["value"], counts["count"])
    ways: dict[str, pl.Series] = {}
    left = counts["value"]
    for form in dates.form.split(FORMS) if dates else ():
        read = parse_moments(left, form).is_not_null()
        ways[form] = cells.is_in(left.filter(read).implode()).fill_null(False)
        left = left.filter(~read)
    return ways


def units_as_text(data: ExaminedData) -> list[Finding]:
    """Numbers written with a unit, or with several units of one quantity."""
    found = []
    for look in _kept(data):
        if look.cells.dtype != pl.String or look.kind == "numeric":
            continue
        units = look.cells.str.extract_groups(WITH_UNIT)
        unit = units.struct.field("1").fill_null(units.struct.field("2")).alias("unit")
        written, unit = unit, one_unit(unit)
        quantity = unit.replace_strict(QUANTITY_OF, default=None, return_dtype=pl.String)
        common = quantity.drop_nulls().mode().sort().head(1)
        counts = count_values(unit.filter(quantity.is_in(common.implode())))
        present = len(look.cells) - look.cells.null_count()
        least = max(_HALF * present, _MOSTLY * (present - unit.null_count()))
        if not counts.height or int(counts["count"].sum()) < least:
            continue
        if counts.height > 1:
            names = counts["value"].to_list()
            rows = unit.is_in(names[1:]).fill_null(False)
            text = f"{look.name!r} mixes units: {quoted(names)}"
            found.append(
                Finding(
                    "mixed_units", "error", text, int(rows.sum()), data.places(rows), (look.name,),
                    "convert them to one unit",
                )
            )  # fmt: skip
        else:
            here = unit == counts["value"][0]
            rows = here.arg_true().cast(pl.Int64).to_numpy()
            shown = written.filter(here).mode().sort()[0]
            text = f"{look.name!r} holds numbers with the unit {shown!r}"
            found.append(_finding(data, look, rows, text))
    return found


def variant_spellings(data: ExaminedData) -> list[Finding]:
    """Spelling variants of one category: words equal up to case, blanks, hyphens, a final full
    stop, accents or homoglyphs, of three letters or more. The rows are those of the
    rarer spellings. An error in the target, unless only accents differ, which can separate two
    words."""
    found = []
    for look in _kept(data):
        values = look.values
        if look.kind != "categorical" or values.n_unique() > _MOST_SPELLINGS:
            continue
        spellings = count_values(values.drop_nulls())
        words, first = spellings["value"], pl.col("value").first()
        spellings = spellings.with_columns(
            folded(words, "dropped").alias("plain"), folded(words, "kept").alias("accented")
        ).with_columns(
            first.over("plain").alias("first"), first.over("accented").alias("first_accented")
        )
        differs = pl.col("value") != pl.col("first")
        rarer = spellings.filter(differs & may_be_misspelt(pl.col("plain")))
        if not rarer.height:
            continue
        shown = [
            f"{one!r} for {other!r}"
            for one, other in zip(rarer["value"], rarer["first"], strict=True)
        ]
        rows = values.is_in(rarer["value"].implode()).fill_null(False)
        sure = look.name == data.target and (rarer["value"] != rarer["first_accented"]).any()
        found.append(
            Finding(
                "variant_spellings",
                "error" if sure else "warning",
                f"{look.name!r} has one value in several spellings: {some(shown, 3)}",
                int(rows.sum()),
                data.places(rows),
                (look.name,),
                f"data.columns.{as_key(look.name)}.values: {_map(rarer)}",
            )
        )
    return found


def _map(rarer: pl.DataFrame) -> str:
    """The start of the contract's mapping."""
    pairs = zip(rarer["value"], rarer["first"], strict=True)
    return "{" + some([f"{json.dumps(one)}: {json.dumps(other)}" for one, other in pairs], 5) + "}"


def surrounding_spaces(data: ExaminedData) -> list[Finding]:
    """Cells with leading or trailing blanks, or only blanks."""
    around, blank = [], []
    rows = pl.repeat(False, len(data), eager=True)
    for series in data.raw.get_columns():
        if series.dtype != pl.String:
            continue
        stripped = series.str.strip_chars()
        strange = ((series != stripped) & (stripped != "")).fill_null(False)
        empty = ((series != "") & (stripped == "")).fill_null(False)
        if strange.any():
            around.append(series.name)
            rows |= strange
        if empty.any():
            blank.append((series.name, data.places(empty)))
    found = []
    if around:
        every = data.places(rows)
        text = f"cells of {quoted(around)} have leading or trailing blanks, which are stripped"
        found.append(Finding("surrounding_spaces", "info", text, len(every), every, tuple(around)))
    for name, places in blank:
        cells = many(len(places), "cell")
        text = f"{name!r} has {cells} of only blanks, read as missing"
        found.append(Finding("surrounding_spaces", "info", text, len(places), places, (name,)))
    return found


def _kept(data: ExaminedData) -> list[ColumnView]:
    return [look for look in data.looks if look.name not in data.left_out]


def _has_types(data: ExaminedData) -> bool:
    """Is the file typed? In text files every column is text."""
    return any(dtype != pl.String for dtype in data.raw.dtypes)
