"""Columns as people write them, each beside what it should be read as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import final

ROWS = 300


@final
@dataclass(frozen=True, slots=True)
class DoubtfulColumn:
    """`cells` of a column of text; `read` are the values that its first rows should have."""

    cells: Sequence[str]
    kind: str
    read: Sequence[object]


def doubtful_columns() -> dict[str, DoubtfulColumn]:
    """By name, 300 rows each."""
    amounts = [(at * 37) % 2000 / 4 + 0.25 for at in range(ROWS)]
    days = [date(2019, 1, 3) + timedelta(days=3 * at) for at in range(ROWS)]
    births = [date(1931, 1, 3) + timedelta(days=89 * at) for at in range(ROWS)]
    old = [date(1955, 1, 3) + timedelta(days=80 * at) for at in range(ROWS)]
    words = ("two", "four", "three", "six")
    first, last = amounts[:2], amounts[-1]
    mixed = [f"{one:%Y-%m-%d}" if at % 3 else f"{one:%d/%m/%Y}" for at, one in enumerate(days)]
    serials = [(one - date(1899, 12, 30)).days for one in days]
    codes = [f"V{at}" if at % 100 == 1 else str(200 + at % 60) for at in range(ROWS)]
    return {
        "price": DoubtfulColumn([f"${one}" for one in amounts], "numeric", first),
        "fare": DoubtfulColumn([f"{one} EUR" for one in amounts], "numeric", first),
        "rate": DoubtfulColumn([f"{one}%" for one in amounts], "numeric", first),
        "salary": DoubtfulColumn(
            [f"${one * 1000:,.2f}" for one in amounts], "numeric", [one * 1000 for one in first]
        ),
        "weight": DoubtfulColumn(
            [f"{one}kg" if at else "n/a" for at, one in enumerate(amounts)],
            "numeric",
            [None, amounts[1]],
        ),
        "doors": DoubtfulColumn(
            [words[at % 4] for at in range(ROWS)], "numeric", [2.0, 4.0, 3.0, 6.0]
        ),
        "income": DoubtfulColumn(
            ["unknown" if at % 4 == 0 else str(one) for at, one in enumerate(amounts)],
            "numeric",
            [None, amounts[1]],
        ),
        "height": DoubtfulColumn(
            ["tall", *(str(one) for one in amounts[1:])], "numeric", [None, amounts[1]]
        ),
        "comma": DoubtfulColumn(
            [str(one).replace(".", ",") for one in amounts], "numeric", [*first, amounts[2]]
        ),
        "code": DoubtfulColumn(codes, "categorical", ["200", "V1", "202"]),
        "mixed": DoubtfulColumn(mixed, "datetime", days[:2]),
        "swapped": DoubtfulColumn([f"{one:%m/%d/%Y}" for one in days], "datetime", days[:2]),
        "short": DoubtfulColumn([f"{one:%d.%m.%y}" for one in days], "datetime", days[:2]),
        "born": DoubtfulColumn(
            [f"{one:%d.%m.%y}" for one in births], "datetime", [births[0], births[1]]
        ),
        "founded": DoubtfulColumn([f"{one:%d-%b-%y}" for one in old], "datetime", old[:2]),
        "release": DoubtfulColumn(
            [("1.1", "1.10", "1.2", "2.40")[at % 4] for at in range(ROWS)],
            "categorical",
            ["1.1", "1.10", "1.2"],
        ),
        "procedure": DoubtfulColumn(
            [("038", "38", "0451", "7")[at % 4] for at in range(ROWS)], "categorical", ["038", "38"]
        ),
        "serial": DoubtfulColumn(
            [str(serials[at]) if at % 5 == 0 else f"{days[at]}" for at in range(ROWS)],
            "datetime",
            days[:2],
        ),
        "impossible": DoubtfulColumn(
            ["2021-02-31", *(f"{one}" for one in days[1:])], "datetime", [None, days[1]]
        ),
        "month": DoubtfulColumn(
            [f"{2000 + at // 12}-{at % 12 + 1:02d}" for at in range(ROWS)],
            "datetime",
            [date(2000, 1, 1), date(2000, 2, 1)],
        ),
        "plain": DoubtfulColumn([str(one) for one in amounts[:-1]] + [str(last)], "numeric", first),
    }
