"""Where rows come from beside files, and how files are read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Count, Positive, Section
from trainwright.core import limits

FRAME = "frame://"
"""How a path begins that means a frame given to `trainwright.train` from Python."""


class Sql(Section):
    """Rows of a query. The query runs in a transaction that may only read."""

    url: str = ""
    """The database: `sqlite:///shop.db` (a file, relative to the contract's folder) or
    `postgresql://user@host:5432/name`. A password never stands in it: PostgreSQL takes one from
    the environment variable PGPASSWORD or the file ~/.pgpass. Empty: no database."""

    query: str = ""
    """One SELECT. Without ORDER BY a database may answer in another order each time, which counts
    as other data."""


class Reading(Section):
    """How files are read, and how far a file is trusted."""

    header: bool = True
    """Whether the first line of CSV and TSV holds the column names; without one the columns are
    `column_1`, `column_2` and so on."""

    skip_lines: Annotated[int, Field(ge=0)] = 0
    """How many lines of CSV and TSV stand above the header, or above the first row where there is
    none: a title, a date of export."""

    repeated_names: Literal["refuse", "rename"] = "refuse"
    """What becomes of a CSV or TSV in whose header a name stands twice. `rename`: the second `a`
    is `a_2`, and so on."""

    control_characters: Literal["refuse", "remove"] = "refuse"
    """What becomes of NUL bytes in text files. `remove`: they are dropped, with the other control
    characters that are no tab and no line break."""

    separator: str = ""
    """The mark between fields of a CSV. By default a comma, or else `;`, tab or `|` if the header
    holds one; of a TSV always a tab."""

    quotes: Literal["double", "none"] = "double"
    """`double`: a field in `"` may hold separators and line breaks. `none`: a quote is text."""

    numbers: dict[str, Literal["decimal_comma", "thousands_comma", "accounting"]] = Field(
        default_factory=dict
    )
    """The columns of files whose numbers are text and not written as `1234.5`, by name.
    `decimal_comma`: `1.234,5` is 1234.5 and `1.234` is 1234 (blanks or apostrophes may stand
    between the thousands too). `thousands_comma`: `1,234.5` is 1234.5 and `1,234` is 1234.
    `accounting`: the same, and a number in parentheses is negative: `(1,234.5)` is -1234.5. Every
    cell of a named column is read so, in every file; one that looks like a number written in
    another way is refused. A number that stands bare in JSON is what it is. Other columns stay as
    they are. `data.missing_values` is compared with what comes out: `-99.9` where the file says
    `-99,9`."""

    encoding: str = "utf-8"
    """How text files are encoded, by the name that Python gives it, for example `cp1252`,
    `latin-1` or `utf-16`. Never guessed: a file that cannot be read so is refused, and the message
    says what it looks like."""

    nested: Literal["refuse", "text", "chat"] = "refuse"
    """What becomes of lists and objects inside a row. `refuse`: a line of JSON may hold none, and
    those of Parquet and Arrow are no features. `text`: their JSON is the value. `chat`: a list of
    turns, each with `role` and `content` or with `from` and `value`, is a text with a line
    `role: content` for each turn, and other values are their JSON."""

    bad_records: Annotated[int, Field(ge=0)] = 0
    """Up to so many records of a file that cannot be read (a line that is not JSON, a row with
    too few or too many fields) are skipped, counted and listed by line; one more is refused."""

    most_unpacked_ratio: Positive = limits.MOST_EXPANSION
    """A file that unpacks to more than so many times its size, packed as a whole or inside, is
    refused once that passes 1/64 of the machine's memory and 64 MiB: text packs 3 to 20 times, a
    bomb a thousand times."""

    most_gigabytes: Positive = limits.MOST_GIGABYTES
    """A file that has more than so many gigabytes (10^9 bytes), downloaded, unpacked or as a table,
    is refused before it fills the disk."""

    most_columns: Count = limits.MOST_COLUMNS
    """A table with more columns is refused: each takes time in every check, and a bomb may name
    millions."""

    most_seconds: Positive = limits.MOST_QUERY_SECONDS
    """A query of `data.sql` that has not given its last row after so many seconds is stopped."""

    cache: str = "user"
    """The folder of the files that are read once and then mapped into memory: a folder, `user`
    ($TRAINWRIGHT_CACHE, else $XDG_CACHE_HOME/trainwright, else ~/.cache/trainwright), or `off`,
    which reads them anew each time."""

    rows_in: Literal["auto", "memory", "files"] = "auto"
    """Where a table's rows lie once they are read: in `memory`, or in `files` on the disk of the
    cache, which are mapped into memory and gone when the run ends, for tables larger than memory.
    Both give the same bits; `files` needs the extra large, a network or boosting, and room on the
    disk for the rows three times. `auto`: files where ten times the numbers, at 8 bytes each, are
    more than the machine's memory."""


USUAL = Reading()
"""How a file is read of which nothing else is said."""
