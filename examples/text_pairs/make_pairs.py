"""Writes questions of customers and the articles that answer them, in other words."""

from __future__ import annotations

import csv
import random
from itertools import product
from pathlib import Path

THINGS = {
    "parcel": "Shipments",
    "phone": "Mobile devices",
    "invoice": "Billing documents",
    "password": "Account access",
    "ticket": "Travel bookings",
    "jacket": "Clothing",
}
TROUBLES = {
    "is lost": "how we search for what went missing",
    "is broken": "repair and replacement of damaged goods",
    "is late": "what happens after a delay",
    "is wrong": "corrections of a mistake",
    "must be sent back": "returns and refunds",
    "is too expensive": "discounts and price guarantees",
}
PHRASES = ("my {} {}", "help, the {} {}", "what if a {} {}?", "the {} of my mother {}")


def main() -> None:
    """Write `questions.csv` beside this file, the same each time."""
    rows = [
        (phrase.format(thing, trouble), f"{THINGS[thing]}: {TROUBLES[trouble]}", thing)
        for thing, trouble, phrase in product(THINGS, TROUBLES, PHRASES)
    ]
    random.Random(0).shuffle(rows)
    with (Path(__file__).parent / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("query", "passage", "thing"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
