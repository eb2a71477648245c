"""Faults that are planted into real rows, with the rows or columns where they were put."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.contract.sections.data.table_data import Column

Random = np.random.Generator
Planted = tuple[pl.DataFrame, set[int] | set[str]]
"""The rows with the fault, and where it is: row numbers, or names of columns."""

PHRASES = (
    "die Bank hat mir gestern eine neue Karte geschickt, die leider nicht funktioniert",
    "je ne comprends pas pourquoi mon virement n'est toujours pas arrivé sur le compte",
    "quiero saber por qué me han cobrado dos veces la misma compra en la tienda",
)


@dataclass(frozen=True)
class Fault:
    """A kind of finding that must be found, and how the fault comes into the rows of a set."""

    kind: FindingKind
    name: str
    data: str
    plant: Callable[[pl.DataFrame, Random], Planted]
    columns: Mapping[str, Column] = field(default_factory=dict)


def some_rows(frame: pl.DataFrame, random: Random, share: float) -> list[int]:
    count = max(8, int(share * frame.height))
    return sorted(random.choice(frame.height, count, replace=False).tolist())


def edited(
    column: str, share: float, edit: Callable[[str, Random], str]
) -> Callable[[pl.DataFrame, Random], Planted]:
    """Edit the present cells of a column in some rows."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        cells = frame[column].to_list()
        rows = {row for row in some_rows(frame, random, share) if (cells[row] or "").strip()}
        changed = {row: edit(str(cells[row]).strip(), random) for row in sorted(rows)}
        rows = {row for row in rows if changed[row] != str(cells[row]).strip()}
        made = [changed.get(row, cell) for row, cell in enumerate(cells)]
        return frame.with_columns(pl.Series(column, made)), rows

    return plant


def scaled(column: str, share: float, factor: float) -> Callable[[pl.DataFrame, Random], Planted]:
    """Multiply numbers in some rows."""
    return edited(column, share, lambda cell, _: f"{float(cell) * factor:.6g}")


def copied(share: float) -> Callable[[pl.DataFrame, Random], Planted]:
    """Append copies of some rows."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        rows = some_rows(frame, random, share)
        return pl.concat([frame, frame[rows]]), set(range(frame.height, frame.height + len(rows)))

    return plant


def nearly_copied(
    share: float, edit: Callable[[pl.DataFrame, Random], pl.DataFrame]
) -> Callable[[pl.DataFrame, Random], Planted]:
    """Append copies of some rows with small changes."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        copies = edit(frame[some_rows(frame, random, share)], random)
        last = frame.height + copies.height
        return pl.concat([frame, copies]), set(range(frame.height, last))

    return plant


def jittered(columns: list[str]) -> Callable[[pl.DataFrame, Random], pl.DataFrame]:
    """Numbers with another rounding: up to a ten-thousandth more or less."""

    def edit(frame: pl.DataFrame, random: Random) -> pl.DataFrame:
        made = []
        for name in columns:
            numbers = frame[name].cast(pl.Float64, strict=False).to_numpy()
            moved = numbers * (1 + random.uniform(-1e-4, 1e-4, len(numbers)))
            cells = [None if np.isnan(value) else f"{value:.8g}" for value in moved]
            made.append(pl.Series(name, cells, dtype=pl.String))
        return frame.with_columns(made)

    return edit


def shouted(frame: pl.DataFrame, _: Random) -> pl.DataFrame:
    return frame.with_columns(pl.col("text").str.to_uppercase() + " !!")


def lengthened(frame: pl.DataFrame, _: Random) -> pl.DataFrame:
    long = frame.filter(pl.col("text").str.len_chars() > 60)
    return long.with_columns(pl.col("text") + " pls")


def reworded(frame: pl.DataFrame, random: Random) -> pl.DataFrame:
    """One word in six is another word of the text."""
    long = frame.filter(pl.col("text").str.len_chars() > 60)
    made = []
    for text in long["text"]:
        words = text.split()
        for at in random.choice(len(words), max(1, len(words) // 6), replace=False):
            words[at] = str(random.choice(words))
        made.append(" ".join(words))
    return long.with_columns(text=pl.Series(made))


def swapped(share: float, target: str) -> Callable[[pl.DataFrame, Random], Planted]:
    """Give some rows the class of another."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        labels = frame[target].to_list()
        names = sorted(set(labels))
        rows = some_rows(frame, random, share)
        for row in rows:
            labels[row] = str(random.choice([name for name in names if name != labels[row]]))
        return frame.with_columns(pl.Series(target, labels)), set(rows)

    return plant


def exchanged(share: float, target: str) -> Callable[[pl.DataFrame, Random], Planted]:
    """Give some rows the number of another of them; one that is within half a deviation of its own
    stays."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        values = numbers(frame, target)
        rows = np.array(some_rows(frame, random, share))
        given = values[random.permutation(rows)]
        far = np.abs(given - values[rows]) > values.std() / 2
        cells = frame[target].to_list()
        for row, number in zip(rows[far].tolist(), given[far].tolist(), strict=True):
            cells[row] = f"{number:.8g}"
        return frame.with_columns(pl.Series(target, cells)), set(rows[far].tolist())

    return plant


def flipped_copies(target: str) -> Callable[[pl.DataFrame, Random], Planted]:
    """Append copies with another class; both rows of a pair have the fault."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        rows = some_rows(frame, random, 0.005)
        one, other = sorted(frame[target].unique().to_list())[:2]
        turned = frame[rows].with_columns(
            pl.when(pl.col(target) == one).then(pl.lit(other)).otherwise(pl.lit(one)).alias(target)
        )
        new = set(range(frame.height, frame.height + len(rows)))
        return pl.concat([frame, turned]), new | set(rows)

    return plant


def column(
    name: str, make: Callable[[pl.DataFrame, Random], list[str]]
) -> Callable[[pl.DataFrame, Random], Planted]:
    """Add a column."""
    return lambda frame, random: (frame.with_columns(pl.Series(name, make(frame, random))), {name})


def numbers(frame: pl.DataFrame, name: str) -> np.ndarray:
    return frame[name].cast(pl.Float64, strict=False).fill_null(0).to_numpy()


def gone_with(name: str, target: str, label: str) -> Callable[[pl.DataFrame, Random], Planted]:
    """Take away a third of a column's values in one class only."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        away = (frame[target] == label).to_numpy() & (random.random(frame.height) < 0.33)
        gone = pl.when(pl.Series(away)).then(None).otherwise(pl.col(name)).alias(name)
        return frame.with_columns(gone), {name}

    return plant


def frozen(name: str) -> Callable[[pl.DataFrame, Random], Planted]:
    """A stretch of 200 rows in which a column keeps its value."""

    def plant(frame: pl.DataFrame, random: Random) -> Planted:
        start = int(random.integers(1000, frame.height - 1000))
        cells = frame[name].to_list()
        cells[start : start + 200] = [cells[start]] * 200
        return frame.with_columns(pl.Series(name, cells)), set(range(start, start + 200))

    return plant


def cut_off(name: str, share: float) -> Callable[[pl.DataFrame, Random], Planted]:
    """Numbers beyond a quantile become the quantile."""

    def plant(frame: pl.DataFrame, _: Random) -> Planted:
        values = numbers(frame, name)
        end = float(np.quantile(values, 1 - share))
        cells = [f"{min(value, end):.8g}" for value in values]
        return frame.with_columns(pl.Series(name, cells)), set(np.flatnonzero(values >= end))

    return plant


def without_hours(frame: pl.DataFrame, random: Random) -> Planted:
    """Take rows out of a regular sequence; the fault is at the row after each."""
    gone = np.zeros(frame.height, dtype=bool)
    gone[random.choice(np.arange(10, frame.height - 10, 7), 40, replace=False)] = True
    after = np.flatnonzero(gone[:-1]) + 1
    place = np.cumsum(~gone) - 1
    return frame.filter(pl.Series(~gone)), {int(place[row]) for row in after}


def mangled(text: str, random: Random) -> str:
    """A text with an apostrophe and a pound sign, decoded as if it were Windows-1252."""
    word = random.choice(["don’t", "café", "£20", "naïve"])
    return f"{text} {word}".encode().decode("cp1252", errors="replace")


FAULTS: tuple[Fault, ...] = (
    Fault("exact_duplicates", "1 % of the rows again", "adult", copied(0.01)),
    Fault("exact_duplicates", "1 % of the rows again", "elec2", copied(0.01)),
    Fault("exact_duplicates", "2 % of the texts again", "banking77", copied(0.02)),
    Fault("near_duplicates", "other rounding", "california",
          nearly_copied(0.01, jittered(["median_income", "total_rooms", "population"]))),
    Fault("near_duplicates", "other rounding", "parkinsons",
          nearly_copied(0.01, jittered(["Jitter(%)", "Shimmer", "HNR", "PPE"]))),
    Fault("near_duplicates", "upper case, other marks", "banking77", nearly_copied(0.02, shouted)),
    Fault("near_duplicates", "a word more", "sms", nearly_copied(0.02, lengthened)),
    Fault("near_duplicates", "one word in six replaced", "sms", nearly_copied(0.02, reworded)),
    Fault("conflicting_labels", "copies with another class", "telco", flipped_copies("Churn")),
    *(Fault("label_error", f"{share:.0%} swapped", data, swapped(share, target))
      for data, target in (("adult", "income"), ("sms", "label"), ("banking77", "category"),
                           ("telco", "Churn"), ("penguins", "species"))
      for share in (0.02, 0.05, 0.10)),
    *(Fault("label_error", f"{share:.0%} exchanged", data, exchanged(share, target))
      for data, target in (("california", "median_house_value"), ("bike", "cnt"),
                           ("parkinsons", "total_UPDRS"))
      for share in (0.02, 0.05, 0.10)),
    Fault("mixed_units", "grams as kilograms", "penguins", scaled("body_mass_g", 0.05, 0.001)),
    Fault("mixed_units", "grams as ounces", "penguins", scaled("body_mass_g", 0.05, 1 / 28.35)),
    Fault("mixed_units", "millimetres as inches", "penguins",
          scaled("flipper_length_mm", 0.05, 1 / 25.4)),
    Fault("mixed_units", "income times 10,000", "california", scaled("median_income", 0.02, 1e4)),
    Fault("mixed_units", "rooms in thousands", "california", scaled("total_rooms", 0.02, 0.001)),
    Fault("mixed_units", "rooms times 3.28", "california", scaled("total_rooms", 0.02, 3.28084)),
    Fault("mixed_units", "weights times 2.2", "penguins", scaled("body_mass_g", 0.05, 2.20462)),
    Fault("mixed_units", "weights times 1,000", "adult", scaled("fnlwgt", 0.02, 1000)),
    Fault("mixed_units", "dollars as cents", "telco", scaled("MonthlyCharges", 0.02, 100)),
    Fault("mixed_units", "years as months", "parkinsons", scaled("age", 0.02, 12)),
    Fault("mixed_units", "units as text", "penguins",
          edited("body_mass_g", 1.0,
                 lambda cell, r: cell + (" kg" if r.random() < 0.9 else " lb"))),
    Fault("mixed_formats", "decimal commas", "california",
          edited("median_income", 0.02, lambda cell, _: cell.replace(".", ","))),
    Fault("mixed_formats", "dates in two ways", "bike",
          edited("dteday", 0.02, lambda cell, _: "/".join(reversed(cell.split("-"))))),
    Fault("variant_spellings", "other case", "adult",
          edited("workclass", 0.01, lambda cell, _: cell.upper())),
    Fault("variant_spellings", "a full stop behind labels", "adult",
          edited("income", 0.02, lambda cell, _: cell + ".")),
    Fault("wrong_type", "words among numbers", "telco",
          edited("MonthlyCharges", 0.01, lambda _, r: str(r.choice(["unknown", "n.a.", "free"])))),
    Fault("mojibake", "wrong encoding", "sms", edited("text", 0.02, mangled)),
    Fault("mojibake", "wrong encoding of names", "titanic", edited("Name", 0.03, mangled)),
    Fault("out_of_range", "age 150 and more", "adult",
          edited("age", 0.003, lambda _, r: str(r.integers(150, 400))),
          {"age": Column(range=(0.0, 120.0))}),
    Fault("unexpected_value", "contracts that are not sold", "telco",
          edited("Contract", 0.005, lambda _, __: "Three year"),
          {"Contract": Column(allowed=("Month-to-month", "One year", "Two year"))}),
    Fault("pattern_mismatch", "ids of another form", "telco",
          edited("customerID", 0.005, lambda cell, _: cell.lower()),
          {"customerID": Column(pattern="[0-9]{4}-[A-Z]{5}")}),
    Fault("not_unique", "ids given twice", "telco",
          edited("customerID", 0.005, lambda _, __: "7590-VHVEG"),
          {"customerID": Column(unique=True)}),
    Fault("unlikely_values", "999 for missing", "adult", edited("age", 0.003, lambda *_: "999")),
    Fault("unlikely_values", "negative amounts", "telco",
          edited("MonthlyCharges", 0.003, lambda cell, _: "-" + cell)),
    Fault("outliers", "100 times as large", "parkinsons", scaled("HNR", 0.002, 100)),
    Fault("outliers", "a slip of the decimal point", "california", scaled("longitude", 0.001, 10)),
    Fault("outliers", "twice as large", "parkinsons", scaled("HNR", 0.002, 2)),
    Fault("missing_not_at_random", "a third of one class", "titanic",
          gone_with("Fare", "Survived", "0")),
    Fault("missing_not_at_random", "a third of one class", "telco",
          gone_with("tenure", "Churn", "Yes")),
    Fault("stuck", "a sensor stands still", "etth1", frozen("HULL")),
    Fault("time_gaps", "40 hours taken out", "etth1", without_hours),
    Fault("capped", "the largest tenth cut off", "parkinsons", cut_off("HNR", 0.1)),
    Fault("leak", "the target in other words", "adult",
          column("paid", lambda f, _: ["1" if ">" in x else "0" for x in f["income"]])),
    Fault("leak", "the target with a little noise", "titanic",
          column("score", lambda f, r: [f"{x:.4f}" for x in numbers(f, "Survived")
                                        + r.normal(0, 0.15, f.height)])),
    Fault("suspicious_feature", "the target with more noise", "titanic",
          column("score", lambda f, r: [f"{x:.4f}" for x in numbers(f, "Survived")
                                        + r.normal(0, 0.3, f.height)])),
    Fault("leak", "a function of the target", "california",
          column("worth", lambda f, _: [f"{x:.6f}" for x in
                                        np.log(numbers(f, "median_house_value"))])),
    Fault("leak", "the target in another unit", "bike",
          column("dozens", lambda f, _: [f"{x / 12:.5f}" for x in numbers(f, "cnt")])),
    Fault("constant", "one value", "adult", column("version", lambda f, _: ["v2"] * f.height)),
    Fault("identifier", "a row number", "elec2",
          column("row", lambda f, _: [str(row) for row in range(f.height)])),
    Fault("identifier", "a key", "california",
          column("key", lambda f, r: [f"k{x:08x}" for x in r.permutation(f.height) * 7919])),
    Fault("redundant_columns", "a copy in another unit", "california",
          column("rooms", lambda f, _: [f"{x * 1.5:.4f}" for x in numbers(f, "total_rooms")])),
    Fault("redundant_columns", "codes of names", "adult",
          column("code", lambda f, _: [str(sorted(f["occupation"].unique()).index(x))
                                       for x in f["occupation"]])),
    Fault("short_text", "a mark instead of a text", "sms", edited("text", 0.01, lambda *_: "??")),
    Fault("repeated_text", "the same words again and again", "sms",
          edited("text", 0.01, lambda cell, _: " ".join([" ".join(cell.split()[:3])] * 12))),
    Fault("other_language", "other languages", "banking77",
          edited("text", 0.01, lambda cell, r: f"{r.choice(PHRASES)} {len(cell)}")),
    Fault("markup", "HTML", "banking77", edited("text", 0.01, lambda cell, _: f"<p>{cell}</p>")),
    Fault("line_breaks", "texts over two lines", "sms",
          edited("text", 0.01, lambda cell, _: cell.replace(" ", "\n", 1))),
)  # fmt: skip
