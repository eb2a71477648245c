from __future__ import annotations

from reliability import Row


def test_counts_are_shown_whole() -> None:
    row = Row(passed=1)
    for text in ("histories=10000", "histories=16", "most_saves=7", "most_saves=5"):
        row.count(text)
    assert row.figure == "histories 10,016 · most saves 7 · 1 test"
