"""Units of numbers, in an order that is the same in every process."""

from __future__ import annotations

from trainwright.data.base.parse_cells import spellings


def test_spellings_are_in_one_order() -> None:
    assert spellings("$") == ["US$", "USD", "$"]
    assert spellings("kg") == ["kg"]
