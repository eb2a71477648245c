"""`data.columns`: facts about single columns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainwright.contract.sections.data.features import ColumnFeatures
from trainwright.contract.sections.section import Auto, Section

ColumnKind = Literal["numeric", "categorical", "datetime", "text", "ignored"]


class Column(Section):
    """Facts about one column; anything omitted is inferred from the training rows."""

    kind: Auto | ColumnKind = "auto"
    """Type of the column: `numeric`, `categorical`, `datetime`, `text`, or `ignored`."""

    values: dict[str, str] = Field(default_factory=dict)
    """Spellings to replace before anything else, for example `{">50K.": ">50K"}`."""

    format: str = "auto"
    """How a `datetime` is written, in strftime codes, for example `%d/%m/%Y %H:%M`, or `excel` for
    the serial numbers of spreadsheets (days since 1899-12-30). Several forms stand with ` | `
    between them, and the first that reads a value counts. `%.f` is a point and the digits of a
    fraction of a second; hours need minutes."""

    unit: str = ""
    """A sign or word that may stand before or after the numbers of the column and is taken off:
    `$` for `$554`, `EUR` for `60.91 EUR`, `%` for `5%` (which is 5). The sign and the code of a
    currency are one unit (`€` and `EUR`, `£` and `GBP`, `¥` and `JPY`, `$` and `USD`). A number
    beside another unit is no number. With commas in them, `data.reading.numbers` says of which kind
    they are."""

    unreadable: Literal["refuse", "missing"] = "refuse"
    """What becomes of values that are no numbers in a `numeric` column, or no dates in a `datetime`
    one: `refuse`, or `missing`, in every file."""

    features: ColumnFeatures = ColumnFeatures()
    """Encoding of this column, if it differs from `data.features`."""

    range: Literal["any"] | tuple[float, float] = "any"
    """The least and the largest number that a value may be, both included; `any` asks nothing."""

    allowed: tuple[str, ...] = ()
    """The values that may stand here; empty asks nothing."""

    pattern: str = ""
    """A regular expression that a whole value must match; empty asks nothing. It is matched in time
    linear in the text, so it has no look-around and no back-references."""

    unique: bool = False
    """Must values be unique?"""

    nullable: bool = True
    """May values be missing?"""
