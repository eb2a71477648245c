"""Ambiguous columns, with a proposed interpretation for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final

import polars as pl

from trainwright.contract.sections.data.table_data import Column
from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.messages import quoted
from trainwright.data.base.parse_cells import (
    Unit,
    one_unit,
    spellings,
    to_labels,
    to_numbers,
    with_minus,
)
from trainwright.data.columns.doubtful_dates import find_dates
from trainwright.data.formats.number_formats import Commas, how_written

MISSING_WORDS = frozenset(
    {"-", "--", "---", "?", "??", "???", ".", "..", "...", "*", "n.a.", "n.a", "n/a", "na", "nan"}
    | {"none", "null", "nil", "unknown", "missing", "not available", "not known", "tbd", "tba"}
    | {"not applicable", "no data", "undefined", "unspecified", "(blank)", "(null)", "<null>"}
    | {"<na>", "#n/a", "#na", "#ref!", "#div/0!", "#value!", "#name?", "#num!", "#null!"}
)
"""Spellings of a missing value, in lower case."""

NUMBER_WORDS: Mapping[str, str] = MappingProxyType(
    {
        word: str(number)
        for number, word in enumerate(
            (
                *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
                *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
                *("seventeen", "eighteen", "nineteen", "twenty"),
            )
        )
    }
)

_CURRENCIES = (
    r"[$€£¥₹₽₩₺₪฿]|(?:US|C|A|R|HK)\$|USD|EUR|GBP|JPY|CHF|CAD|AUD|CNY|INR|SEK|NOK|DKK|PLN|CZK|BRL"
    r"|Rs\.?"
)
_BEFORE = rf"(?i:{_CURRENCIES})"
_BEHIND = rf"(?:{_BEFORE}|%|°[CFcf]?|[A-Za-zµμ]{{1,10}}(?:[23²³]|/[A-Za-z]{{1,6}}|\.)?)"
_DIGITS = r"(?:[0-9][0-9.,' \u00a0\u202f]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?"
_WITH_UNIT = rf"^[+-]?\s*(?P<before>{_BEFORE})?\s*[+-]?{_DIGITS}\s*(?P<behind>{_BEHIND})?$"
_DIGITS_ONLY = r"^[0-9]+(?:\.[0-9]+)?$"
_CODE = r"^[A-Za-z]{1,3}[-. ]?[0-9]"
_SHOWN: Mapping[Commas, str] = MappingProxyType(
    {
        "decimal_comma": "1,5 is 1.5",
        "thousands_comma": "1,234 is 1234",
        "accounting": "(1,234) is -1234",
    }
)
_MOSTLY = 0.9
_LOOKED_AT = 300
_FEWEST_LOOKS = 0.3
_MOST_SPELLINGS = 20
_REPEATS = 0.5
_OFTEN, _MOST_RELEASES = 0.05, 100
"""Share of the rows with a second spelling of a number from which it is no slip, and the most
releases such as `1.10`; more fractions are measurements."""


@final
@dataclass(frozen=True, slots=True)
class Doubt:
    """An ambiguity of a column: the proposed `settings`, the proposed entry `numbers` of
    `data.reading.numbers`, the `reason`, and what to `write` where the data has no settings of
    columns."""

    column: str
    settings: Column
    reason: str
    numbers: Literal[""] | Commas = ""
    write: str = ""


@final
@dataclass(frozen=True, slots=True)
class _Spelled:
    """Distinct values of a column with their row counts, without missing-value spellings; and the
    count and spellings of those."""

    name: str
    values: pl.Series
    counts: pl.Series
    missing: pl.DataFrame

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def share(self, mask: pl.Series) -> float:
        """Share of the rows with a chosen value."""
        return int(self.counts.filter(mask).sum()) / max(1, self.rows)

    def blanks(self) -> dict[str, str]:
        """Replacements of missing-value spellings by the empty string."""
        return dict.fromkeys(self.missing["value"].to_list(), "")

    def told(self, mask: pl.Series, most: int = 3) -> str:
        """Message: the number of chosen values, with examples."""
        values = self.values.filter(mask)
        rows = many(int(self.counts.filter(mask).sum()), "value")
        return f"{rows}, such as {quoted([one[:40] for one in values.head(most)], most)},"


def find_doubt(cells: Cells) -> Doubt | None:
    """Ambiguity of a text column; None if its values are unambiguous or words."""
    if cells.dtype != pl.String or not cells.present:
        return None
    if not cells.not_numbers:
        may_be_codes = cells.first(_LOOKED_AT).str.contains(_DIGITS_ONLY).all()
        return find_codes(cells) if may_be_codes and cells.may_repeat_numbers else None
    if not _may_be_more_than_words(cells.first(_LOOKED_AT)):
        return None
    spelled = _spelled(cells)
    if not spelled.rows:
        return None
    for look in (_numbers, _units, _currencies, _commas, _words, _dates):
        if (found := look(spelled)) is not None:
            return found
    return None


def find_codes(cells: Cells) -> Doubt | None:
    """Codes whose zeros count: `038` and `38`, or `1.1` and `1.10`, which are one number."""
    if cells.distinct > _REPEATS * cells.present:
        return None
    spelled = _spelled(cells)
    labels = pl.DataFrame({"label": to_labels(spelled.values), "rows": spelled.counts})
    digits = pl.col("label").str.strip_chars_start("0")
    fraction = digits.str.strip_chars_end("0").str.strip_chars_end(".")
    number = pl.when(digits.str.contains(".", literal=True)).then(fraction).otherwise(digits)
    labels = labels.group_by(number.alias("number"), "label").agg(pl.col("rows").sum())
    labels = labels.sort("number", "rows", "label", descending=[False, True, False])
    again = labels.filter(~pl.col("number").is_first_distinct())
    same = labels.filter(pl.col("number").is_in(again["number"].implode()))["label"]
    fractions = same.str.contains(".", literal=True).all()
    if (
        int(again["rows"].sum()) < _OFTEN * spelled.rows
        or (fractions and len(labels) > _MOST_RELEASES)
        or not labels["label"].str.contains(_DIGITS_ONLY).all()
    ):
        return None
    shown = quoted(same.head(2).to_list())
    reason = f"{shown} are one number, so they are read as codes; for numbers, write kind: numeric"
    return Doubt(cells.name, Column(kind="categorical"), reason)


def _may_be_more_than_words(first: pl.Series) -> bool:
    lower = first.str.to_lowercase()
    known = lower.is_in([*MISSING_WORDS, *NUMBER_WORDS])
    return float((first.str.contains(r"[0-9]") | known).to_numpy().mean()) >= _FEWEST_LOOKS


def _spelled(cells: Cells) -> _Spelled:
    counted = (
        pl.concat([one.drop_nulls().value_counts(name="rows") for one in cells.slices()])
        .rename({cells.name: "value"})
        .group_by("value", maintain_order=True)
        .agg(pl.col("rows").sum())
        .sort("rows", "value", descending=[True, False])
    )
    missing = counted["value"].str.to_lowercase().is_in(list(MISSING_WORDS))
    rest = counted.filter(~missing)
    return _Spelled(cells.name, rest["value"], rest["rows"], counted.filter(missing))


def _numbers(spelled: _Spelled) -> Doubt | None:
    """Numbers with a few non-numeric values."""
    bad = _no_number(spelled.values)
    if spelled.share(~bad) < _MOSTLY:
        return None
    blanks, missing = spelled.blanks(), _missing(spelled)
    if not bad.any():
        settings = Column(kind="numeric", values=blanks)
        return Doubt(spelled.name, settings, f"numbers; {missing}") if blanks else None
    words = spelled.values.filter(bad)
    if words.str.to_lowercase().is_in(list(NUMBER_WORDS)).all():
        settings = Column(kind="numeric", values={**_in_digits(words), **blanks})
        return Doubt(spelled.name, settings, _and("some numbers are written as words", missing))
    if _has_units(spelled, bad) or _has_commas(spelled.values):
        return None
    codes = float(words.str.contains(_CODE).to_numpy().mean()) > _REPEATS
    if codes and len(spelled.values) <= _REPEATS * spelled.rows:
        reason = f"{spelled.told(bad)} are codes, so the numbers are read as codes too"
        return Doubt(spelled.name, Column(kind="categorical"), reason)
    settings = Column(kind="numeric", values=blanks, unreadable="missing")
    reason = f"{spelled.told(bad)} are no numbers and become missing"
    return Doubt(spelled.name, settings, _and(reason, missing))


def _units(spelled: _Spelled) -> Doubt | None:
    """Numbers with one unit."""
    found = _unit_of(spelled)
    if found is None:
        return None
    text, alone = found
    ways: tuple[Literal[""] | Commas, ...] = (
        *("", "thousands_comma", "decimal_comma"),
        "accounting",
    )
    unread = {way: _no_number(Unit(text, way).without(spelled.values)) for way in ways}
    commas = max(ways, key=lambda way: spelled.share(~unread[way]))
    bad = unread[commas]
    if spelled.share(~bad) < _MOSTLY:
        return None
    settings = Column(
        kind="numeric",
        unit=text,
        values=spelled.blanks(),
        unreadable="missing" if bad.any() else "refuse",
    )
    same = " or ".join([text, *(one for one in spellings(text) if one != text)])
    reason = f"numbers in {same}"
    if alone:
        reason += f"; {many(alone, 'number')} without it, assumed to be in it too"
    if bad.any():
        reason += f"; {spelled.told(bad)} are not and become missing"
    if commas:
        reason += f"; {_SHOWN[commas]}"
    return Doubt(spelled.name, settings, _and(reason, _missing(spelled)), commas)


def _currencies(spelled: _Spelled) -> Doubt | None:
    """Amounts in several currencies, which are not comparable."""
    parts = spelled.values.str.extract_groups(_WITH_UNIT).struct.unnest()
    units = parts["before"].zip_with(parts["before"].is_not_null(), parts["behind"])
    amounts = units.str.contains(rf"^{_BEFORE}$").fill_null(value=False)
    counted = (
        pl.DataFrame({"same": one_unit(units), "unit": units, "rows": spelled.counts})
        .filter(amounts)
        .group_by("same")
        .agg(pl.col("unit").sort_by("rows").last(), pl.col("rows").sum())
        .sort("rows", "same", descending=[True, False])
    )
    if spelled.share(amounts) < _MOSTLY or counted.height < 2:
        return None
    reason = (
        f"amounts in {counted.height} currencies, {quoted(counted['unit'].to_list(), 4)}: their "
        "numbers cannot be compared; write them in one currency to use them"
    )
    return Doubt(spelled.name, Column(kind="ignored"), reason)


def _unit_of(spelled: _Spelled) -> tuple[str, int] | None:
    """The unit of nearly all values, and the row count of numbers without one."""
    values = with_minus(spelled.values)
    parts = values.str.extract_groups(_WITH_UNIT).struct.unnest()
    before, behind = parts["before"], parts["behind"]
    like = values.str.contains(_WITH_UNIT)
    both = before.is_not_null() & behind.is_not_null()
    units = before.zip_with(before.is_not_null(), behind).fill_null("")
    same = one_unit(units)
    counted = (
        pl.DataFrame({"unit": same, "rows": spelled.counts})
        .filter(like & ~both & (units != ""))
        .group_by("unit")
        .agg(pl.col("rows").sum())
        .sort("rows", descending=True)
    )
    if spelled.share(like & ~both) < _MOSTLY or not counted.height:
        return None
    if int(counted["rows"][0]) < _MOSTLY * int(counted["rows"].sum()):
        return None
    chosen = same == counted["unit"][0]
    alone = int(spelled.counts.filter(like & (units == "")).sum())
    # A single number with one word is a name (`Level 3`), and so are a few among many bare numbers.
    if spelled.values.filter(chosen).n_unique() < 3 or alone > int(counted["rows"][0]):
        return None
    return str(units.filter(chosen)[0]), alone


def _has_units(spelled: _Spelled, bad: pl.Series) -> bool:
    """Are the non-numeric values numbers with a unit?"""
    like = with_minus(spelled.values).str.contains(_WITH_UNIT)
    return bool(like.filter(bad).all()) and _unit_of(spelled) is not None


def _commas(spelled: _Spelled) -> Doubt | None:
    """Numbers written with commas, or negative ones in parentheses."""
    commas = _commas_of(spelled.values)
    if not commas:
        return None
    shown = _SHOWN[commas]
    if how_written(spelled.values) == "either":
        shown += ", though 1.234 as a decimal_comma"
    settings = Column(kind="numeric", values=spelled.blanks())
    bad = ~spelled.values.str.contains(r"^\(?[+-]?[0-9.,' \u00a0\u202f]+\)?$")
    if bad.any():
        settings = settings.model_copy(update={"unreadable": "missing"})
        shown += f"; {spelled.told(bad)} are no numbers and become missing"
    return Doubt(spelled.name, settings, _and(shown, _missing(spelled)), commas)


def _commas_of(values: pl.Series) -> Literal[""] | Commas:
    if not _has_commas(values):
        return ""
    match how_written(values):
        case "decimal_comma" | "accounting" as way:
            return way
        case "thousands_comma" | "either":
            return "thousands_comma"
        case _:
            return ""


def _has_commas(values: pl.Series) -> bool:
    with_commas = values.str.contains(r"^\s*[+-]?[0-9][0-9.' ]*,[0-9]").any()
    return bool(with_commas) or how_written(values) == "accounting"


def _words(spelled: _Spelled) -> Doubt | None:
    """Numbers written as words."""
    words = spelled.values.str.to_lowercase().is_in(list(NUMBER_WORDS))
    bad = _no_number(spelled.values) & ~words
    if bad.any() or words.sum() < 2:
        return None
    values = {**_in_digits(spelled.values.filter(words)), **spelled.blanks()}
    reason = _and("numbers written as words", _missing(spelled))
    return Doubt(spelled.name, Column(kind="numeric", values=values), reason)


def _dates(spelled: _Spelled) -> Doubt | None:
    found = find_dates(spelled.name, spelled.values, spelled.counts)
    blanks = spelled.blanks()
    if found is None or (found.is_sure and not blanks):
        return None
    settings = Column(
        kind="datetime",
        format=found.form,
        values=blanks,
        unreadable="missing" if found.unread.any() else "refuse",
    )
    reason = found.reason
    if found.unread.any():
        reason += f"; {spelled.told(found.unread)} are not dates and become missing"
    return Doubt(spelled.name, settings, _and(reason, _missing(spelled)))


def _no_number(values: pl.Series) -> pl.Series:
    return values.is_not_null() & to_numbers(values).series.is_null()


def _in_digits(words: pl.Series) -> dict[str, str]:
    return {word: NUMBER_WORDS[word.lower()] for word in sorted(words.to_list())}


def _missing(spelled: _Spelled) -> str:
    if not spelled.missing.height:
        return ""
    rows = many(int(spelled.missing["rows"].sum()), "value")
    spellings = quoted(spelled.missing["value"].to_list()[:_MOST_SPELLINGS], 4)
    return f"{rows} written {spellings} read as missing"


def _and(reason: str, more: str) -> str:
    return f"{reason}; {more}" if more else reason
