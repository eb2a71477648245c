"""Texts of low quality, and categories that only look so."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from clean_rows import ROWS, WORDS, only
from trainwright.data.quality.content import text_quality as written
from trainwright.data.quality.examined_data import ExaminedData, examine
from trainwright.data.quality.finding import Finding

CODE = """```
def calculator(num1, num2, operator):
    if operator == "+":
        return num1 + num2
    elif operator == "-":
        return num1 - num2
    elif operator == "*":
        return num1 * num2
    elif operator == "/":
        return num1 / num2
    else:
        return None

# Example:
print(calculator(5, 2, "*")) # 10
```
This calculator takes two numbers and an operator."""


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
def test_texts_of_low_quality(check: Callable[[ExaminedData], list[Finding]], text: str) -> None:
    texts = [
        f"my card number {row} was declined while I was paying for {WORDS[row % 18]} in a shop"
        for row in range(ROWS)
    ]
    frame = pl.DataFrame({"text": texts, "label": ["a", "b"] * 200})
    assert check(examine(frame, "label")) == []
    texts[11] = text
    assert only(check(examine(frame.with_columns(text=pl.Series(texts)), "label"))).rows == (11,)


def test_code_is_no_other_language() -> None:
    texts = [
        f"Here is how the {WORDS[row % 18]} with the number {row} can be computed in Python"
        for row in range(ROWS)
    ]
    texts[11] = CODE
    frame = pl.DataFrame({"text": texts, "label": ["a", "b"] * 200})
    assert written.other_language(examine(frame, "label")) == []


def test_comparisons_in_labels_are_no_markup() -> None:
    columns = {"far": ["<1 h", "2 h", "3 h"] * 20, "income": ["<=50K", ">50K"] * 30}
    found = only(written.markup(examine(pl.DataFrame(columns), "income")))
    assert (found.columns, len(found.rows)) == (("far",), 20)
    columns["far"][7] = "R&amp;D <b>here</b>"
    assert only(written.markup(examine(pl.DataFrame(columns), "income"))).rows == (7,)


def test_of_very_many_texts_a_sample_has_its_language_judged_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [
        f"my card number {row} was declined while I was paying for {WORDS[row % 18]} in a shop"
        for row in range(ROWS)
    ]
    texts[12] = "die Bank hat mir gestern eine neue Karte geschickt, die nicht funktioniert hat"
    frame = pl.DataFrame({"text": texts, "label": ["a", "b"] * (ROWS // 2)})
    monkeypatch.setattr(written, "_MOST_TEXTS", ROWS // 2)
    found = only(written.other_language(examine(frame, "label")))
    assert f"(en), among {ROWS // 2} checked" in found.message
