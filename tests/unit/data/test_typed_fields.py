"""Fields of objects that were read from JSON."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from trainwright.data.base.typed_fields import check_annotated


@dataclass(frozen=True)
class Mean:
    value: float | None


def test_a_number_beyond_64_bits_is_a_number() -> None:
    check_annotated(Mean(10**30), "features.json")
    with pytest.raises(ValueError, match="value"):
        check_annotated(Mean(float("nan")), "features.json")
