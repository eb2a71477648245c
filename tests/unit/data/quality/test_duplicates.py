"""Rows that stand in the data more than once, and equal rows with different labels."""

from __future__ import annotations

import polars as pl

from clean_rows import clean, only, sentences
from trainwright.data.quality.copies import duplicates
from trainwright.data.quality.copies.near_duplicates import near_duplicates
from trainwright.data.quality.examined_data import examine


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
    assert found[0].message == "1 row repeats an earlier row (1 different row)"
    assert "1 validation or test row equals a training row, of 1 in total" in found[1].message


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
