"""Numbers with a unit: `$554`, `60.91 EUR`, `5%`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final

import polars as pl

from trainwright.core.files import Json

_PLAIN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = MappingProxyType(
    {
        "": _PLAIN,
        "thousands_comma": rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?|{_PLAIN})",
        "accounting": rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?|{_PLAIN})",
        "decimal_comma": (
            r"(?:[0-9]{1,3}(?:[.' \u00a0\u202f][0-9]{3})+(?:,[0-9]+)?|[0-9]+(?:,[0-9]+)?)"
        ),
    }
)


_CODES = MappingProxyType({"€": "EUR", "£": "GBP", "¥": "JPY", "$": "USD", "US$": "USD"})
"""Signs of currencies, which mean one code each. A sign that others share (`$` of AUD, `¥` of CNY)
is not one unit with their codes."""


def one_unit(units: pl.Series) -> pl.Series:
    """Units in capitals, the sign of a currency as its code: `€` and `eur` are `EUR`."""
    return units.str.to_uppercase().replace(list(_CODES), list(_CODES.values()))


def with_minus(cells: pl.Series) -> pl.Series:
    """Cells with a minus instead of parentheses around an amount: `-$5` for `($5)` and `$(5)`."""
    return cells.str.replace(r"^([^()+-]*)\(([^()+-]*)\)([^()+-]*)$", "-${1}${2}${3}")


def spellings(unit: str) -> list[str]:
    """The ways of writing a unit, the longest first: sign and code of a currency."""
    code = _CODES.get(unit.upper(), unit.upper())
    same = [sign for sign, other in _CODES.items() if other == code]
    return sorted({unit, *same, code} if same else {unit}, key=lambda one: (-len(one), one))


@final
@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a column and the format of its numbers."""

    text: str
    commas: Literal["", "decimal_comma", "thousands_comma", "accounting"] = ""

    def without(self, cells: pl.Series) -> pl.Series:
        """Strip the unit from text cells that are a number, with or without it; other cells are
        unchanged. Sign and code of one currency are one unit."""
        same = "|".join(re.escape(one) for one in spellings(self.text))
        unit = rf"(?:(?i:{same})\s*)?"
        pattern = rf"^([+-]?)\s*{unit}([+-]?{_NUMBER[self.commas]})\s*{unit}$"
        signed = with_minus(cells) if self.commas == "accounting" else cells
        bare = signed.str.replace(pattern, "${1}${2}")
        match self.commas:
            case "thousands_comma" | "accounting":
                bare = bare.str.replace_all(",", "", literal=True)
            case "decimal_comma":
                bare = bare.str.replace_all(r"[.' \u00a0\u202f]", "")
                bare = bare.str.replace(",", ".", literal=True)
            case "":
                return bare
        return bare.zip_with(signed.str.contains(pattern).fill_null(value=False), cells)

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"text": self.text, "commas": self.commas}

    @classmethod
    def from_json(cls, value: Json) -> Unit:
        """The unit that `to_json` wrote."""
        return cls(value["text"], value["commas"])
