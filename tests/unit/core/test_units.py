"""Quantities as a person reads them."""

from __future__ import annotations

import pytest

from trainwright.core.formatting import many


@pytest.mark.parametrize(
    ("count", "words", "shown"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (1200, ("row",), "1,200 rows"),
        (1, ("class", "classes"), "1 class"),
        (2, ("class", "classes"), "2 classes"),
    ],
)
def test_one_is_not_several(count: int, words: tuple[str, ...], shown: str) -> None:
    assert many(count, *words) == shown
