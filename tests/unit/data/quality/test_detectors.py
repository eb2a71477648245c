"""Each detector finds the fault it is for, in the rows where it was put, and nothing elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.contract.data import Column
from trainwright.data.quality import classes, duplicates, forms, missing, order, ranges, spread
from trainwright.data.quality import texts as written
from trainwright.data.quality.collect import QUICK, find_faults, find_kind
from trainwright.data.quality.examined import Examined, examine
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.leaks import leaks
from trainwright.data.quality.near import near_duplicates
from trainwright.data.quality.units import mixed_units
from trainwright.data.quality.whole_columns import (
    constant,
    identifier,
    rare_category,
    redundant_columns,
)

ROWS = 400
WORDS = (
    *("the", "bank", "sent", "my", "new", "card", "and", "it", "does", "not", "work", "when"),
    *("i", "pay", "in", "a", "shop", "abroad", "today"),
)


def clean(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    """Four columns of numbers, one of words, and a target that depends on them."""
    random = np.random.default_rng(seed)
    height, weight = random.normal(170, 9, rows), random.normal(70, 8, rows)
    weight = weight + 0.8 * (height - 170)
    place = random.choice(["Bern", "Oslo", "Rome"], rows)
    age = random.uniform(18, 80, rows)
    wins = (height + 10 * (place == "Oslo") + random.normal(0, 4, rows)) > 172
    return {
        "height": height,
        "weight": weight,
        "age": age,
        "place": list(place),
        "won": ["yes" if win else "no" for win in wins],
    }


def sentences(rows: int = ROWS, seed: int = 1) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 12)) + f" {row}" for row in range(rows)]


def made(**columns: Any) -> Examined:
    return examine(pl.DataFrame({**clean(), **columns}), "won")


def with_values(name: str, values: Mapping[int, Any]) -> Examined:
    column = list(clean()[name])
    for row, value in values.items():
        column[row] = value
    return made(**{name: column})


def only(found: Sequence[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def test_nothing_is_found_in_clean_rows() -> None:
    found = find_faults(made(), {}, "quick")
    assert [finding for finding in found if finding.severity != "info"] == []


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
def test_no_check_fails_on_strange_tables(check: Callable[[Examined], list[Finding]]) -> None:
    frames = [
        pl.DataFrame({"a": pl.Series([], dtype=pl.String)}),
        pl.DataFrame({"a": [None, None]}),
        pl.DataFrame({"a": [1.0], "b": ["x"]}),
        pl.DataFrame({"a": [1.0, float("nan"), float("inf")], "b": ["", " ", "x"]}),
        pl.DataFrame({"a": [[1], [2, 3]], "b": [True, None]}),
        pl.DataFrame({"a": ["5"] * 200, "b": [None] * 199 + [1]}),
    ]
    for frame in frames:
        for target in ("", *frame.columns):
            assert isinstance(check(examine(frame, target)), list)


def test_a_column_of_texts_may_be_empty() -> None:
    nothing = pl.Series([None] * ROWS, dtype=pl.String)
    data = examine(pl.DataFrame({**clean(), "note": nothing}), "won", {"note": Column(kind="text")})
    found = find_faults(data, {}, "quick")
    assert {one.kind for one in found if one.columns == ("note",)} == {"constant", "missing"}


@pytest.mark.parametrize("name", ["count", "value", "proportion", "len", "literal"])
@pytest.mark.parametrize("column", ["age", "place", "won"])
def test_what_a_column_is_called_changes_nothing(name: str, column: str) -> None:
    """These are the names that polars gives to what it counts."""
    columns = {**clean(), "size": ["3 kg", "5 lb"] * 200, "flag": [0, 1] * 200}
    frame = pl.DataFrame(columns).with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(pl.col("place") == "Oslo").then(pl.lit("oslo")).otherwise("place").alias("place"),
    )
    usual = find_faults(examine(frame, "won"), {}, "all")
    target = name if column == "won" else "won"
    renamed = find_faults(examine(frame.rename({column: name}), target), {}, "all")
    assert [(one.kind, one.count, one.rows) for one in renamed] == [
        (one.kind, one.count, one.rows) for one in usual
    ]


def test_exact_duplicates_are_the_later_copies() -> None:
    frame = pl.DataFrame(clean())
    frame = pl.concat([frame, frame[[3, 3, 10]]])
    finding = only(duplicates.exact_duplicates(examine(frame, "won")))
    assert (finding.kind, finding.count, finding.rows) == ("exact_duplicates", 3, (400, 401, 402))


def test_a_row_number_does_not_hide_a_duplicate() -> None:
    frame = pl.DataFrame(clean())
    frame = pl.concat([frame, frame[[3]]]).with_row_index("number")
    assert only(duplicates.exact_duplicates(examine(frame, "won"))).rows == (400,)


def test_duplicates_across_parts_are_told_apart() -> None:
    frame = pl.DataFrame(clean())
    data = examine(pl.concat([frame, frame[[3]]]), "won")
    data.parts[400] = 2
    found = duplicates.exact_duplicates(data)
    assert [finding.rows for finding in found] == [(400,), (400,)]
    assert "1 of 1 validation and test rows equal a training row" in found[1].message


def test_conflicting_labels_name_all_rows_of_the_group() -> None:
    frame = pl.DataFrame(clean())
    twin = frame[[7]].with_columns(won=pl.lit("no" if frame["won"][7] == "yes" else "yes"))
    finding = only(duplicates.conflicting_labels(examine(pl.concat([frame, twin]), "won")))
    assert finding.rows == (7, 400)


def test_a_missing_label_is_no_other_class() -> None:
    frame = pl.DataFrame(clean())
    twin = frame[[7]].with_columns(won=pl.lit(None, pl.String))
    assert duplicates.conflicting_labels(examine(pl.concat([frame, twin]), "won")) == []
    other = frame[[7]].with_columns(won=pl.lit("no" if frame["won"][7] == "yes" else "yes"))
    data = examine(pl.concat([frame, twin, other]), "won")
    assert only(duplicates.conflicting_labels(data)).rows == (7, 401)


def test_what_the_contract_leaves_out_is_no_feature() -> None:
    """Neither a leak, nor what tells rows apart, nor what labels are judged by."""
    frame = pl.DataFrame(clean())
    turned = frame[[7]].with_columns(won=pl.lit("no" if frame["won"][7] == "yes" else "yes"))
    frame = pl.concat([frame, turned, frame[[9]].with_columns(pl.col("height") + 0.001)])
    frame = frame.with_columns(
        prize=(pl.col("won") == "yes").cast(pl.Int8), page=pl.int_range(pl.len()) // 20
    )
    ignored = dict.fromkeys(("prize", "page", "won"), Column(kind="ignored"))
    for data in (
        examine(frame, "won", ignored),
        examine(frame, "won", left_out=("prize", "page")),
    ):
        assert {look.name for look in data.features} == {"height", "weight", "age", "place"}
        assert leaks(data) == []
        assert only(duplicates.conflicting_labels(data)).rows == (7, 400)
        assert only(near_duplicates(data)).rows == (401,)
    swapped = frame.with_columns(
        won=pl.when(pl.int_range(pl.len()) % 97 == 0)
        .then(pl.when(pl.col("won") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes")))
        .otherwise("won")
    )
    copied = swapped.with_columns(prize=pl.col("won"))
    assert find_kind(examine(copied, "won"), "label_error", {}) == []
    judged = [
        find_kind(examine(rows, "won", written), "label_error", {})
        for rows, written in ((copied, ignored), (swapped.drop("prize"), {"page": ignored["page"]}))
    ]
    assert judged[0] == judged[1] != []


def test_near_duplicates_of_a_table() -> None:
    frame = pl.DataFrame(clean())
    near = frame[[5, 9]].with_columns(pl.col("height") + 0.001, pl.col("place").str.to_uppercase())
    finding = only(near_duplicates(examine(pl.concat([frame, near]), "won")))
    assert finding.rows == (400, 401)


def test_near_duplicates_of_texts() -> None:
    texts = sentences()
    long = texts[5] + " and please answer me soon"
    texts += [texts[4].upper() + "!!", long.replace(" 5 ", " 5, "), long.replace("soon", "now")]
    frame = pl.DataFrame({"text": texts, "label": ["a", "b"] * 201 + ["a"]})
    finding = near_duplicates(examine(frame, "label"))[0]
    assert set(finding.rows) >= {400, 402}
    assert len(finding.rows) <= 4


def test_missing_names_rows_and_column() -> None:
    finding = only(missing.missing(with_values("place", {3: "?", 9: "", 12: None})))
    assert (finding.rows, finding.columns) == ((3, 9, 12), ("place",))


def test_missing_that_depends_on_the_class() -> None:
    won = clean()["won"]
    random = np.random.default_rng(0)
    gone = [random.random() < (0.3 if answer == "yes" else 0.03) for answer in won]
    ages = [None if g else age for g, age in zip(gone, clean()["age"], strict=True)]
    finding = only(missing.missing_not_at_random(made(age=ages)))
    assert finding.columns == ("age",)
    at_random = [None if row % 9 == 0 else age for row, age in enumerate(clean()["age"])]
    assert missing.missing_not_at_random(made(age=at_random)) == []


def test_missing_where_a_number_is_high() -> None:
    columns = clean()
    ages = [None if h > 178 else a for h, a in zip(columns["height"], columns["age"], strict=True)]
    data = examine(pl.DataFrame({**columns, "age": ages}), "height")
    assert only(missing.missing_not_at_random(data)).columns == ("age",)


def test_constant_columns() -> None:
    data = made(version=["1.0"] * ROWS, nothing=[None] * ROWS)
    assert [finding.columns for finding in constant(data)] == [("version",), ("nothing",)]


def test_identifiers_and_codes() -> None:
    random = np.random.default_rng(0)
    data = made(order=list(range(ROWS)), key=[f"k{row:05d}" for row in range(ROWS)])
    assert [finding.columns for finding in identifier(data)] == [("order",), ("key",)]
    codes = pl.DataFrame({"user": random.integers(1, 150, 3000), "x": random.normal(size=3000)})
    assert only(identifier(examine(codes))).columns == ("user",)
    ages = pl.DataFrame({"age": random.poisson(40, 3000), "x": random.normal(size=3000)})
    assert identifier(examine(ages)) == []


def test_redundant_columns_and_products() -> None:
    names = {"Bern": 1, "Oslo": 2, "Rome": 3}
    columns = clean()
    data = made(
        code=[names[place] for place in columns["place"]],
        inches=columns["height"] / 2.54,
        product=columns["age"] * columns["weight"],
    )
    found = {frozenset(finding.columns) for finding in redundant_columns(data)}
    assert found == {
        frozenset({"place", "code"}),
        frozenset({"height", "inches"}),
        frozenset({"product", "age", "weight"}),
    }


def test_rare_categories() -> None:
    finding = only(rare_category(with_values("place", {3: "Ulm", 5: "Ulm"})))
    assert finding.rows == (3, 5)


def test_words_among_numbers_are_of_a_wrong_type() -> None:
    ages = [str(round(age, 1)) for age in clean()["age"]]
    ages[4], ages[8] = "unknown", "n.a."
    finding = only(forms.wrong_type(made(age=ages)))
    assert (finding.kind, finding.rows) == ("wrong_type", (4, 8))


def test_numbers_as_text_in_a_typed_file() -> None:
    finding = only(forms.wrong_type(made(age=[str(age) for age in clean()["age"]])))
    assert finding.count == ROWS


def test_a_decimal_comma_throughout() -> None:
    ages = [f"{age:.2f}".replace(".", ",") for age in clean()["age"]]
    assert "decimal comma" in only(forms.wrong_type(made(age=ages))).message


def test_a_decimal_comma_here_and_there() -> None:
    ages = [f"{age:.2f}" for age in clean()["age"]]
    for row in (2, 30, 31):
        ages[row] = ages[row].replace(".", ",")
    assert only(forms.mixed_formats(made(age=ages))).rows == (2, 30, 31)


def test_numbers_with_thousandths_are_written_in_one_way() -> None:
    ages = [f"{age:.3f}" for age in clean()["age"]]
    assert forms.mixed_formats(made(age=ages)) == []


def test_dates_in_two_ways() -> None:
    dates = [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(ROWS)]
    for row in (5, 50, 100):
        dates[row] = f"{1 + row % 28:02d}/{1 + row % 12:02d}/2024"
    assert only(forms.mixed_formats(made(day=dates))).rows == (5, 50, 100)


def test_several_units_as_text() -> None:
    weights = [f"{weight:.1f} kg" for weight in clean()["weight"]]
    weights[6], weights[60] = "150 lb", "172 lb"
    finding = only(forms.units_as_text(made(weight=weights)))
    assert (finding.kind, finding.rows) == ("mixed_units", (6, 60))


def test_spellings_of_one_word() -> None:
    finding = only(forms.variant_spellings(with_values("place", {1: "oslo", 2: "Rome."})))
    assert (finding.rows, finding.severity) == ((1, 2), "warning")
    finding = only(forms.variant_spellings(with_values("won", {1: "YES"})))
    assert (finding.rows, finding.severity) == ((1,), "error")


def test_different_signs_are_different_labels() -> None:
    columns = {**clean(), "won": [">50K", "<=50K"] * 200}
    assert forms.variant_spellings(examine(pl.DataFrame(columns), "won")) == []


def test_spaces_around_cells() -> None:
    found = forms.surrounding_spaces(with_values("place", {1: " Oslo", 2: "   "}))
    assert [finding.rows for finding in found] == [(1,), (2,)]


@pytest.mark.parametrize("factor", [2.20462, 0.01, 1000.0])
def test_a_part_of_a_column_in_another_unit(factor: float) -> None:
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(ROWS, 20, replace=False))
    weights = clean()["weight"].copy()
    weights[rows] *= factor
    finding = only(mixed_units(made(weight=weights)))
    assert len(set(finding.rows) & set(rows.tolist())) >= 18
    assert len(finding.rows) <= 22
    assert finding.columns == ("weight",)


def test_a_long_tail_is_not_another_unit() -> None:
    random = np.random.default_rng(0)
    data = made(income=random.lognormal(8, 1.2, ROWS), wealth=random.pareto(1.5, ROWS) + 1)
    assert mixed_units(data) == []


def test_what_breaks_the_contract() -> None:
    columns = {
        "age": Column(range=(0.0, 120.0)),
        "place": Column(allowed=("Bern", "Oslo", "Rome")),
        "code": Column(pattern="[A-Z]{2}[0-9]+", unique=True, nullable=False),
    }
    codes: list[Any] = [f"AB{row}" for row in range(ROWS)]
    codes[3], codes[4], codes[5] = "ab3", "AB1", None
    frame = pl.DataFrame({**clean(), "code": codes})
    frame[7, "age"], frame[8, "place"] = 300.0, "Ulm"
    found = ranges.against_schema(examine(frame, "won", columns), columns)
    assert {finding.kind: finding.rows for finding in found} == {
        "out_of_range": (7,),
        "unexpected_value": (8,),
        "pattern_mismatch": (3,),
        "not_unique": (4,),
        "forbidden_missing": (5,),
    }
    assert {finding.severity for finding in found} == {"error"}


def test_negative_numbers_and_sentinels() -> None:
    assert only(ranges.unlikely_values(with_values("age", {3: -4.0}))).rows == (3,)
    for sentinel in (999.0, -999.0):
        values = {**dict.fromkeys((3, 5, 8, 9), sentinel), 11: np.inf}
        assert only(ranges.unlikely_values(with_values("age", values))).rows == (3, 5, 8, 9)


def test_a_pile_at_the_end_is_a_cap() -> None:
    ages = np.minimum(clean()["age"], 70.0)
    finding = only(ranges.capped(made(age=ages)))
    assert finding.rows == tuple(np.flatnonzero(ages == 70.0).tolist())


def test_a_sensor_that_stands_still() -> None:
    values = np.cumsum(np.random.default_rng(0).normal(size=ROWS))
    values[100:140] = values[100]
    assert only(order.stuck(made(sensor=values))).rows == tuple(range(100, 140))


def test_a_number_that_stands_still_while_its_twin_moves() -> None:
    random = np.random.default_rng(0)
    one = np.repeat(np.round(random.normal(size=ROWS // 8), 2), 8)
    other = one + random.normal(0, 0.05, ROWS)
    one[160:184] = one[160]
    finding = only(order.frozen(made(one=one, other=other)))
    assert (finding.columns, set(finding.rows)) == (("one",), set(range(160, 184)))
    assert order.frozen(made(one=one)) == []


def test_moments_that_are_absent() -> None:
    days = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2025, 3, 31), "1d", time_unit="us", eager=True
    )
    kept = days.gather([row for row in range(len(days)) if row not in (50, 51, 90)])[:ROWS]
    finding = only(order.time_gaps(made(day=kept)))
    assert (finding.count, finding.rows) == (3, (50, 88))


def test_outliers_and_tails() -> None:
    finding = only(spread.outliers(with_values("height", {7: 17_000.0, 8: -900.0})))
    assert finding.rows == (7, 8)
    tail = np.random.default_rng(0).lognormal(0, 1.5, ROWS)
    assert only(spread.skewed(made(tail=tail))).columns == ("tail",)
    assert spread.outliers(made(tail=tail)) == []


def test_values_beyond_a_wide_gap_are_outliers_and_tails_are_not() -> None:
    """Eight deviations away, which is less than ten robust ones."""
    finding = only(spread.outliers(with_values("height", {7: 245.0, 9: 80.0})))
    assert finding.rows == (7, 9)
    random = np.random.default_rng(0)
    tails = {"normal": random.normal(size=ROWS), "long": random.exponential(5, ROWS) + 1}
    assert spread.outliers(made(**tails)) == []
    mostly_none = np.where(np.arange(ROWS) % 200, 0.0, random.uniform(1, 2, ROWS))
    assert spread.outliers(made(gain=mostly_none)) == []


def test_rows_unlike_all_others() -> None:
    columns = clean()
    for name in ("height", "weight", "age"):
        columns[name][17] *= 4
    assert spread.strange_rows(examine(pl.DataFrame(columns), "won"))[0].rows == (17,)


def test_classes_that_are_rare_or_few() -> None:
    labels = ["a"] * 350 + ["b"] * 46 + ["c"] * 4
    data = examine(pl.DataFrame({**clean(), "won": labels}), "won")
    assert only(classes.class_imbalance(data)).severity == "warning"
    assert only(classes.rare_class(data)).rows == (396, 397, 398, 399)
    assert "sorted by 'won'" in only(classes.ordered_target(data)).message


def test_a_target_that_stays_as_it_was() -> None:
    walk = np.cumsum(np.random.default_rng(0).normal(size=ROWS))
    data = examine(pl.DataFrame({**clean(), "height": walk}), "height")
    assert only(classes.ordered_target(data)).columns == ("height",)
    assert classes.ordered_target(made()) == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (written.short_text, "??"),
        (written.long_text, "many different words " * 40 + "end"),
        (written.repeated_text, "spam eggs " * 20),
        (written.markup, "the &lt;b&gt; card <br/> does not work"),
        (written.mojibake, "the cafÃ© took my card and the barista didnâ€™t give it back"),
        (written.mojibake, "the card \ufffd\ufffd does not work today at all"),
        (
            written.other_language,
            "die Bank hat mir gestern eine neue Karte geschickt, die im Ausland nicht funktioniert",
        ),
        (written.line_breaks, "the card\ndoes not work"),
    ],
)
def test_texts_of_low_quality(check: Callable[[Examined], list[Finding]], text: str) -> None:
    texts = [
        f"my card number {row} was declined while I was paying for {WORDS[row % 18]} in a shop"
        for row in range(ROWS)
    ]
    frame = pl.DataFrame({"text": texts, "label": ["a", "b"] * 200})
    assert check(examine(frame, "label")) == []
    texts[11] = text
    assert only(check(examine(frame.with_columns(text=pl.Series(texts)), "label"))).rows == (11,)


def test_comparisons_in_labels_are_no_markup() -> None:
    columns = {"far": ["<1 h", "2 h", "3 h"] * 20, "income": ["<=50K", ">50K"] * 30}
    found = only(written.markup(examine(pl.DataFrame(columns), "income")))
    assert (found.columns, len(found.rows)) == (("far",), 20)
    columns["far"][7] = "R&amp;D <b>here</b>"
    assert only(written.markup(examine(pl.DataFrame(columns), "income"))).rows == (7,)


def test_a_copy_of_the_target_is_a_leak() -> None:
    finding = leaks(made(prize=[10 if won == "yes" else 0 for won in clean()["won"]]))[0]
    assert (finding.kind, finding.severity, finding.columns) == ("leak", "error", ("prize",))


RULED = {
    "grade": Column(allowed=("1", "2.0", "3")),
    "price": Column(pattern="[0-9]+([.][0-9]{1,2})?"),
    "day": Column(pattern="2024-[0-9]{2}-[0-9]{2}"),
    "class": Column(kind="categorical", allowed=("1.0", "2")),
    "code": Column(pattern="(?!x)[a-z][0-9]+"),
}


def test_a_rule_of_words_holds_for_what_was_typed_before_too() -> None:
    """A contract is held to cells as they stand in the file, and, before a training, to numbers
    and moments."""
    count = 40
    written = pl.DataFrame(
        {
            "grade": ["1", "2", "3.0", "4"] * (count // 4),
            "price": ["1.50", "2", "3.0", "0.125"] * (count // 4),
            "day": [f"{2023 if row == 5 else 2024}-01-{1 + row % 28:02d}" for row in range(count)],
            "class": ["1", "2", "2", "3"] * (count // 4),
            "code": ["a1", "x1", "b22", "c"] * (count // 4),
        }
    )
    types = {"class": pl.String, "code": pl.String, "day": pl.Datetime("us")}
    typed = written.select(
        (pl.col(name).str.to_datetime() if name == "day" else pl.col(name)).cast(
            types.get(name, pl.Float64())
        )
        for name in written.columns
    )
    for frame in (written, typed):
        found = ranges.against_schema(examine(frame, "", RULED), RULED)
        assert {one.columns[0]: one.rows for one in found} == {
            "grade": tuple(range(3, count, 4)),
            "price": tuple(range(3, count, 4)),
            "day": (5,),
            "class": tuple(range(3, count, 4)),
            "code": tuple(row for row in range(count) if row % 4 in (1, 3)),
        }


def test_rows_are_looked_at_for_the_rule_that_is_asked_for() -> None:
    column = Column.model_construct(range=(0.0, 1.0), pattern="(no pattern")
    (look,) = examine(pl.DataFrame({"x": np.arange(30) / 20})).looks
    broken = ranges.broken_rows(look, column)
    assert broken.kinds == ("out_of_range", "pattern_mismatch")
    assert int(broken["out_of_range"].sum()) == 9
    with pytest.raises(re.error):
        _ = broken["pattern_mismatch"]
