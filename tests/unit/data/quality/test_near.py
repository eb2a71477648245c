"""Near copies: of texts in other words here and there, of rows with one other cell; and rows that
chance makes equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from trainwright.data.quality.copies import duplicates
from trainwright.data.quality.copies.duplicates import (
    EqualPairs,
    conflicting_labels,
    exact_duplicates,
)
from trainwright.data.quality.copies.near_duplicates import near_duplicates
from trainwright.data.quality.examined_data import ExaminedData, examine

ROWS, COPIES = 600, 40
Random = np.random.Generator
Edit = Callable[[list[str], Random], list[str]]
NAMES = ["anna", "berlin", "copper", "dragon", "eleven", "forest", "garden"]


def sentences(random: Random) -> list[list[str]]:
    """Words as common as in a language: the n-th with a share of about 1 / n."""
    ends = ("an", "eril", "osto", "um", "ivy")
    first = [f"{letter}{end}" for letter in "bdfgklmnprst" for end in ends]
    words = np.array([f"{one}{end}" for end in ("", *first) for one in first][:2000])
    shares = 1 / np.arange(1, len(words) + 1)
    return [
        random.choice(words, 20, replace=False, p=shares / shares.sum()).tolist()
        for _ in range(ROWS)
    ]


def replaced(words: list[str], random: Random) -> list[str]:
    """One word in six."""
    return [str(random.choice(NAMES)) if at % 6 == 2 else word for at, word in enumerate(words)]


def slipped(words: list[str], random: Random) -> list[str]:
    """Two neighbouring letters exchanged in two words."""
    return [word[1] + word[0] + word[2:] if at in (1, 8) else word for at, word in enumerate(words)]


EDITS: dict[str, Edit] = {
    "other words": replaced,
    "words left out": lambda words, _: [word for at, word in enumerate(words) if at % 7 != 3],
    "another order": lambda words, _: words[7:] + words[:7],
    "slips": slipped,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_texts_with_other_words_here_and_there(edit: Edit) -> None:
    random = np.random.default_rng(0)
    texts = sentences(random)
    alone = [" ".join(words) for words in texts]
    clean = {
        row for one in near_duplicates(examine(pl.DataFrame({"text": alone}))) for row in one.rows
    }
    copies = [" ".join(edit(words, random)) for words in texts[:COPIES]]
    (found,) = near_duplicates(examine(pl.DataFrame({"text": alone + copies})))
    planted = set(range(ROWS, ROWS + COPIES))
    assert len(planted & set(found.rows)) >= 0.9 * COPIES
    assert len(set(found.rows) - planted - clean) == 0
    assert len(clean) <= 0.02 * ROWS


def table(random: Random) -> dict[str, object]:
    height = random.normal(170, 9, ROWS)
    return {
        "height": height.round(2),
        "weight": (height * 0.4 + random.normal(0, 5, ROWS)).round(2),
        "income": random.gamma(3, 900, ROWS).round(2),
        "city": random.choice(["Bern", "Oslo", "Rome"], ROWS),
        "won": random.choice(["yes", "no"], ROWS),
    }


def test_rows_that_lack_the_same_numbers_are_no_copies() -> None:
    frame = pl.DataFrame(table(np.random.default_rng(0)))
    empty = frame[:COPIES].with_columns(
        height=pl.lit(171.2), weight=pl.lit(None, pl.Float64), city=pl.lit("Bern")
    )
    assert near_duplicates(examine(pl.concat([frame, empty]), "won")) == []


def test_visits_of_one_patient_are_no_copies() -> None:
    patients = pl.DataFrame(table(np.random.default_rng(0)))
    visits = pl.concat([patients.with_columns(visit=pl.lit(number)) for number in (1, 2, 3)])
    assert near_duplicates(examine(visits, "won")) == []


def test_rows_of_few_values_that_differ_in_one_are_no_copies() -> None:
    random = np.random.default_rng(0)
    answers = {f"question {at}": random.integers(1, 6, 2000) for at in range(5)}
    assert near_duplicates(examine(pl.DataFrame(answers))) == []


def test_rows_of_few_values_are_equal_by_chance() -> None:
    random = np.random.default_rng(0)
    few = pl.DataFrame(
        {name: random.choice(["a", "b", "c"], ROWS) for name in ("one", "other", "label")}
    )
    for check in (exact_duplicates, conflicting_labels):
        (found,) = check(examine(few, "label"))
        assert found.severity == "info"
        assert "by chance" in found.message


def test_copies_among_rows_that_hardly_repeat_are_a_fault() -> None:
    frame = pl.DataFrame(table(np.random.default_rng(0)))
    turned = pl.when(pl.col("won") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes"))
    copies = [frame[:COPIES], frame[:COPIES].with_columns(turned.alias("won"))]
    data = examine(pl.concat([frame, *copies]), "won")
    assert [one.severity for one in exact_duplicates(data)] == ["warning"]
    assert [one.severity for one in conflicting_labels(data)] == ["warning"]


def test_equal_texts_are_never_chance() -> None:
    texts = [" ".join(words) for words in sentences(np.random.default_rng(0))]
    frame = pl.DataFrame({"text": texts + texts[:COPIES], "y": ["a", "b"] * ((ROWS + COPIES) // 2)})
    (found,) = exact_duplicates(examine(frame, "y"))
    assert found.severity == "warning"


@pytest.mark.parametrize("kind", ["numbers", "categories of their own"])
def test_copies_of_one_column_are_a_fault(kind: str) -> None:
    random = np.random.default_rng(0)
    numbers = random.normal(size=2000)
    numbers[100:140] = numbers[:40]
    labels = random.choice(["a", "b"], 2000)
    labels[100:140] = np.where(labels[:40] == "a", "b", "a")
    values = numbers if kind == "numbers" else [f"k{number:.12f}" for number in numbers]
    data = examine(pl.DataFrame({"one": values, "label": labels}), "label")
    looks = tuple(replace(look, reason="") for look in data.looks)
    (found,) = conflicting_labels(replace(data, looks=looks))
    assert (found.severity, found.count) == ("warning", 80)


@pytest.mark.parametrize("beside", [{}, {"version": "1.0"}, {"version": "1.0", "by": "us"}])
def test_one_column_of_few_values_is_equal_by_chance(beside: dict[str, str]) -> None:
    """Columns of one value say nothing, in either way."""
    random = np.random.default_rng(0)
    frame = pl.DataFrame({name: random.choice(["a", "b", "c"], ROWS) for name in ("one", "y")})
    frame = frame.with_columns(**{name: pl.lit(value) for name, value in beside.items()})
    for check in (exact_duplicates, conflicting_labels):
        (found,) = check(examine(frame, "y"))
        assert found.severity == "info"


def test_a_column_and_its_square_are_one() -> None:
    """Coarse answers stay coarse where a column is a function of another."""
    random = np.random.default_rng(0)
    ages = random.integers(20, 30, 1000)
    frame = pl.DataFrame(
        {
            **{"age": ages, "squared": ages**2, "married": random.integers(0, 2, 1000)},
            **{"single": 0, "children": random.integers(0, 4, 1000)},
        }
    ).with_columns(single=1 - pl.col("married"))
    rows = EqualPairs.of(frame, ())
    assert rows.are_chance
    assert not rows.are_copies


@pytest.mark.parametrize("rows", [30, 70])
def test_whole_numbers_of_one_column_are_equal_by_chance(rows: int) -> None:
    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"weight": random.integers(100, 400, rows), "feed": random.choice(["a", "b"], rows)}
    )
    assert [one.severity for one in conflicting_labels(examine(frame, "feed"))] in ([], ["info"])


def test_copies_in_a_coarse_table_are_no_chance() -> None:
    random = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{at}": random.integers(0, 6, 2000) for at in range(8)})
    assert EqualPairs.of(frame, ()).are_chance
    rows = EqualPairs.of(pl.concat([frame, frame[:COPIES]]), ())
    assert not rows.are_chance


def copied_across(turned: int) -> ExaminedData:
    """A hundred test rows that equal training rows, but for so many turns of a rare flag."""
    random = np.random.default_rng(0)
    columns: dict[str, np.ndarray] = {f"x{at}": random.normal(size=2000) for at in range(6)}
    columns["flag"] = (random.random(2000) < 0.01).astype(np.int64)
    columns["y"] = random.choice(["a", "b"], 2000)
    for values in columns.values():
        values[1500:1600] = values[:100]
    columns["flag"][1500 : 1500 + turned] = 1 - columns["flag"][:turned]
    data = examine(pl.DataFrame(columns), "y")
    return replace(data, parts=np.where(np.arange(2000) < 1500, 0, 2))


def test_two_edited_copies_do_not_excuse_the_others() -> None:
    found = exact_duplicates(copied_across(turned=2))
    assert [(one.count, one.severity) for one in found] == [(98, "warning"), (98, "warning")]


def test_a_row_number_with_gaps_does_not_hide_copies() -> None:
    frame = pl.DataFrame(table(np.random.default_rng(0)))
    frame = pl.concat([frame, frame[:COPIES]])
    numbered = frame.with_columns(obs=3 * pl.int_range(pl.len()) + pl.int_range(pl.len()) % 2)
    (found,) = exact_duplicates(examine(numbered, "won"))
    assert found.count == COPIES


def test_wide_rows_are_compared_in_passing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work grows with the columns, not with their square."""
    sorted_rows = 0

    def counting(keys: np.ndarray) -> float:
        nonlocal sorted_rows
        sorted_rows += len(keys)
        return pairs(keys)

    pairs = duplicates._pairs
    monkeypatch.setattr(duplicates, "_pairs", counting)
    random = np.random.default_rng(0)
    for columns in (30, 60):
        frame = pl.DataFrame(random.integers(0, 2**60, (500, columns)))
        rows = EqualPairs.of(pl.concat([frame, frame[:50]]), ())
        assert (rows.equal, rows.are_copies, rows.are_chance) == (50, True, False)
        assert sorted_rows <= 550 * (columns + 10)
        sorted_rows = 0


def test_brothers_with_nearly_one_name_are_no_copies() -> None:
    random = np.random.default_rng(0)
    families = ["".join(random.choice(list("abcdefghij klmnop"), 40)) for _ in range(150)]
    names = [f"{family}, Master {first}" for family in families for first in "AB"]
    ages = [row % 61 / 2 for row in range(300)]
    frame = pl.DataFrame({"name": names, "age": ages, "won": ["yes", "no", "no"] * 100})
    assert near_duplicates(examine(frame, "won")) == []
    (found,) = near_duplicates(examine(frame.with_columns(age=30.0), "won"))
    assert found.count == 150
