"""Spellings of one word, and words and dates that stand for missing."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from trainwright.data.quality.columns.missing_values import placeholders
from trainwright.data.quality.columns.value_formats import variant_spellings, wrong_type
from trainwright.data.quality.content.text_quality import mojibake, repeated_text
from trainwright.data.quality.examined_data import examine
from trainwright.data.quality.run_checks import find_faults

ROWS = 400
CITIES = ["Zürich", "Rome", "Oslo", "São Paulo"]


def places(**at: str) -> pl.DataFrame:
    """A column of cities, with another word in the rows that are named."""
    words = list(np.random.default_rng(0).choice(CITIES, ROWS))
    for row, word in at.items():
        words[int(row.removeprefix("row"))] = word
    return pl.DataFrame({"city": words, "x": np.random.default_rng(1).normal(size=ROWS)})


@pytest.mark.parametrize(
    "word",
    [
        "Zurich",
        "Zu\u0308rich",
        "Rome\u200b",
        "Ro\u00adme",
        "R\u043em\u0435",
        "sao paulo",
        "ＯＳＬＯ",
    ],
)
def test_one_word_in_another_spelling(word: str) -> None:
    assert variant_spellings(examine(places())) == []
    (found,) = variant_spellings(examine(places(row7=word)))
    assert found.rows == (7,)


@pytest.mark.parametrize(
    "words", [["band -1", "band 1"], ["か", "が"], ["Мир", "Mip"], ["-1", "1"], ["m²", "m2"]]
)
def test_other_words_are_no_spellings(words: list[str]) -> None:
    frame = pl.DataFrame({"word": words * 100 + ["else"], "x": range(201)})
    found = variant_spellings(examine(frame))
    assert found == []


@pytest.mark.parametrize(
    ("word", "severity"),
    [("n/a", "warning"), ("(Missing)", "warning"), ("--", "warning"), ("unknown", "info")],
)
def test_words_that_stand_for_missing(word: str, severity: str) -> None:
    assert placeholders(examine(places())) == []
    (found,) = placeholders(examine(places(row3=word, row9=word)))
    assert (found.kind, found.severity, found.rows) == ("unlikely_values", severity, (3, 9))


@pytest.mark.parametrize("signs", [["+", "-"], ["-", "--", "---"]])
def test_signs_are_values_beside_signs(signs: list[str]) -> None:
    assert (
        placeholders(examine(pl.DataFrame({"sign": signs * 40, "x": range(40 * len(signs))}))) == []
    )


def test_accents_are_a_mistake_for_sure_only_beside_others() -> None:
    """Two words may differ in an accent."""
    numbers = np.random.default_rng(0).normal(size=201)
    for other, severity in (("ano", "warning"), ("AÑO", "error")):
        frame = pl.DataFrame({"x": numbers, "y": ["año", other] * 100 + ["mes"]})
        (found,) = variant_spellings(examine(frame, "y"))
        assert (found.severity, found.count) == (severity, 100)


def days(**at: str) -> pl.DataFrame:
    random = np.random.default_rng(0)
    first = dt.date(2019, 1, 1)
    words = [str(first + dt.timedelta(int(day))) for day in random.integers(0, 1500, ROWS)]
    for row, word in at.items():
        words[int(row.removeprefix("row"))] = word
    return pl.DataFrame({"day": words})


@pytest.mark.parametrize("day", ["1900-01-01", "1970-01-01", "9999-12-31", "2219-05-05"])
def test_dates_far_from_all_others(day: str) -> None:
    assert placeholders(examine(days())) == []
    (found,) = placeholders(examine(days(row3=day, row9=day)))
    assert (found.kind, found.severity, found.rows) == ("unlikely_values", "warning", (3, 9))
    assert day in found.message


def test_dates_with_a_long_past_are_as_they_should_be() -> None:
    random = np.random.default_rng(0)
    ago = (random.exponential(2000, ROWS)).astype(int)
    frame = pl.DataFrame({"born": [str(dt.date(2020, 1, 1) - dt.timedelta(int(d))) for d in ago]})
    assert placeholders(examine(frame)) == []


def test_numbers_of_tickets_are_no_wrong_type() -> None:
    random = np.random.default_rng(0)
    tickets = [str(n) if n % 3 else f"PC {n}" for n in random.integers(1000, 9999, ROWS)]
    (found,) = wrong_type(examine(pl.DataFrame({"ticket": tickets})))
    assert found.severity == "info"
    words = [str(n) if n % 3 else "n. k." for n in random.integers(1000, 9999, ROWS)]
    (found,) = wrong_type(examine(pl.DataFrame({"amount": words})))
    assert found.severity == "warning"


def test_a_key_that_was_held_down_and_blanks_without_width() -> None:
    texts = [f"the bank sent my card number {row} to me today" for row in range(ROWS)]
    assert repeated_text(examine(pl.DataFrame({"text": texts}))) == []
    assert mojibake(examine(pl.DataFrame({"text": texts}))) == []
    texts[3] = "a" * 250 + texts[3]
    texts[5], texts[8] = "a" * 60, "the bank\u200b sent my card to me today"
    data = examine(pl.DataFrame({"text": texts}))
    assert [one.rows for one in repeated_text(data)] == [(5,)]
    assert [one.rows for one in mojibake(data)] == [(8,)]


def test_a_target_of_texts_has_no_classes() -> None:
    """Answers that a model learns to write are no classes of one row each."""
    asked = [f"what is {row} and {row + 1}" for row in range(ROWS)]
    answers = [f"it is the number {2 * row + 1} of course" for row in range(ROWS)]
    found = find_faults(examine(pl.DataFrame({"asked": asked, "answer": answers}), "answer"), {})
    assert not {"rare_class", "class_imbalance", "label_error"} & {one.kind for one in found}
